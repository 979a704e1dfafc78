package sluice

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAnswersAreTruthful holds every answer of a random history to what a
// caller may rely on.
func TestAnswersAreTruthful(t *testing.T) {
	each(t, func(t *rapid.T, a Algorithm) {
		k := newKey(t, drawLimit(t, a))
		h := newHistory(t, &k.meter, 0)
		for range h.steps {
			h.forward()
			n, unit := h.amount(k.meter.capacity), int64(0)
			if h.IntN(4) == 0 {
				unit = 1 + h.Int64N(n)
			}
			before := clone(&k.state)
			d := k.takeUnits(h.now, n, unit)
			checkFields(t, k, d, n)
			if unit == 0 {
				unit = n
			}
			switch {
			case !d.Allowed:
				checkUnchanged(t, k, before)
				checkRetry(t, k, h.now, unit, d)
			case d.Granted < n && d.RetryAfter > 0:
				checkRetry(t, k, h.now, unit, d)
			}
			checkPeek(t, k, h.now, d)
		}
	})
}

// checkFields holds the fields of an answer to their bounds.
func checkFields(t failer, k *key, d Decision, n int64) {
	t.Helper()
	switch {
	case d.Limit != k.meter.capacity:
		t.Fatalf("%v: Limit is %d", k.limit, d.Limit)
	case d.Remaining < 0 || d.Remaining > d.Limit:
		t.Fatalf("%v: Remaining is %d of %d", k.limit, d.Remaining, d.Limit)
	case d.Allowed != (d.Granted > 0) || d.Granted > n:
		t.Fatalf("%v: Allowed is %v with %d of %d granted", k.limit, d.Allowed, d.Granted, n)
	case d.Granted == n && d.RetryAfter != 0:
		t.Fatalf("%v: RetryAfter is %v though all was granted", k.limit, d.RetryAfter)
	case !d.Allowed && d.RetryAfter <= 0:
		t.Fatalf("%v: RetryAfter is %v for a refusal", k.limit, d.RetryAfter)
	case d.ResetAfter < 0 || d.ResetAfter == 0 && d.Remaining < d.Limit:
		t.Fatalf("%v: ResetAfter is %v with %d of %d left", k.limit, d.ResetAfter, d.Remaining, d.Limit)
	}
}

// checkUnchanged fails if a refused call changed the state.
func checkUnchanged(t failer, k *key, before *State) {
	t.Helper()
	if !same(&k.state, before) {
		t.Fatalf("%v: a refused call made %+v of %+v", k.limit, k.state, *before)
	}
}

// checkRetry fails unless a caller passes that waits exactly RetryAfter, alone,
// and not a tick earlier; and unless the key is as new after ResetAfter.
func checkRetry(t failer, k *key, now, unit int64, d Decision) {
	t.Helper()
	wait := durationTicks(d.RetryAfter)
	later := &key{k.limit, k.meter, *clone(&k.state)}
	if early := later.take(now+wait-1, unit); early.Allowed {
		t.Fatalf("%v: a caller told to wait %v for %d passes a tick earlier", k.limit, d.RetryAfter, unit)
	}
	later = &key{k.limit, k.meter, *clone(&k.state)}
	if late := later.take(now+wait, unit); !late.Allowed {
		t.Fatalf("%v: a caller that waited %v for %d is refused: %+v", k.limit, d.RetryAfter, unit, late)
	}
	if room := k.meter.Room(&k.state, now+durationTicks(d.ResetAfter)); room != d.Limit {
		t.Fatalf("%v: after %v %d of %d are left", k.limit, d.ResetAfter, room, d.Limit)
	}
}

// checkPeek fails if a peek writes, or tells another story than the call before.
func checkPeek(t failer, k *key, now int64, d Decision) {
	t.Helper()
	before := clone(&k.state)
	peek := k.take(now, 0)
	if !same(&k.state, before) {
		t.Fatalf("%v: a peek made %+v of %+v", k.limit, k.state, *before)
	}
	want := Decision{Allowed: true, Limit: d.Limit, Remaining: d.Remaining, ResetAfter: d.ResetAfter, At: peek.At}
	if peek != want {
		t.Fatalf("%v: a peek is %+v, want %+v", k.limit, peek, want)
	}
}

// TestClockSetBackBlocksNoKeyLong lets the clock jump back and forth. Then
// nothing bounds what is admitted, but no wait is longer than two refills, and
// waits stay truthful.
func TestClockSetBackBlocksNoKeyLong(t *testing.T) {
	each(t, func(t *rapid.T, a Algorithm) {
		k := newKey(t, drawLimit(t, a))
		h := newHistory(t, &k.meter, 0)
		most := 2 * k.meter.span
		switch a {
		case SlidingLog:
			most += k.meter.Quantum()
		case SlidingWindow: // it refills in two periods
			most += k.meter.span
		}
		for range h.steps {
			h.jump()
			n := h.amount(k.meter.capacity)
			checkPeek(t, k, h.now, k.take(h.now, 0))
			d := k.take(h.now, n)
			checkFields(t, k, d, n)
			if durationTicks(d.RetryAfter) > most || durationTicks(d.ResetAfter) > most {
				t.Fatalf("%v: %+v waits longer than two refills", k.limit, d)
			}
			if !d.Allowed {
				checkRetry(t, k, h.now, n, d)
			}
		}
	})
}

// TestClockStandingAdmitsNoMore holds that a clock that steps back within a
// period, and then on, admits no more than one that stood still meanwhile.
func TestClockStandingAdmitsNoMore(t *testing.T) {
	for _, limit := range []string{"5/s", "5/s fixed_window", "5/s sliding_window", "5/s sliding_log"} {
		for _, back := range []int64{1, 1000, ticksPerSecond / 2, ticksPerSecond} {
			k := newKey(t, limit)
			now := int64(10 * ticksPerSecond)
			if got := k.passes(now, 10); got != 5 {
				t.Errorf("%s: %d pass, want 5", limit, got)
			}
			if got := k.passes(now-back, 10); got != 0 {
				t.Errorf("%s: with the clock set back by %d ticks %d more pass, want 0", limit, back, got)
			}
		}
	}
}
