package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
)

// away lets the store be away while f runs, and lets its breaker have a probe.
func (s *subject) away(f func()) {
	s.t.Helper()
	s.open()
	s.next.take = broken
	f()
	s.next.take = nil
	time.Sleep(s.o.Probe)
}

// inNext peeks at the store behind the guard.
func (s *subject) inNext(c sluice.Charge) sluice.Decision {
	s.t.Helper()
	c.N, c.Unit = 0, 0
	decisions, err := s.next.Store.Take(s.t.Context(), nil, []sluice.Charge{c})
	if err != nil {
		s.t.Fatal(err)
	}
	return decisions[0]
}

// F99, F100: what was admitted while the store was away is charged to it before
// it decides on the same key, also if it is full already.
func TestSettledBeforeDeciding(t *testing.T) {
	for _, algorithm := range []sluice.Algorithm{sluice.TokenBucket, sluice.FixedWindow, sluice.SlidingWindow, sluice.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSubject(t, Options{})
				c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour, Algorithm: algorithm}, N: 2}
				s.one(c)
				s.away(func() { s.one(c); s.one(c) })
				if d := s.one(c); d.Source != sluice.SourceStore || !d.Allowed || d.Remaining != 2 {
					t.Errorf("first decision of the store = %+v, want 2 remaining of 10 after 2+4+2", d)
				}
				s.away(func() {
					for s.one(c).Allowed {
					}
				})
				if d := s.one(c); d.Source != sluice.SourceStore || d.Allowed || d.Remaining != 0 {
					t.Errorf("store after more was admitted than it had = %+v, want nothing left", d)
				}
				if stats := s.Stats(); stats.Pending != 0 || stats.Settled != 2 || stats.Lost != 0 {
					t.Errorf("stats = %+v, want 2 settled", stats)
				}
			})
		})
	}
}

// Outages in a row have one local burst among them.
func TestOutagesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 1}
		granted := int64(0)
		for range 5 {
			s.away(func() {
				for range 20 {
					granted += s.one(c).Granted
				}
			})
			granted += s.one(c).Granted
		}
		if granted != 10 {
			t.Errorf("%d granted in five outages, want 10", granted)
		}
	})
}

// A single failure that opens nothing is settled as well.
func TestSettledAfterOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 1}
		s.next.take = broken
		s.one(c)
		s.next.take = nil
		if d := s.one(c); d.Remaining != 8 {
			t.Errorf("after one failure and one answer: %+v, want 8 remaining", d)
		}
	})
}

// A window that has ended owes nothing, and a bucket what it has not refilled.
func TestOnlyThePresentDeficit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		window := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: time.Minute, Algorithm: sluice.FixedWindow}, N: 5}
		bucket := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 10 * time.Minute}, N: 5}
		s.away(func() {
			s.one(window)
			s.one(bucket)
			time.Sleep(time.Minute)
		})
		window.N, bucket.N = 0, 0
		if d := s.one(window); d.Source != sluice.SourceStore || d.Remaining != 10 {
			t.Errorf("next window = %+v, want 10 remaining", d)
		}
		if d := s.one(bucket); d.Remaining != 6 {
			t.Errorf("bucket a minute later = %+v, want 6 remaining", d)
		}
	})
}

// Run settles keys that nobody asks for, in batches.
func TestRunSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		const keys = 1000
		c := func(i int) sluice.Charge {
			return sluice.Charge{Key: fmt.Sprint(i), Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 3}
		}
		s.away(func() {
			for i := range keys {
				s.one(c(i))
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { s.Run(ctx) })
		time.Sleep(2 * s.o.Probe)
		for i := range keys {
			if d := s.inNext(c(i)); d.Remaining != 7 {
				t.Fatalf("key %d in the store: %+v, want 7 remaining", i, d)
			}
		}
		if got, most := len(s.next.sent), keys/settleBatch+2; got > most {
			t.Errorf("%d settlements were sent, want at most %d", got, most)
		}
		if stats := s.Stats(); stats.Pending != 0 || stats.Settled != keys {
			t.Errorf("stats = %+v, want all settled", stats)
		}
		cancel()
		run.Wait()
	})
}

// A settlement is sent once: the outcome of one that failed is not known.
func TestSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 3}
		s.away(func() { s.one(c) })
		settles := 0
		s.next.take = func(s *scripted, ctx context.Context) error {
			if settles++; settles == 2 { // the peek passes
				return errBroken
			}
			return nil
		}
		s.one(c)
		s.next.take = nil
		if stats := s.Stats(); stats.Lost != 1 {
			t.Errorf("stats = %+v, want 1 lost", stats)
		}
		time.Sleep(s.o.Probe)
		// The call whose settlement failed was itself admitted locally.
		if d := s.one(c); d.Source != sluice.SourceStore || d.Remaining != 4 {
			t.Errorf("store = %+v, want 4 remaining: the first 3 are lost", d)
		}
	})
}

// A probe that fails keeps what is owed.
func TestFailedProbesKeepDebts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 2}
		s.away(func() {
			for range 3 {
				s.one(c)
				time.Sleep(s.o.Probe)
			}
		})
		if d := s.one(c); d.Source != sluice.SourceStore || d.Remaining != 2 {
			t.Errorf("store = %+v, want 2 remaining of 10 after 6+2", d)
		}
		if stats := s.Stats(); stats.Lost != 0 {
			t.Errorf("stats = %+v, want none lost", stats)
		}
	})
}

