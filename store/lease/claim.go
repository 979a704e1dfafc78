package lease

import (
	"context"
	"time"

	"github.com/sluice-limiter/sluice"
)

const (
	// least is how many tokens a lease must be worth: for fewer, asking each
	// time is as good.
	least = 4
	// longestPause bounds how long the store is not asked once the limit is
	// reached, unless it says itself that nothing passes before; then longestWait
	// does, as tokens may come back by a reset or from another instance.
	longestPause = 20 * time.Millisecond
	longestWait  = time.Second
	// failedPause is how long no claim is made after one that failed.
	failedPause = 50 * time.Millisecond
	// callTimeout bounds calls that nobody waits for. The store below has a
	// bound of its own, much closer.
	callTimeout = time.Second
)

// span is the time by whose demand a lease is sized: a lease is spent in about
// that.
func (s *Store) span() time.Duration { return s.o.Time / 2 }

// want claims tokens in the background, if it is time to.
func (s *Store) want(e *entry, now time.Duration) {
	if now < time.Duration(e.due.Load()) || !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	s.wantLocked(e, now)
}

// wantLocked is want once it is time; e.mu must be held.
func (s *Store) wantLocked(e *entry, now time.Duration) {
	if e.claiming || e.gone {
		return
	}
	if e.over(now) {
		s.giveBack(e.settleLocked())
	}
	n := s.amount(e, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= 0 || !s.running {
		return
	}
	e.claiming = true
	if sc := e.scarce.Load(); sc != nil {
		e.scarce.Store(sc.pending(now)) // those who come before the answer need not ask, too
	}
	s.claims.Go(func() { s.claim(e, n, now) })
}

// amount returns how many tokens to claim now; 0 for none. e.mu must be held.
func (s *Store) amount(e *entry, now time.Duration) int64 {
	most := share(&e.charge, s.look(now))
	target := min(most, e.demand.lately(now, s.span()))
	held := e.left.Load() + e.reserved.Load() + e.returning.Load()
	if target < least {
		e.low.Store(-1)
		// Demand must grow first; asking about it again costs a lock.
		e.due.Store(int64(now + s.span()/64))
		return 0
	}
	e.low.Store(target / 2)
	if held > target/2 {
		return 0
	}
	return target - held
}

// claim asks the store for up to n tokens. They are held from the time at which
// the number of instances was looked at: a process that stood still since then
// may not know that there are more.
func (s *Store) claim(e *entry, n int64, sized time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	charge := e.charge
	charge.N, charge.Unit, charge.OnFailure = n, 1, sluice.FailDeny
	s.counts.claims.Add(1)
	decisions, err := s.next.Take(ctx, nil, []sluice.Charge{charge})
	now := s.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.claiming = false
	if err != nil || len(decisions) != 1 || decisions[0].Source == sluice.SourceFallback {
		// Calls go on to the store, and are answered by its rules.
		e.scarce.Store(nil)
		e.due.Store(int64(now + failedPause))
		return
	}
	d := &decisions[0]
	s.counts.claimed.Add(d.Granted)
	if d.Granted > 0 {
		s.giveBack(e.receive(d, sized, s.o.Time, now))
	}
	e.learn(d, n, s.pause(e, d), now)
}

// receive adds what a claim got to what is held, and returns what must go back:
// what came too late, and what is held of another window. mu must be held.
func (e *entry) receive(d *sluice.Decision, sent, hold, now time.Duration) []refund {
	if e.forgotten {
		return nil
	}
	g := &grant{Decision: *d, sent: sent, until: sent + hold}
	var back []refund
	if e.charge.Limit.Algorithm != sluice.TokenBucket {
		start, end := e.window(d.At)
		g.until = min(g.until, sent+sluice.TicksDuration(end-d.At))
		if old := e.grant.Load(); old != nil && old.At < start {
			back = e.settleLocked()
		}
	}
	if e.gone || now >= g.until {
		return append(back, e.back(d.Granted, g))
	}
	e.grant.Store(g)
	e.left.Add(d.Granted)
	return back
}

// window returns the bounds of the window of a store time, in ticks. The limit
// is valid, as the store has decided by it.
func (e *entry) window(at int64) (start, end int64) {
	m, err := e.charge.Limit.Meter()
	if err != nil {
		return at, at
	}
	return m.Bounds(at)
}

// learn notes whether the claim of n tokens found the limit reached. mu must be
// held.
func (e *entry) learn(d *sluice.Decision, n int64, pause, now time.Duration) {
	e.due.Store(int64(now))
	if d.Granted >= n {
		e.scarce.Store(nil)
		return
	}
	sc := &scarcity{until: now + pause, passes: now + d.RetryAfter, reset: now + d.ResetAfter}
	if m, err := e.charge.Limit.Meter(); err == nil {
		sc.interval = m.Interval()
	}
	e.scarce.Store(sc)
	e.due.Store(int64(sc.until))
}

// pause returns how long the store need not be asked after a claim that it did
// not grant whole: until it has half a lease for each instance, or at least one
// token. What lies unused meanwhile is within the tolerance.
func (s *Store) pause(e *entry, d *sluice.Decision) time.Duration {
	l := &e.charge.Limit
	half := share(&e.charge, 2) // of all instances together
	refill := longestPause
	if l.Per > 0 {
		refill = min(refill, time.Duration(float64(half)*float64(l.Per)/float64(l.Tokens)))
	}
	return max(min(d.RetryAfter, longestWait), refill)
}
