package main

import (
	"errors"
	"math"
	"testing"
)

func TestPercentile(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		p      float64
		want   float64
	}{
		{nil, 50, 0},
		{[]float64{7}, 50, 7},
		{[]float64{7}, 99, 7},
		{[]float64{3, 1, 2}, 50, 2},
		{[]float64{4, 1, 3, 2}, 50, 2.5},
		{[]float64{10, 20, 30, 40, 50}, 0, 10},
		{[]float64{10, 20, 30, 40, 50}, 25, 20},
		{[]float64{10, 20, 30, 40, 50}, 90, 46},
		{[]float64{10, 20, 30, 40, 50}, 100, 50},
		{[]float64{10, 20}, 150, 20},
		{[]float64{10, 20}, -1, 10},
	} {
		if got := percentile(tt.values, tt.p); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("percentile(%v, %g) = %g, want %g", tt.values, tt.p, got, tt.want)
		}
	}
}

func TestMedianKeepsOrder(t *testing.T) {
	values := []float64{3, 1, 2}
	median(values)
	if values[0] != 3 || values[1] != 1 || values[2] != 2 {
		t.Errorf("values after median = %v, want [3 1 2]", values)
	}
}

// scripted returns a side that measures the values one after another and notes
// its turns.
func scripted(name string, turns *string, values ...float64) side {
	i := 0
	return func() (sample, error) {
		*turns += name
		i++
		return sample{value: values[i-1], allocs: float64(i)}, nil
	}
}

func TestCompareTakesTheMedianOfPairRatios(t *testing.T) {
	var turns string
	// The machine slows down tenfold in the second pair: the medians of the
	// sides would say 20/30, but each pair says 1/2 or thereabouts.
	got, err := compare(3,
		scripted("o", &turns, 10, 200, 20),
		scripted("t", &turns, 20, 400, 30))
	if err != nil {
		t.Fatal(err)
	}
	want := result{ours: 20, theirs: 30, ratio: 0.5, allocs: 2, paired: true}
	if got != want {
		t.Errorf("compare = %+v, want %+v", got, want)
	}
	if turns != "ottoot" {
		t.Errorf("turns = %q, want each side first by turns, %q", turns, "ottoot")
	}
}

func TestCompareReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func() (sample, error) { return sample{}, broken }
	fine := func() (sample, error) { return sample{value: 1}, nil }
	if _, err := compare(1, fine, fails); !errors.Is(err, broken) {
		t.Errorf("compare with a failing peer = %v, want %v", err, broken)
	}
	if _, err := compare(1, fails, fine); !errors.Is(err, broken) {
		t.Errorf("compare with a failing side = %v, want %v", err, broken)
	}
	zero := func() (sample, error) { return sample{}, nil }
	if _, err := compare(1, fine, zero); err == nil {
		t.Error("compare against 0 = nil, want an error instead of an infinite ratio")
	}
}

func TestRepeatTakesTheMedian(t *testing.T) {
	var turns string
	got, err := repeat(3, scripted("o", &turns, 10, 200, 20))
	want := result{ours: 20, allocs: 2}
	if err != nil || got != want {
		t.Errorf("repeat = %+v, %v, want %+v", got, err, want)
	}
	broken := errors.New("broken")
	if _, err := repeat(1, func() (sample, error) { return sample{}, broken }); !errors.Is(err, broken) {
		t.Errorf("repeat = %v, want %v", err, broken)
	}
}
