package sluice

import (
	"errors"
	"testing"
	"time"
)

// Faults that users of limiters reported in public, each kind with a small
// input. Cases of the edges are with the edges; C38, C41, C46, C48, D64 to D67
// are with Validate and the calendars, B33 and B34 with charges and settlements.

// TestAnswersReported is about wait, remaining and reset.
func TestAnswersReported(t *testing.T) {
	second := int64(ticksPerSecond)
	t.Run("A1: a refusal at the end of a window and just after", func(t *testing.T) {
		k := newKey(t, "5/s fixed_window")
		k.passes(0, 5)
		for _, at := range []int64{0, second / 2, second - 1} {
			if d := k.take(at, 1); d.Allowed || d.RetryAfter != TicksDuration(second-at) {
				t.Errorf("at %d: %+v, want a wait of %v", at, d, TicksDuration(second-at))
			}
		}
		if d := k.take(second, 1); !d.Allowed || d.RetryAfter != 0 || d.ResetAfter != time.Second {
			t.Errorf("at the next window: %+v", d)
		}
	})
	t.Run("A5: 10 requests 2 s apart, the wait at 20 s is about 40", func(t *testing.T) {
		k := newKey(t, "10/m sliding_log")
		for i := range int64(10) {
			k.take(i*2*second, 1)
		}
		if d := k.take(20*second, 1); d.RetryAfter != 40*time.Second {
			t.Errorf("RetryAfter = %v, want 40s", d.RetryAfter)
		}
	})
	t.Run("A6: an allowed call has no wait", func(t *testing.T) {
		if d := newKey(t, "10/s gcra").take(0, 1); d.RetryAfter != 0 {
			t.Errorf("RetryAfter = %v, want 0", d.RetryAfter)
		}
	})
	t.Run("A7, A8: remaining is 2, 1, 0, 0, 0", func(t *testing.T) {
		for _, limit := range []string{"3/s", "3/s fixed_window", "3/s sliding_window", "3/s sliding_log"} {
			k := newKey(t, limit)
			for i, want := range []int64{2, 1, 0, 0, 0} {
				if d := k.take(0, 1); d.Remaining != want {
					t.Errorf("%s: Remaining of call %d = %d, want %d", limit, i, d.Remaining, want)
				}
			}
		}
	})
	t.Run("A10, A11, A12: reset is what was consumed by 3 s, from the first call", func(t *testing.T) {
		k := newKey(t, "10/30s")
		if d := k.take(0, 5); d.ResetAfter != 15*time.Second {
			t.Errorf("ResetAfter of 5 = %v, want 15s", d.ResetAfter)
		}
		if d := k.take(second, 1); d.ResetAfter != 17*time.Second {
			t.Errorf("ResetAfter of one more a second later = %v, want 17s", d.ResetAfter)
		}
	})
	t.Run("A15, B28: 8/s against 5/s for ever passes 5/s", func(t *testing.T) {
		for _, limit := range []string{"5/s", "5/s fixed_window", "5/s sliding_log"} {
			k, passed := newKey(t, limit), 0
			for i := range int64(80) {
				passed += k.passes(i*second/8, 1)
			}
			if passed < 50 || passed > 55 {
				t.Errorf("%s: %d pass in 10 s, want about 50", limit, passed)
			}
		}
	})
}

