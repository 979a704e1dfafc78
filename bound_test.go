package sluice

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A grant is tokens admitted at a time.
type grant struct{ at, n int64 }

// admit runs a history of takes, in part or whole, with peeks between, and
// returns what was admitted.
func admit(t *rapid.T, k *key) []grant {
	h := newHistory(t, &k.meter, 0)
	var grants []grant
	for range h.steps {
		h.forward()
		n, unit := h.amount(k.meter.capacity), int64(0)
		if h.IntN(5) == 0 {
			unit = 1 + h.Int64N(n)
		}
		if h.IntN(20) == 0 {
			n, unit = 0, 0
		}
		if d := k.takeUnits(h.now, n, unit); d.Granted > 0 {
			grants = append(grants, grant{h.now, d.Granted})
		}
	}
	return grants
}

// A leak is the exact model of burst + rate x W over any window: a level that
// drains at the rate, in fractions of a token, and never exceeds the burst. A
// given-back token lowers it.
type leak struct {
	rate, per    *big.Int // tokens; ticks
	level, burst *big.Int // in 1/per tokens
	last         int64
	begun        bool
}

func newLeak(l Limit) *leak {
	per := big.NewInt(durationTicks(l.Per))
	return &leak{
		rate: big.NewInt(l.Tokens), per: per, level: new(big.Int),
		burst: new(big.Int).Mul(big.NewInt(l.Capacity()), per),
	}
}

// add counts n tokens, or gives them back if below 0, and says whether the
// bound still holds.
func (k *leak) add(at, n int64) bool {
	if !k.begun {
		k.last, k.begun = at, true
	}
	drained := new(big.Int).Mul(k.rate, big.NewInt(at-k.last))
	if k.level.Sub(k.level, drained); k.level.Sign() < 0 {
		k.level.SetInt64(0)
	}
	k.last = at
	if k.level.Add(k.level, new(big.Int).Mul(big.NewInt(n), k.per)); k.level.Sign() < 0 {
		k.level.SetInt64(0)
	}
	return k.level.Cmp(k.burst) <= 0
}

// checkBurst fails if any window holds more than burst + rate x W.
func checkBurst(t *rapid.T, l Limit, grants []grant) {
	bound := newLeak(l)
	for i, g := range grants {
		if g.n > 0 && !bound.add(g.at, g.n) {
			t.Fatalf("%v: a window that ends with grant %d, %+v, holds more than burst + rate x W", l, i, g)
		}
	}
}

// checkWindows fails if a window aligned to the Unix epoch holds more than the
// limit.
func checkWindows(t *rapid.T, l Limit, grants []grant) {
	counts := map[int64]int64{}
	for _, g := range grants {
		micros := floorDiv(g.at, ticksPerMicro) + epochMicros
		window := floorDiv(micros, l.Per.Microseconds())
		if counts[window] += g.n; counts[window] > l.Tokens {
			t.Fatalf("%v: window %d holds %d tokens", l, window, counts[window])
		}
	}
}

// checkAnyWindow fails if any window of the period holds more than most tokens.
func checkAnyWindow(t *rapid.T, l Limit, grants []grant, most int64) {
	held, first := int64(0), 0
	for _, g := range grants {
		for ; grants[first].at <= g.at-durationTicks(l.Per); first++ {
			held -= grants[first].n
		}
		if held += g.n; held > most {
			t.Fatalf("%v: the window that ends at %d holds %d tokens, want at most %d", l, g.at, held, most)
		}
	}
}

func TestTokenBucketAdmitsBurstAndRateInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(t, drawLimit(t, TokenBucket))
		checkBurst(t, k.limit, admit(t, k))
	})
}

func TestFixedWindowAdmitsItsLimitInAlignedWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(t, drawLimit(t, FixedWindow))
		checkWindows(t, k.limit, admit(t, k))
	})
}

func TestSlidingWindowAdmitsUnderTwiceInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(t, drawLimit(t, SlidingWindow))
		grants := admit(t, k)
		checkWindows(t, k.limit, grants)
		checkAnyWindow(t, k.limit, grants, 2*k.limit.Tokens-1)
		checkEstimate(t, k.limit, grants)
	})
}

// checkEstimate fails if the estimate, as an exact fraction, is over the limit
// after an admission.
func checkEstimate(t *rapid.T, l Limit, grants []grant) {
	span, counts := durationTicks(l.Per), map[int64]int64{}
	for _, g := range grants {
		unix := g.at + epochMicros*ticksPerMicro
		window := floorDiv(unix, span)
		counts[window] += g.n
		left := span - (unix - window*span)
		// prev x left / span + count <= limit
		weighed := new(big.Int).Mul(big.NewInt(counts[window-1]), big.NewInt(left))
		room := new(big.Int).Mul(big.NewInt(l.Tokens-counts[window]), big.NewInt(span))
		if weighed.Cmp(room) > 0 {
			t.Fatalf("%v: at %d the estimate of %d and %d is over the limit", l, g.at, counts[window-1], counts[window])
		}
	}
}

func TestSlidingLogAdmitsItsLimitInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(t, drawLimit(t, SlidingLog))
		checkAnyWindow(t, k.limit, admit(t, k), k.limit.Tokens)
	})
}

func TestCalendarDayAdmitsItsLimitInADay(t *testing.T) {
	zones := rapid.SampledFrom([]string{"", "America/New_York", "Asia/Ho_Chi_Minh", "Africa/Cairo", "Australia/Lord_Howe"})
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Tokens: 5, Algorithm: FixedWindow, Calendar: Calendar{CalendarDay, zones.Draw(t, "zone")}}
		k, counts := newKey(t, l), map[string]int64{}
		loc, err := time.LoadLocation(l.Calendar.Zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range admit(t, k) {
			date := TicksTime(g.at).In(loc).Format(time.DateOnly)
			if counts[date] += g.n; counts[date] > l.Tokens {
				t.Fatalf("%v: %s holds %d tokens", l, date, counts[date])
			}
		}
	})
}
