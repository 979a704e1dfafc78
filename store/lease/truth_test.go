package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// Whoever is refused, waits as long as was said, and asks again while nobody else
// does, passes: also where a claim, a pause or another instance stood between.
func TestRefusalsAreTrue(t *testing.T) {
	tried := 0
	for seed := range uint64(20) {
		for _, instances := range []int{1, 2} {
			t.Run(fmt.Sprint("seed ", seed, ", instances ", instances), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if askAndWait(t, seed, instances) {
						tried++
					}
				})
			})
		}
	}
	if tried < 15 {
		t.Errorf("only %d runs leased and refused", tried)
	}
}

// askAndWait says whether it met refusals and leases.
func askAndWait(t *testing.T, seed uint64, instances int) bool {
	r := rand.New(rand.NewPCG(seed, 3))
	below := newTruth()
	below.trip = time.Duration(50+r.IntN(1000)) * time.Microsecond
	c := sluice.Charge{Key: "k", Tolerance: []int64{10_000, 50_000, 200_000}[r.IntN(3)]}
	c.Limit = sluice.Limit{Tokens: 200 + r.Int64N(20_000), Per: time.Second, Burst: 1000}
	if instances > 1 {
		c.Limit.Tokens = 200 + r.Int64N(800) // they ask less
	}
	if seed%4 == 3 {
		c.Limit = sluice.Limit{Tokens: 100, Per: 200 * time.Millisecond, Algorithm: sluice.FixedWindow}
	}
	stores := make([]*Store, instances)
	for i := range stores {
		stores[i] = New(below, Options{Fleet: func() (int, time.Duration) { return instances, time.Hour }})
		run(t, stores[i])
	}
	refused := 0
	for range 4000 {
		s := stores[r.IntN(instances)]
		c.N = 1
		if r.IntN(4) == 0 {
			c.N = 1 + r.Int64N(8)
		}
		charges := []sluice.Charge{c}
		if r.IntN(4) == 0 { // others in its group make no difference
			charges = append(charges, sluice.Charge{Key: "wide", Limit: sluice.Limit{Tokens: 1_000_000, Per: time.Second}, N: 1})
		}
		if d := take(t, s, charges...)[0]; !d.Allowed {
			refused++
			time.Sleep(d.RetryAfter)
			if again := take(t, s, charges...)[0]; !again.Allowed {
				t.Fatalf("%d tokens of %v, refusal %d: told to wait %v by the %v, then %v by the %v",
					c.N, c.Limit, refused, d.RetryAfter, d.Source, again.RetryAfter, again.Source)
			}
		}
		if instances > 1 {
			time.Sleep(below.trip) // until no claim of the other is under way
		}
	}
	leased := int64(0)
	for _, s := range stores {
		leased += s.Stats().Leased
	}
	return refused > 0 && leased > 0
}

// A refusing store answers a key with a refusal that takes a while, and others by
// the truth.
type refusing struct {
	*truth
	key   string
	lasts time.Duration
}

func (s *refusing) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if charges[0].Key != s.key {
		return s.truth.Take(ctx, dst, charges)
	}
	time.Sleep(s.lasts)
	return append(dst, sluice.Decision{Limit: 1, RetryAfter: time.Second}), nil
}

// Tokens that were reserved in a window and come back after its end are none of
// the next.
func TestReservedTokensStayInTheirWindow(t *testing.T) {
	for _, algorithm := range []sluice.Algorithm{sluice.FixedWindow, sluice.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newTruth()
				s := New(&refusing{below, "exact", 20 * time.Millisecond}, Options{})
				run(t, s)
				c := sluice.Charge{Key: "k", N: 1, Tolerance: 500_000, Limit: sluice.Limit{Tokens: 1000, Per: time.Second, Algorithm: algorithm}}
				window := time.Now().Truncate(time.Second).Add(time.Second)
				time.Sleep(time.Until(window.Add(500 * time.Millisecond)))
				ask(t, s, c, 960, 500*time.Microsecond) // to 20 ms before the end
				time.Sleep(time.Until(window.Add(990 * time.Millisecond)))
				var group sync.WaitGroup
				many, exact := c, sluice.Charge{Key: "exact", N: 1, Limit: sluice.Limit{Tokens: 1, Per: time.Hour}}
				many.N = 5
				group.Go(func() {
					if got := take(t, s, many, exact); got[0].Source != sluice.SourceLease || got[0].Granted != 0 {
						t.Errorf("the group: %+v", got)
					}
				})
				time.Sleep(11 * time.Millisecond) // into the next window
				ask(t, s, c, 2, time.Millisecond) // which has a lease now
				before := s.Stats()
				group.Wait()
				synctest.Wait()
				if st := s.Stats(); before.Held == 0 || st.Held != before.Held {
					t.Errorf("%d held of the new window, %d after tokens of the old one came back", before.Held, st.Held)
				}
			})
		})
	}
}

// Tokens on their way back count as held: others are not claimed in their place.
func TestReturningCountsAsHeld(t *testing.T) {
	s := New(memory.New(memory.Options{}), Options{})
	e := newEntry(0, &hot, 0)
	e.demand.asked.Store(100_000)
	if n := s.amount(e, 0); n != 1000 {
		t.Fatalf("%d to claim, want 1000", n)
	}
	e.grant.Store(&grant{until: time.Hour})
	e.left.Store(800)
	back := e.settleLocked()
	if n := s.amount(e, 0); n != 0 {
		t.Errorf("%d to claim while 800 are on their way back", n)
	}
	arrived(back, &s.counts.returned)
	if n := s.amount(e, 0); n != 1000 || s.Stats().Returned != 800 {
		t.Errorf("%d to claim after that, stats %+v", n, s.Stats())
	}
}

// A claim that a process sends long after it was sized, as it stood still, gets
// nothing: there may be more instances by now.
func TestLateClaimGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		time.Sleep(5 * time.Second)
		e := s.entry(&hot, s.now())
		s.claim(e, 100, s.now()-time.Second)
		time.Sleep(time.Millisecond)
		if st := s.Stats(); st.Claimed != 100 || st.Returned != 100 || st.Held != 0 || below.claimed != 0 {
			t.Errorf("stats %+v, %d claimed and not given back", st, below.claimed)
		}
	})
}

// What a claim got of a key that was forgotten meanwhile is not given back.
func TestForgetDuringAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		below.trip = 10 * time.Millisecond
		s := New(below, Options{})
		run(t, s)
		c := hot
		c.Limit = sluice.Limit{Tokens: 100_000, Per: time.Hour, Algorithm: sluice.FixedWindow}
		e := s.entry(&c, s.now())
		var claim sync.WaitGroup
		claim.Go(func() { s.claim(e, 100, s.now()) })
		time.Sleep(7 * time.Millisecond) // it is debited
		if err := s.Forget(t.Context(), []sluice.Charge{c}); err != nil {
			t.Fatal(err)
		}
		other := c
		other.N = 60
		take(t, below, other)
		claim.Wait()
		time.Sleep(100 * time.Millisecond)
		if left := remaining(t, below, c); left != 100_000-60 {
			t.Errorf("%d left, want %d", left, 100_000-60)
		}
	})
}