// Many callers at the moment of recovery wait for the one settlement.
func TestNobodyOvertakesASettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 100, Per: 1000 * time.Hour}, N: 1}
		s.away(func() {
			for range 90 {
				s.one(c)
			}
		})
		s.one(sluice.Charge{Key: "other", Limit: perSecond(10), N: 1}) // closes the breaker
		s.next.take = answersAfter(time.Millisecond)
		var mu sync.Mutex
		granted := int64(0)
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				d := s.one(c)
				mu.Lock()
				defer mu.Unlock()
				if granted += d.Granted; d.Source != sluice.SourceStore {
					t.Errorf("Source = %v, want store", d.Source)
				}
			})
		}
		callers.Wait()
		if granted != 10 {
			t.Errorf("%d granted after 90 of 100, want 10", granted)
		}
		if len(s.next.sent) != 1 {
			t.Errorf("%d settlements, want 1", len(s.next.sent))
		}
	})
}

func TestPendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{MaxPending: 10})
		s.open()
		for i := range 100 {
			s.one(sluice.Charge{Key: fmt.Sprint(i), Limit: perSecond(10), N: 1})
		}
		if stats := s.Stats(); stats.Pending != 10 || stats.Forgotten != 90 || stats.Nodes[0].Pending != 10 {
			t.Errorf("stats = %+v, want 10 pending, 90 forgotten", stats)
		}
	})
}

// What a fallback granted is given back where it was counted.
func TestGiveBackOfAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 4}
		s.away(func() {
			d := s.one(c)
			back := c
			back.N = -4
			if err := s.Settle(t.Context(), []sluice.Settlement{{Charge: back, From: d}}); err != nil {
				t.Fatal(err)
			}
			if d := s.one(c); d.Remaining != 6 {
				t.Errorf("local counter after a give-back and a take: %+v, want 6 remaining", d)
			}
			charge := []sluice.Settlement{{Charge: c}}
			if err := s.Settle(t.Context(), charge); !errors.Is(err, ErrAway) {
				t.Errorf("a charge to a store that is away: %v, want ErrAway", err)
			}
		})
		if d := s.one(c); d.Remaining != 2 {
			t.Errorf("store = %+v, want 2 remaining of 10 after 4+4", d)
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 10, Per: 1000 * time.Hour}, N: 4}
		s.away(func() { s.one(c) })
		if err := s.Forget(t.Context(), []sluice.Charge{c}); err != nil {
			t.Fatal(err)
		}
		if d := s.one(c); d.Remaining != 6 {
			t.Errorf("after a reset: %+v, want 6 remaining", d)
		}
	})
}

func TestUnsupported(t *testing.T) {
	s := New(grant{}, grant{}, Options{})
	c := []sluice.Charge{{Key: "k", Limit: perSecond(1)}}
	_, err := s.Register(t.Context(), "a", time.Second)
	for _, err := range []error{
		err,
		s.Forget(t.Context(), c),
		s.Settle(t.Context(), []sluice.Settlement{{Charge: c[0]}}),
	} {
		if !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("%v, want ErrUnsupported", err)
		}
	}
	if p := s.Locate(&c[0]); p != (sluice.Place{}) {
		t.Errorf("Locate = %+v, want one place", p)
	}
}

// Heartbeats: what is known last counts on.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{ID: "b", Instances: 4, TTL: 9 * time.Second})
		type answer struct {
			live []string
			err  error
		}
		var now atomic.Pointer[answer]
		now.Store(&answer{err: errBroken})
		var beats atomic.Int64
		s.next.live = func() ([]string, error) { beats.Add(1); return now.Load().live, now.Load().err }
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { s.Run(ctx) })
		for i, tt := range []struct {
			seconds time.Duration
			answer  answer
			want    fleet
		}{
			{4, answer{err: errBroken}, *unknownFleet("b", 4)},
			// Fewer than configured may only not have been heard yet.
			{5, answer{live: []string{"a", "b", "c"}}, *unknownFleet("b", 4)},
			{12, answer{live: []string{"a", "b", "c"}}, fleet{live: 3, rank: 1, known: true}},
			{4, answer{err: errBroken}, fleet{live: 3, rank: 1, known: true}},
			// A store that came back empty has not heard the others yet.
			{4, answer{live: []string{"b"}}, fleet{live: 3, rank: 1, known: true}},
			{4, answer{live: []string{"a", "b"}}, fleet{live: 3, rank: 1, known: true}},
			{12, answer{live: []string{"a", "b"}}, fleet{live: 2, rank: 1, known: true}},
		} {
			now.Store(&tt.answer)
			time.Sleep(tt.seconds * time.Second)
			if got := *s.fleet.Load(); got != tt.want {
				t.Errorf("step %d: fleet = %+v, want %+v", i, got, tt.want)
			}
		}
		before := beats.Load()
		cancel()
		run.Wait()
		if got := beats.Load() - before; got != 1 {
			t.Errorf("%d heartbeats at the end, want one that says goodbye", got)
		}
	})
}
