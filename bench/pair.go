package main

import (
	"fmt"
	"runtime"
	"slices"
)

// A side measures one round of one of the two things compared.
type side func() (sample, error)

// A sample is what one round came to.
type sample struct {
	value  float64 // in the benchmark's unit
	allocs float64 // a decision
}

// A result is what the rounds of a benchmark came to, as medians.
type result struct {
	ours    float64
	theirs  float64
	ratio   float64 // of the ratios of the pairs, not of the medians
	allocs  float64 // of ours
	paired  bool    // theirs and ratio mean something
	counted bool    // allocs means something
}

// compare measures both sides by turns, so that whatever slows the machine
// down slows both, and changes who goes first from pair to pair.
func compare(pairs int, ours, theirs side) (result, error) {
	var our, their, ratios, allocs []float64
	for i := range pairs {
		sides := []side{ours, theirs}
		var got [2]sample
		for j := range sides {
			k := (i + j) % 2
			runtime.GC() // each round pays for its own garbage only
			var err error
			if got[k], err = sides[k](); err != nil {
				return result{}, err
			}
		}
		if got[1].value <= 0 {
			return result{}, fmt.Errorf("the other side measured %g: want more than 0", got[1].value)
		}
		our = append(our, got[0].value)
		their = append(their, got[1].value)
		ratios = append(ratios, got[0].value/got[1].value)
		allocs = append(allocs, got[0].allocs)
	}
	return result{
		ours:   median(our),
		theirs: median(their),
		ratio:  median(ratios),
		allocs: median(allocs),
		paired: true,
	}, nil
}

// repeat measures one side alone.
func repeat(times int, ours side) (result, error) {
	var values, allocs []float64
	for range times {
		runtime.GC()
		got, err := ours()
		if err != nil {
			return result{}, err
		}
		values = append(values, got.value)
		allocs = append(allocs, got.allocs)
	}
	return result{ours: median(values), allocs: median(allocs)}, nil
}

// median returns the middle value, or the mean of the two in the middle; 0 of
// none.
func median(values []float64) float64 { return percentile(values, 50) }

// percentile returns the value below which p percent of the values lie,
// interpolated between its neighbours; 0 of none. It leaves values as they are.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := min(max(p, 0), 100) / 100 * float64(len(sorted)-1)
	low := int(at)
	if low == len(sorted)-1 {
		return sorted[low]
	}
	part := at - float64(low)
	return sorted[low]*(1-part) + sorted[low+1]*part
}
