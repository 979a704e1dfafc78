package sluice

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGivenBackTokensNeverAdmitMore gives grants back some time later, one at a
// time, and holds what was really kept to the algorithm's own bound, as if the
// others had never been granted.
func TestGivenBackTokensNeverAdmitMore(t *testing.T) {
	each(t, func(t *rapid.T, a Algorithm) {
		k := newKey(t, drawLimit(t, a))
		grants := admitAndGiveBack(t, k)
		switch a {
		case TokenBucket:
			checkBurst(t, k.limit, grants)
		case FixedWindow:
			checkWindows(t, k.limit, grants)
		case SlidingWindow:
			checkWindows(t, k.limit, grants)
			checkAnyWindow(t, k.limit, grants, 2*k.limit.Tokens-1)
		case SlidingLog:
			checkAnyWindow(t, k.limit, grants, k.limit.Tokens)
		}
	})
}

// admitAndGiveBack runs a history in which at most one grant at a time waits to
// be given back; one given back counts nothing.
func admitAndGiveBack(t *rapid.T, k *key) []grant {
	h := newHistory(t, &k.meter, 0)
	var grants []grant
	pending, due := -1, 0
	var from Decision
	for i := range h.steps {
		h.forward()
		if pending >= 0 && i >= due {
			k.settle(h.now, -grants[pending].n, from)
			grants[pending].n, pending = 0, -1
		}
		n := h.amount(k.meter.capacity)
		d := k.take(h.now, n)
		if !d.Allowed {
			continue
		}
		grants = append(grants, grant{h.now, n})
		if pending < 0 && h.IntN(3) == 0 {
			pending, due, from = len(grants)-1, i+h.IntN(10), d
		}
	}
	return grants
}

// TestBucketKeepsItsBoundLessWhatWasGivenBack lets give-backs cross: then what
// any window admits, less what is given back in it, stays within the bound.
func TestBucketKeepsItsBoundLessWhatWasGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(t, drawLimit(t, TokenBucket))
		h, bound := newHistory(t, &k.meter, 0), newLeak(k.limit)
		var given []Decision
		for range h.steps {
			h.forward()
			if len(given) > 0 && h.IntN(3) == 0 {
				i := h.IntN(len(given))
				k.settle(h.now, -given[i].Granted, given[i])
				bound.add(h.now, -given[i].Granted)
				given = append(given[:i], given[i+1:]...)
			}
			if d := k.take(h.now, h.amount(k.meter.capacity)); d.Allowed {
				if !bound.add(h.now, d.Granted) {
					t.Fatalf("%v: at %d a window holds more than burst + rate x W", k.limit, h.now)
				}
				given = append(given, d)
			}
		}
	})
}

func TestGiveBack(t *testing.T) {
	second := int64(ticksPerSecond)
	for _, tt := range []struct {
		name  string
		limit string
		at    []int64 // when one token each is taken
		from  int     // which of these is given back
		when  int64
		want  int64 // room then
	}{
		{"B34: an exhausted bucket has one", "3/s", []int64{0, 0, 0}, 0, 0, 1},
		{"a bucket that owes it still", "3/m", []int64{0, 0, 0}, 2, 19 * second, 1},
		{"a bucket that has refilled since", "3/s", []int64{0, second, second, second}, 0, second, 0},
		{"a full bucket stays full", "3/s", []int64{0}, 0, second, 3},
		{"the same window", "3/s fixed_window", []int64{0, 0, 0}, 1, second - 1, 1},
		{"the next window keeps its own", "3/s fixed_window", []int64{0, second, second, second}, 0, second, 0},
		{"the window before, which still weighs", "3/s sliding_window", []int64{0, 0, 0}, 0, second, 1},
		{"two windows before", "3/s sliding_window", []int64{0, 2 * second, 2 * second, 2 * second}, 0, 2 * second, 0},
		{"an entry of the log", "3/s sliding_log", []int64{0, 1000, 2000}, 1, 3000, 1},
		{"an entry that has left", "3/s sliding_log", []int64{0, 1600, 1600, 1600 + second}, 0, 1600 + second, 2},
		{"the newest entry", "3/s sliding_log", []int64{0, 1600, 3200}, 2, 3200, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKey(t, tt.limit)
			var from Decision
			for i, at := range tt.at {
				d := k.take(at, 1)
				if !d.Allowed {
					t.Fatalf("take %d is refused", i)
				}
				if i == tt.from {
					from = d
				}
			}
			k.settle(tt.when, -1, from)
			if got := k.meter.Room(&k.state, tt.when); got != tt.want {
				t.Errorf("room = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestChargeAfterTheFact(t *testing.T) {
	for _, limit := range []string{"10/s", "10/s fixed_window", "10/s sliding_window", "10/s sliding_log"} {
		t.Run(limit, func(t *testing.T) {
			k := newKey(t, limit)
			k.take(0, 4)
			k.settle(0, 3, Decision{})
			if got := k.meter.Room(&k.state, 0); got != 3 {
				t.Errorf("room = %d after 4 and 3 of 10, want 3", got)
			}
			k.settle(0, 1000, Decision{})
			d := k.take(0, 1)
			if d.Allowed || d.Remaining != 0 || d.ResetAfter > 2*time.Second {
				t.Errorf("after a charge over the capacity: %+v, want an exhausted key", d)
			}
			if got := k.meter.Room(&k.state, durationTicks(d.ResetAfter)); got != 10 {
				t.Errorf("room after ResetAfter = %d, want 10", got)
			}
		})
	}
}

// TestChargeKeepsWhatALoweredLimitLeft holds that a charge never frees tokens.
func TestChargeKeepsWhatALoweredLimitLeft(t *testing.T) {
	for _, algorithm := range []string{" fixed_window", " sliding_window", " sliding_log"} {
		k := newKey(t, "100/m"+algorithm)
		k.take(0, 50)
		k.change(t, newKey(t, "10/m"+algorithm).limit)
		k.settle(1, 5, Decision{})
		k.change(t, newKey(t, "100/m"+algorithm).limit)
		if got := k.meter.Room(&k.state, 1); got > 50 {
			t.Errorf("%s: %d are left of 100 after 50 and a charge, want at most 50", algorithm, got)
		}
	}
}
