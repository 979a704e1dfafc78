package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A hot key needs few round trips, and nobody waits for one.
func TestHotKeyIsLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		if passed := ask(t, s, hot, 5000, 100*time.Microsecond); passed != 5000 {
			t.Errorf("%d of 5000 passed", passed)
		}
		if trips := below.trips(); trips > 150 {
			t.Errorf("%d round trips for 5000 decisions", trips)
		}
		before := time.Now()
		d := take(t, s, hot)[0]
		if d.Source != sluice.SourceLease || time.Since(before) != 0 || !d.Allowed || d.Granted != 1 ||
			d.Limit != 100_000 || d.Remaining <= 0 || d.Remaining > d.Limit || d.RetryAfter != 0 {
			t.Errorf("a decision from a lease after %v: %+v", time.Since(before), d)
		}
		if st := s.Stats(); st.Leased < 4800 || st.Held <= 0 || st.Held > 1000 || st.Claimed-st.Held != st.Leased {
			t.Errorf("stats %+v", st)
		}
	})
}

// What is not worth a lease, or may not have one, is asked of the store, each
// call by itself.
func TestNotLeased(t *testing.T) {
	for _, tt := range []struct {
		name   string
		charge sluice.Charge
		apart  time.Duration
	}{
		{"no tolerance", sluice.Charge{Key: "k", Limit: wide, N: 1}, time.Millisecond},
		{"a log", sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 100_000, Per: time.Second, Algorithm: sluice.SlidingLog}, N: 1, Tolerance: 10_000}, time.Millisecond},
		{"less than a token", sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1, Tolerance: 100}, time.Millisecond},
		{"a peek", sluice.Charge{Key: "k", Limit: wide, Tolerance: 10_000}, time.Millisecond},
		{"a part", sluice.Charge{Key: "k", Limit: wide, N: 3, Unit: 1, Tolerance: 10_000}, time.Millisecond},
		{"little demand", hot, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newTruth()
				s := New(below, Options{})
				run(t, s)
				ask(t, s, tt.charge, 50, tt.apart)
				if st := s.Stats(); below.trips() != 50 || st.Leased != 0 || st.Claims != 0 {
					t.Errorf("%d round trips for 50 decisions, stats %+v", below.trips(), st)
				}
			})
		})
	}
}

// Nothing is leased before Run, without a settler below, or after Run.
func TestNotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		for _, s := range []*Store{New(below, Options{}), New(struct{ sluice.Store }{below}, Options{})} {
			ask(t, s, hot, 100, time.Millisecond)
			if st := s.Stats(); st.Claims != 0 {
				t.Errorf("stats %+v", st)
			}
		}
		s := New(below, Options{})
		stop := run(t, s)
		ask(t, s, hot, 1000, time.Millisecond)
		stop()
		if st := s.Stats(); st.Leased == 0 || st.Held != 0 || st.Returned == 0 || below.claimed != st.Leased {
			t.Errorf("%d tokens claimed and not given back, stats %+v", below.claimed, st)
		}
		before := s.Stats().Leased
		ask(t, s, hot, 10, time.Millisecond)
		if st := s.Stats(); st.Leased != before {
			t.Errorf("stats %+v", st)
		}
	})
}

// Once nobody asks, all comes back within the lease time.
func TestUnspentComesBack(t *testing.T) {
	for _, limit := range []sluice.Limit{
		wide,
		{Tokens: 100_000, Per: time.Hour, Algorithm: sluice.FixedWindow},
		{Tokens: 100_000, Per: time.Hour, Algorithm: sluice.SlidingWindow},
	} {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newTruth()
				s := New(below, Options{})
				run(t, s)
				c := sluice.Charge{Key: "k", Limit: limit, N: 1, Tolerance: 10_000}
				ask(t, s, c, 2000, 100*time.Microsecond)
				if s.Stats().Held == 0 {
					t.Fatal("nothing is held")
				}
				time.Sleep(time.Second + 10*time.Millisecond)
				st := s.Stats()
				if st.Held != 0 || st.Returned == 0 || st.Lost != 0 || below.claimed != st.Leased {
					t.Errorf("%d tokens claimed and not given back, stats %+v", below.claimed, st)
				}
				if limit.Algorithm != sluice.TokenBucket {
					if left := remaining(t, below, c); left != 100_000-2000 {
						t.Errorf("%d left, want %d", left, 100_000-2000)
					}
				}
			})
		})
	}
}

