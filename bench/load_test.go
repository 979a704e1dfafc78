package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRunnerGoesThroughItsOrder(t *testing.T) {
	var got strings.Builder
	r := &runner{order: []string{"a", "b", "c"}, work: func(keys []string) error {
		for _, k := range keys {
			got.WriteString(k)
		}
		return nil
	}}
	for _, n := range []int{2, 5, 0, 1} {
		if err := r.run(n); err != nil {
			t.Fatal(err)
		}
	}
	if want := "abcabcab"; got.String() != want {
		t.Errorf("keys decided = %q, want %q", got.String(), want)
	}
}

func TestTimedReportsAnyWorkersError(t *testing.T) {
	broken := errors.New("broken")
	fine := &runner{order: []string{"a"}, work: func([]string) error { return nil }}
	fails := &runner{order: []string{"a"}, work: func([]string) error { return broken }}
	if _, err := timed([]*runner{fine, fails}, 1); !errors.Is(err, broken) {
		t.Errorf("timed = %v, want %v", err, broken)
	}
}

func TestLoads(t *testing.T) {
	shares := map[string]float64{}
	for name, l := range map[string]load{"serial": serialLoad(), "zipf": zipfLoad(), "uniform": uniformLoad()} {
		for _, order := range l.orders {
			if len(order) != orderLength {
				t.Errorf("%s: order has %d keys, want %d", name, len(order), orderLength)
			}
		}
		counts, most := map[string]int{}, 0
		for _, k := range l.orders[0] {
			if len(k) != keyBytes {
				t.Fatalf("%s: key %q has %d bytes, want %d", name, k, len(k), keyBytes)
			}
			counts[k]++
			most = max(most, counts[k])
		}
		shares[name] = float64(most) / orderLength
	}
	if shares["serial"] != 1 || shares["zipf"] < 0.05 || shares["uniform"] > 0.001 {
		t.Errorf("shares of the most frequent keys = %v, want 1, over 5%% and under 0.1%%", shares)
	}
}

// TestSubjects makes every limiter decide once in each way of being used here:
// an interface that changed would else show only in a long run.
func TestSubjects(t *testing.T) {
	l := load{[][]string{{key(1), key(2)}, {key(2), key(3)}}}
	for _, subject := range append(peers(), ours(wide), ours(idle), front(wide), xtime(idle)) {
		limiter, err := subject.start()
		if err != nil {
			t.Fatalf("%s: %v", subject.name, err)
		}
		if _, err := timed(l.runners(limiter.worker), 4); err != nil {
			t.Errorf("%s: %v", subject.name, err)
		}
		limiter.stop()
	}
}

func TestSideMeasuresTimeAndAllocations(t *testing.T) {
	var kept []*[64]byte
	l := load{[][]string{make([]string, orderLength)}}
	side, err := l.side(time.Millisecond, func() worker {
		return func(keys []string) error {
			for range keys {
				kept = append(kept[:0], new([64]byte))
			}
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := side()
	if err != nil {
		t.Fatal(err)
	}
	if got.value <= 0 || got.allocs < 0.9 || got.allocs > 1.5 {
		t.Errorf("sample = %+v, want some nanoseconds and about 1 allocation", got)
	}
}
