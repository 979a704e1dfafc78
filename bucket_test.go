package sluice

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBucketIsDecide holds the step for a compare-and-swap to the specification
// in histories with parts, clocks set back and changed limits.
func TestBucketIsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []Limit{drawLimit(t, TokenBucket), drawLimit(t, TokenBucket)}
		k := newKey(t, limits[0])
		h := newHistory(t, &k.meter, 0)
		state := int64(0)
		for range h.steps {
			if h.IntN(500) == 0 {
				k.change(t, limits[h.IntN(2)])
			}
			h.jump()
			n, unit := h.amount(k.meter.capacity), int64(0)
			if h.IntN(3) == 0 {
				n = h.Int64N(2*k.meter.capacity) + 1
				unit = 1 + h.Int64N(min(n, k.meter.capacity))
			}
			want := k.takeUnits(h.now, n, unit)
			if unit == 0 {
				unit = n
			}
			next, got := k.meter.Bucket(state, h.now, n, unit)
			if got != want || next != k.state.Time {
				t.Fatalf("%v: Bucket(%d, %d, %d, %d) = %d, %+v, want %d, %+v", k.limit, state, h.now, n, unit, next, got, k.state.Time, want)
			}
			state = next
		}
	})
}

// TestBucketIsDecideAboutTickZero tries each tick about the one instant that
// states cannot name.
func TestBucketIsDecideAboutTickZero(t *testing.T) {
	for start := int64(-60); start <= 10; start++ {
		for back := range int64(60) {
			k := newKey(t, "1000/ms burst 3")
			state := int64(0)
			for i, now := range []int64{start, start, start + 5, start - back, start - back, start + 16} {
				want := k.take(now, 1)
				next, got := k.meter.Bucket(state, now, 1, 1)
				if got != want || next != k.state.Time {
					t.Fatalf("from %d, back %d, step %d: Bucket = %d, %+v, want %d, %+v", start, back, i, next, got, k.state.Time, want)
				}
				state = next
			}
		}
	}
}

func TestBucketAllocatesNothing(t *testing.T) {
	l, err := ParseLimit("100/s")
	if err != nil {
		t.Fatal(err)
	}
	state := int64(0)
	got := testing.AllocsPerRun(100, func() {
		m, err := l.Meter()
		if err != nil {
			t.Error(err)
		}
		state, _ = m.Bucket(state, 1e15, 1, 1)
	})
	if got != 0 {
		t.Errorf("Meter and Bucket allocate %v times", got)
	}
}

func TestBucketAtTickZero(t *testing.T) {
	k := newKey(t, "10/s")
	if got := k.passes(0, 12); got != 10 {
		t.Errorf("at tick 0 %d pass, want 10", got)
	}
	if got := k.passes(-ticksPerSecond, 12); got != 0 {
		t.Errorf("a second earlier %d pass, want 0", got)
	}
	// A bucket that becomes full at tick 0 is not one never used.
	k = newKey(t, "10/s")
	if got := k.passes(-ticksPerSecond, 12); got != 10 {
		t.Errorf("a second before tick 0 %d pass, want 10", got)
	}
	if got := k.passes(-ticksPerSecond, 12); got != 0 {
		t.Errorf("then %d pass, want 0", got)
	}
	if got := k.passes(1, 12); got != 10 {
		t.Errorf("at tick 1 %d pass, want 10", got)
	}
}
