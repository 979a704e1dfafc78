package hot

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSummaryBounds holds the paper's promises against random streams: a weight is
// never under the truth, and over it by at most the stream's part of an entry; own
// counts are never over the truth.
func TestSummaryBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		max := rapid.IntRange(1, 40).Draw(t, "max")
		s := newSummary(max)
		truth := make(map[uint64]uint64)
		total := uint64(0)
		seed := maphash.MakeSeed()
		for range rapid.IntRange(0, 400).Draw(t, "hits") {
			key := strconv.Itoa(rapid.IntRange(0, 100).Draw(t, "key") * rapid.IntRange(0, 3).Draw(t, "times"))
			weight := rapid.Uint64Range(1, 5).Draw(t, "weight")
			hash := maphash.String(seed, key)
			e := s.hit(hash, key, weight)
			e.requests += weight
			truth[hash] += weight
			total += weight
			if string(e.key) != key || s.find(hash) != e {
				t.Fatalf("hit(%q) = %q", key, e.key)
			}
		}
		if len(s.entries) > max {
			t.Fatalf("%d entries of at most %d", len(s.entries), max)
		}
		for i := range s.entries {
			e := &s.entries[i]
			if e.weight < truth[e.hash] || e.weight-e.requests > total/uint64(max) || e.requests > truth[e.hash] {
				t.Fatalf("%q: weight %d, own %d, truly %d, of %d in %d entries", e.key, e.weight, e.requests, truth[e.hash], total, max)
			}
			if s.find(e.hash) != e || s.heap[e.at] != int32(i) {
				t.Fatalf("%q is not found where it is", e.key)
			}
		}
		for hash, n := range truth {
			if n > total/uint64(max) && s.find(hash) == nil {
				t.Fatalf("a key of %d of %d is not among %d", n, total, max)
			}
		}
	})
}

const keys = 1_000_000

// zipf draws numbers of keys by a Zipf law of exponent 1.1. Ranks and numbers have
// nothing to do with each other.
func zipf(seed uint64) func() string {
	random := rand.New(rand.NewPCG(seed, 1))
	ranks := rand.NewZipf(random, 1.1, 1, keys-1)
	return func() string {
		return "tenant-route|tenant=" + strconv.FormatUint(ranks.Uint64()*7_919%keys, 10)
	}
}

// play shows a stream of requests, some a second, to a sketch, and returns what
// the true ten are.
func play(s *sketch, seed uint64, requests int, perSecond float64) []string {
	draw, hashes := zipf(seed), maphash.MakeSeed()
	truth := make(map[string]int)
	for i := range requests {
		key := draw()
		truth[key]++
		if !s.skip() {
			s.observe(hashes, time.Duration(float64(i)/perSecond*float64(time.Second)), key, false, 0)
		}
	}
	all := make([]string, 0, len(truth))
	for key := range truth {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(truth[b], truth[a]) })
	return all[:10]
}

// TestTopTenOfZipf: of a million keys the ten that are said to be the busiest are.
func TestTopTenOfZipf(t *testing.T) {
	for _, tt := range []struct {
		requests  int
		perSecond float64
	}{
		{1_000_000, 19_000}, // all counted, over two generations
		{1_500_000, 50_000}, // a third counted
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%.0f per second, seed %d", tt.perSecond, seed), func(t *testing.T) {
				s := newSketch(0)
				want := play(s, seed, tt.requests, tt.perSecond)
				var got []string
				for _, k := range s.tell(time.Duration(float64(tt.requests)/tt.perSecond*float64(time.Second)), 10).Busiest {
					got = append(got, k.Key)
				}
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("the ten busiest are %v, want %v", got, want)
				}
			})
		}
	}
}
