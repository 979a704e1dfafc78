package sluice

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A slidingModel is the sliding window computed anew from all that was taken,
// by fractions: the estimate is the present count and, rounded up, the count
// before by the part of its window still covered, in steps rounded up.
type slidingModel struct {
	limit Limit
	taken map[int64]int64 // by number of the window
}

// room returns the tokens that may be taken at a store time.
func (s *slidingModel) room(now int64) int64 {
	micros := big.NewInt(s.limit.Per.Microseconds())
	span := new(big.Int).Mul(micros, big.NewInt(ticksPerMicro))
	unix := big.NewInt(now + epochMicros*ticksPerMicro)
	number, into := new(big.Int).DivMod(unix, span, new(big.Int))
	step := ceilQuo(micros, big.NewInt(1<<20))
	steps := new(big.Int).Div(micros, step)
	left := ceilQuo(new(big.Int).Sub(span, into), big.NewInt(ticksPerMicro))
	if left = ceilQuo(left, step); left.Cmp(steps) > 0 {
		left = steps
	}
	n := number.Int64()
	weighed := ceilQuo(new(big.Int).Mul(big.NewInt(s.taken[n-1]), left), steps)
	return max(0, s.limit.Tokens-s.taken[n]-weighed.Int64())
}

func (s *slidingModel) take(now, n int64) {
	s.taken[floorDiv(now+epochMicros*ticksPerMicro, durationTicks(s.limit.Per))] += n
}

func ceilQuo(a, b *big.Int) *big.Int {
	q, r := new(big.Int).DivMod(a, b, new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

func TestSlidingWindowIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t, SlidingWindow)
		if rapid.Bool().Draw(t, "huge") {
			limit.Tokens = MaxTokens - limit.Tokens
		}
		k, model := newKey(t, limit), &slidingModel{limit, map[int64]int64{}}
		h := newHistory(t, &k.meter, 0)
		h.pace = max(1, h.span/10)
		for range min(h.steps, 2000) {
			h.forward()
			n := 1 + h.Int64N(max(1, limit.Tokens/4))
			want := model.room(h.now)
			if room := k.meter.Room(&k.state, h.now); room != want {
				t.Fatalf("%v: Room at %d = %d, want %d", limit, h.now, room, want)
			}
			if d := k.take(h.now, n); d.Allowed != (want >= n) {
				t.Fatalf("%v: take(%d, %d) = %+v with room for %d", limit, h.now, n, d, want)
			} else if d.Allowed {
				model.take(h.now, n)
			}
		}
	})
}

// TestWindowsAreAlignedToTheUnixEpoch holds also for times before 2026 and 1970
// and for the window that starts at tick 0.
func TestWindowsAreAlignedToTheUnixEpoch(t *testing.T) {
	for _, tt := range []struct {
		limit, now, start string
	}{
		{"5/m fixed_window", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		{"5/m fixed_window", "2025-12-31T23:59:59.999999Z", "2025-12-31T23:59:00Z"},
		{"5/h fixed_window", "2015-05-17T10:05:03Z", "2015-05-17T10:00:00Z"},
		{"5/day sliding_window", "1969-12-31T23:00:00Z", "1969-12-31T00:00:00Z"},
		{"5/week fixed_window", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"}, // a Thursday, as 1970-01-01
		{"5/7s fixed_window", "1970-01-01T00:00:08Z", "1970-01-01T00:00:07Z"},
	} {
		k := newKey(t, tt.limit)
		start, end := k.meter.Bounds(Ticks(instant(t, tt.now)))
		if !TicksTime(start).Equal(instant(t, tt.start)) || end-start != durationTicks(k.limit.Per) {
			t.Errorf("%s at %s: Bounds = %v, %v, want %s", tt.limit, tt.now, TicksTime(start).UTC(), TicksTime(end).UTC(), tt.start)
		}
	}
}

func TestWindowThatStartsAtTickZeroCounts(t *testing.T) {
	for _, limit := range []string{"5/s fixed_window", "5/s sliding_window", "5/s sliding_log"} {
		k := newKey(t, limit)
		if got := k.passes(0, 3) + k.passes(1, 4); got != 5 {
			t.Errorf("%s: %d pass at ticks 0 and 1, want 5", limit, got)
		}
	}
}

func TestFixedWindowEndsAtItsEdge(t *testing.T) {
	k := newKey(t, "60/m fixed_window")
	edge := ticksOf(time.Minute)
	if got := k.passes(edge-1, 70); got != 60 {
		t.Errorf("%d pass before the edge, want 60", got)
	}
	if d := k.take(edge-1, 1); durationTicks(d.RetryAfter) != 1 {
		t.Errorf("RetryAfter a tick before the edge = %v, want a tick", d.RetryAfter)
	}
	if got := k.passes(edge, 70); got != 60 {
		t.Errorf("%d pass at the edge, want 60: documented for fixed windows", got)
	}
}

// TestTokensTakenWhileTimeStandsStillCountOn holds that a clock set back over an
// edge does not open the window ahead anew.
func TestTokensTakenWhileTimeStandsStillCountOn(t *testing.T) {
	for _, limit := range []string{"5/s fixed_window", "5/s sliding_window"} {
		k := newKey(t, limit)
		d := k.take(ticksPerSecond, 2) // in the window that starts here
		back := k.take(ticksPerSecond-1, 2)
		if back.Remaining != 1 || back.At != ticksPerSecond {
			t.Errorf("%s: %+v a tick earlier, want 1 remaining in the same window", limit, back)
		}
		if got := k.passes(ticksPerSecond, 5); got != 1 {
			t.Errorf("%s: %d pass when the clock is there again, want 1", limit, got)
		}
		k.settle(ticksPerSecond-1, -2, back)
		k.settle(ticksPerSecond-1, -2, d)
		if got := k.meter.Room(&k.state, ticksPerSecond-1); got != 4 {
			t.Errorf("%s: %d are left after giving back 4 of 5, want 4", limit, got)
		}
	}
}

func TestStateFromFarAheadCountsNow(t *testing.T) {
	for _, limit := range []string{"5/s fixed_window", "5/s sliding_window"} {
		k := newKey(t, limit)
		k.passes(ticksPerDay, 5)
		d := k.take(0, 1)
		if d.Allowed || d.RetryAfter > 2*time.Second {
			t.Errorf("%s: %+v after the clock was set back by a day, want a refusal of at most 2s", limit, d)
		}
		if got := k.passes(durationTicks(d.RetryAfter), 1); got != 1 {
			t.Errorf("%s: refused after the wait", limit)
		}
	}
}