// A lease of a window is spent before it ends.
func TestLeaseEndsWithItsWindow(t *testing.T) {
	for _, algorithm := range []sluice.Algorithm{sluice.FixedWindow, sluice.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newTruth()
				s := New(below, Options{Time: 10 * time.Second})
				run(t, s)
				c := sluice.Charge{Key: "k", N: 1, Tolerance: 500_000, Limit: sluice.Limit{Tokens: 1000, Per: time.Second, Algorithm: algorithm}}
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
				for range 5 {
					window := time.Now().Truncate(time.Second)
					passed := 0
					for time.Now().Before(window.Add(time.Second)) {
						if d := take(t, s, c)[0]; d.Allowed && time.Now().Before(window.Add(time.Second)) {
							passed++
						}
						time.Sleep(400 * time.Microsecond)
					}
					if passed > 1000 || passed < 900 && algorithm == sluice.FixedWindow {
						t.Errorf("%d of 1000 passed in a window", passed)
					}
				}
				if s.Stats().Leased == 0 {
					t.Error("nothing was leased")
				}
			})
		})
	}
}

// At the limit a claim gets a part, refusals need no round trip, and who waits as
// long as one says, alone, passes.
func TestRefusalsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		c := sluice.Charge{Key: "k", N: 1, Tolerance: 10_000, Limit: sluice.Limit{Tokens: 10_000, Per: time.Second}}
		ask(t, s, c, 40_000, 50*time.Microsecond) // twice the rate, for two seconds
		trips, began, passed := below.trips(), time.Now(), 0
		passed = ask(t, s, c, 40_000, 50*time.Microsecond)
		took := time.Since(began).Seconds()
		if rate := float64(passed) / took; rate < 9_850 || rate > 10_100 {
			t.Errorf("%.0f/s passed of a limit of 10,000/s", rate)
		}
		if trips := below.trips() - trips; trips > 2000 {
			t.Errorf("%d round trips for 40,000 decisions", trips)
		}
		for _, n := range []int64{1, 7, 300} {
			for take(t, s, c)[0].Allowed {
			}
			big := c
			big.N = n
			d := take(t, s, big)[0]
			if d.Allowed || d.RetryAfter <= 0 {
				t.Fatalf("%d more pass: %+v", n, d)
			}
			time.Sleep(d.RetryAfter)
			if again := take(t, s, big)[0]; !again.Allowed {
				t.Errorf("%d tokens after the wait of %v that %v told: %+v", n, d.RetryAfter, d.Source, again)
			}
		}
		big := c
		big.N = 10_001
		if _, err := s.Take(t.Context(), nil, []sluice.Charge{big}); !errors.Is(err, sluice.ErrCost) {
			t.Errorf("a cost over the burst: %v, want %v", err, sluice.ErrCost)
		}
	})
}

// A claim is never answered by a fallback; what is held is spent all the same.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		ask(t, s, hot, 1000, 100*time.Microsecond)
		below.setAway(true)
		st := s.Stats()
		for range st.Held {
			take(t, s, hot)
		}
		if got := s.Stats(); got.Leased != st.Leased+st.Held || got.Claimed != st.Claimed {
			t.Errorf("stats %+v, before %+v", got, st)
		}
		if d := take(t, s, hot)[0]; d.Source != sluice.SourceFallback {
			t.Errorf("with nothing held: %+v", d)
		}
		below.setAway(false)
		time.Sleep(100 * time.Millisecond)
		ask(t, s, hot, 1000, 100*time.Microsecond)
		if d := take(t, s, hot)[0]; d.Source != sluice.SourceLease {
			t.Errorf("when it is back: %+v", d)
		}
	})
}

// A changed limit gives back what was claimed by the one before.
func TestLimitChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		ask(t, s, hot, 1000, 100*time.Microsecond)
		held := s.Stats().Held
		other := hot
		other.Limit.Burst = 50_000
		take(t, s, other)
		time.Sleep(time.Millisecond)
		if st := s.Stats(); held == 0 || st.Held != 0 || st.Returned != held {
			t.Errorf("held %d before, stats %+v", held, st)
		}
	})
}

// What is forgotten is not given back on top.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		ask(t, s, hot, 1000, 100*time.Microsecond)
		if err := s.Forget(t.Context(), []sluice.Charge{hot}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if st := s.Stats(); st.Held != 0 || st.Returned != 0 {
			t.Errorf("stats %+v", st)
		}
		if left := remaining(t, below, hot); left != 100_000 {
			t.Errorf("%d left, want all", left)
		}
	})
}

func TestLeasedDecisionAllocatesNothing(t *testing.T) {
	s := New(newTruth().Store, Options{})
	s.active.Store(true)
	e := s.entry(&hot, 0)
	e.grant.Store(&grant{until: time.Hour})
	e.left.Store(1 << 40)
	charges, dst := []sluice.Charge{hot}, make([]sluice.Decision, 0, 1)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Take(t.Context(), dst, charges); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if s.Stats().Leased == 0 {
		t.Error("nothing was leased")
	}
}