// TestCountingReported is about counting and the edges of windows.
func TestCountingReported(t *testing.T) {
	second := int64(ticksPerSecond)
	for _, a := range algorithms {
		l := Limit{Tokens: 10, Per: time.Minute, Algorithm: a}
		t.Run("B17: the last token is of use, "+a.String(), func(t *testing.T) {
			if got := newKey(t, l).passes(0, 20); got != 10 {
				t.Errorf("%d pass, want 10", got)
			}
		})
		t.Run("B30: idle periods save nothing up, "+a.String(), func(t *testing.T) {
			k := newKey(t, l)
			k.take(0, 1)
			if got := k.passes(600*second, 20); got != 10 {
				t.Errorf("%d pass, want 10", got)
			}
		})
		t.Run("B32, B37: a refused call changes nothing, "+a.String(), func(t *testing.T) {
			k := newKey(t, l)
			k.take(0, 9)
			before := clone(&k.state)
			if d := k.take(1, 2); d.Allowed || !same(&k.state, before) || k.passes(1, 2) != 1 {
				t.Errorf("%+v changed %+v to %+v", d, *before, k.state)
			}
		})
		t.Run("B36: a key never owes more than its limit, "+a.String(), func(t *testing.T) {
			k := newKey(t, l)
			k.settle(0, 10_000, Decision{})
			if d := k.take(0, 1); d.RetryAfter > 2*time.Minute || d.Remaining != 0 {
				t.Errorf("%+v, want a wait of two periods at most", d)
			}
		})
		t.Run("C53: a peek of an unseen key writes nothing, "+a.String(), func(t *testing.T) {
			k := newKey(t, l)
			if d := k.take(5, 0); !same(&k.state, &State{}) || !d.Allowed || d.Remaining != 10 || d.ResetAfter != 0 {
				t.Errorf("%+v left %+v", d, k.state)
			}
		})
	}
	t.Run("B19: 3 per 1 s against a hit every 100 ms for 3 s", func(t *testing.T) {
		k, passed := newKey(t, "3/s"), 0
		for i := range int64(30) {
			passed += k.passes(i*second/10, 1)
		}
		if passed > 3+3*3 || passed < 11 {
			t.Errorf("%d pass, want 3 and about 3 a second", passed)
		}
	})
	t.Run("B20: a token is back at 3, 6 and 9 s", func(t *testing.T) {
		k := newKey(t, "10/30s")
		k.take(0, 10)
		for at := int64(1); at <= 11; at++ {
			if d := k.take(at*second, 1); d.Allowed != (at%3 == 0) {
				t.Errorf("at %d s: %+v", at, d)
			}
		}
	})
	t.Run("B21: across an edge a fixed window passes twice its limit, the others do not", func(t *testing.T) {
		for limit, want := range map[string]int{"60/m fixed_window": 120, "60/m sliding_log": 60, "60/m sliding_window": 60, "60/m": 60} {
			k := newKey(t, limit)
			if got := k.passes(60*second-second/10, 60) + k.passes(60*second, 60); got != want {
				t.Errorf("%s: %d pass, want %d", limit, got, want)
			}
		}
	})
	t.Run("B22: the next window starts with none", func(t *testing.T) {
		k := newKey(t, "5/m fixed_window")
		k.passes(58*second+second*7/10, 1)
		if got := k.passes(60*second+second/10, 6); got != 5 {
			t.Errorf("%d pass, want 5", got)
		}
	})
	t.Run("B24: 1000 calls in one tick are not one entry", func(t *testing.T) {
		if got := newKey(t, "5/s sliding_log").passes(7, 1000); got != 5 {
			t.Errorf("%d pass, want 5", got)
		}
	})
	t.Run("B31: a call refused by one limit takes of no other", func(t *testing.T) {
		a, b := newKey(t, "10/m"), newKey(t, "1000/day fixed_window")
		a.take(0, 10)
		charges := []Charge{{Key: "a", Limit: a.limit, N: 1}, {Key: "b", Limit: b.limit, N: 1}}
		for range 100 {
			Decide(nil, charges, []Meter{a.meter, b.meter}, []*State{&a.state, &b.state}, 0)
		}
		if got := b.meter.Room(&b.state, 0); got != 1000 {
			t.Errorf("%d of b are left, want 1000", got)
		}
	})
	t.Run("B33: a cost over the limit is an error", func(t *testing.T) {
		k := newKey(t, "10/m")
		if err := CheckCharges([]Charge{{Limit: k.limit, N: 100}}); !errors.Is(err, ErrCost) {
			t.Errorf("%v, want ErrCost", err)
		}
	})
}

// TestParametersReported is about zero, tiny, huge and fractional limits.
func TestParametersReported(t *testing.T) {
	milli := int64(ticksPerSecond / 1000)
	for _, tt := range []struct {
		name, limit string
		calls       int64 // one a millisecond, after exhaustion
		want        int
	}{
		{"C43: 5/s, a call every ms", "5/s", 2001, 10},
		{"C44: 100/s, a call every ms", "100/s", 1001, 100},
		{"C45: 1/s with ticks of 100 ms", "1/s", 3001, 3},
		{"C46: one token in 10^4 s", "1/10000s", 10_001, 0},
		{"C51: 0.5/s", "0.5/s", 4001, 2},
		{"C48: 1 M/s", "1M/s burst 10", 11, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, passed := newKey(t, tt.limit), 0
			k.take(0, k.limit.Capacity())
			for i := range tt.calls {
				passed += k.passes(i*milli, 1)
			}
			if passed != tt.want {
				t.Errorf("%d pass, want %d", passed, tt.want)
			}
		})
	}
	t.Run("C50: a capacity lowered below what is there", func(t *testing.T) {
		k := newKey(t, "100/s")
		k.change(t, newKey(t, "10/s").limit)
		if d := k.take(0, 1); d.Remaining != 9 || d.Limit != 10 {
			t.Errorf("%+v, want 9 of 10", d)
		}
	})
}

// TestClocksReported is about clocks that are set back.
func TestClocksReported(t *testing.T) {
	for _, a := range algorithms {
		for _, back := range []time.Duration{time.Microsecond, time.Second, 10 * time.Second, time.Hour, 24 * time.Hour} {
			t.Run("D54, D55, D56: "+a.String()+" "+back.String(), func(t *testing.T) {
				k := newKey(t, Limit{Tokens: 10, Per: 10 * time.Second, Algorithm: a})
				k.passes(0, 9)
				now := -ticksOf(back)
				d := k.take(now, 1)
				if d.Remaining > 10 || d.ResetAfter > 30*time.Second {
					t.Errorf("%+v", d)
				}
				d = k.take(now, 1)
				if !d.Allowed && k.passes(now+durationTicks(d.RetryAfter), 1) != 1 {
					t.Errorf("%+v, and refused after the wait", d)
				}
			})
		}
	}
	t.Run("D59: a clock 1 ms behind sees the same window", func(t *testing.T) {
		k := newKey(t, "10/s fixed_window")
		k.take(0, 4)
		if d := k.take(-ticksOf(time.Millisecond), 0); d.Remaining != 6 {
			t.Errorf("Remaining = %d, want 6", d.Remaining)
		}
	})
}

// TestChangedLimitKeepsWhatWasUsed is about limits changed at run time, H121 to
// H125.
func TestChangedLimitKeepsWhatWasUsed(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window", "sliding_log"} {
		k := newKey(t, "100/m "+algorithm)
		k.passes(0, 50)
		for _, step := range []struct {
			limit string
			want  int64
		}{{"10/m", 0}, {"60/m", 10}, {"100/m", 50}, {"100/m", 50}} {
			k.change(t, newKey(t, step.limit+" "+algorithm).limit)
			d := k.take(1, 0)
			if d.Remaining != step.want {
				t.Errorf("%s %s: Remaining = %d, want %d", step.limit, algorithm, d.Remaining, step.want)
			}
			if refused := k.take(1, step.want+1); refused.Allowed {
				t.Errorf("%s %s: one more than the rest passes", step.limit, algorithm)
			}
		}
	}
	t.Run("an exhausted bucket refills at the new rate from the first moment", func(t *testing.T) {
		for _, tt := range []struct {
			before, after string
			wait          time.Duration
		}{
			{"10/s", "1/s burst 1", time.Second},
			{"10/s", "100/s burst 100", 10 * time.Millisecond},
			{"10/m", "10/s", 100 * time.Millisecond}, // clamped to the new capacity
		} {
			k := newKey(t, tt.before)
			k.passes(0, 10)
			k.change(t, newKey(t, tt.after).limit)
			if d := k.take(0, 1); d.Allowed || d.RetryAfter != tt.wait {
				t.Errorf("%s then %s: %+v, want a wait of %v", tt.before, tt.after, d, tt.wait)
			}
			if got := k.passes(ticksOf(tt.wait), 5); got != 1 {
				t.Errorf("%s then %s: %d pass after the wait, want 1", tt.before, tt.after, got)
			}
		}
	})
	t.Run("H123: reloading the same limit refills nothing", func(t *testing.T) {
		k := newKey(t, "5/m")
		passed := 0
		for range 100 {
			k.change(t, newKey(t, "5/m").limit)
			passed += k.passes(0, 1)
		}
		if passed != 5 {
			t.Errorf("%d pass, want 5", passed)
		}
	})
}
