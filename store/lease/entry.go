package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// An entry is what is held and known of one counter. Times are since the store
// was made.
type entry struct {
	hash   uint64
	charge sluice.Charge // its key, limit and tolerance; N is 0

	demand demand
	left   atomic.Int64 // tokens held and not spent
	// reserved are spent by calls whose other charges are not decided yet.
	reserved atomic.Int64
	// returning are on their way back: until they have arrived, others may not
	// be claimed in their place.
	returning atomic.Int64
	low       atomic.Int64 // a claim is due when no more are left
	grant     atomic.Pointer[grant]
	scarce    atomic.Pointer[scarcity] // the last claim was not granted whole; nil: it was
	due       atomic.Int64             // no claim is made before, in nanoseconds

	mu       sync.Mutex
	claiming bool
	gone     bool // no longer in the table: nothing is claimed for it
	// forgotten, too, are the tokens in the store: given back they would count
	// twice.
	forgotten bool
}

// A grant is the latest claim that got tokens. It does not change. All that is
// left is spent as if it came from it.
type grant struct {
	sluice.Decision
	sent  time.Duration // when the claim was
	until time.Duration // when what is left may no longer be spent
}

// A scarcity is a claim that got less than it asked: the limit was reached.
type scarcity struct {
	until    time.Duration // the store is not asked before
	passes   time.Duration // when one token is there again, if nobody takes it
	reset    time.Duration // when the key is as if never used
	interval int64         // ticks in which a bucket gains a token
	busy     bool          // somebody asks, or claims, whether it is over
}

// at returns the same scarcity, over at a time; nil of none.
func (sc *scarcity) at(until time.Duration) *scarcity {
	if sc == nil {
		return nil
	}
	next := *sc
	next.until, next.busy = until, false
	return &next
}

// pending returns the scarcity while somebody asks whether it is over.
func (sc *scarcity) pending(now time.Duration) *scarcity {
	next := sc.at(now + longestPause)
	next.busy = true
	return next
}

// counts says whether the entry is of the charge's counter.
func (e *entry) counts(c *sluice.Charge) bool {
	return e.charge.Key == c.Key && e.charge.Tag == c.Tag && e.charge.Limit.Kind() == c.Limit.Kind()
}

// fits says whether what is held was claimed by the charge's limit.
func (e *entry) fits(c *sluice.Charge) bool {
	return e.charge.Limit == c.Limit && e.charge.Tolerance == c.Tolerance
}

// refused corrects the store's refusal of n tokens.
func (e *entry) refused(d *sluice.Decision, n int64, before *grant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left.Load() < n {
		e.prolong(d, n, before)
	}
}

// prolong lengthens the wait for n tokens of a bucket if a claim was under way with
// the call that the store refused, and took what it had counted on: to as long as
// an empty bucket needs. before is the grant when the call was sent. mu must be
// held.
func (e *entry) prolong(d *sluice.Decision, n int64, before *grant) {
	m, err := e.charge.Limit.Meter()
	if err != nil || e.charge.Limit.Algorithm != sluice.TokenBucket {
		return
	}
	refill := sluice.TicksDuration(n * m.Interval())
	switch {
	case e.claiming:
		d.RetryAfter = max(d.RetryAfter, longestPause+refill)
	case e.grant.Load() != before:
		d.RetryAfter = max(d.RetryAfter, refill)
	}
}

// reserve spends n tokens, if as many are held, and returns the grant that they
// came from.
func (e *entry) reserve(n int64, now time.Duration) (g *grant, left int64, ok bool) {
	g = e.grant.Load()
	if g == nil || now >= g.until {
		return nil, 0, false
	}
	for {
		left = e.left.Load()
		if left < n {
			return nil, 0, false
		}
		if e.left.CompareAndSwap(left, left-n) {
			return g, left - n, true
		}
	}
}

// decision describes n tokens spent of a grant. What is left of the limit is what
// the store had left, and what is held here.
func (g *grant) decision(n, left int64, now time.Duration) sluice.Decision {
	elapsed := now - g.sent
	return sluice.Decision{
		Allowed:    true,
		Granted:    n,
		Limit:      g.Limit,
		Remaining:  min(g.Limit, g.Remaining+left),
		ResetAfter: max(0, g.ResetAfter-elapsed),
		Source:     sluice.SourceLease,
		At:         g.At + sluice.DurationTicks(min(elapsed, g.ResetAfter)),
	}
}

// refuse answers a charge while the limit is known to be reached; false if that
// cannot be said. Whoever waits as long as it says, alone, passes; of a sliding
// window only if no other instance took its next token, which is asked again
// within longestPause.
func (e *entry) refuse(c *sluice.Charge, now time.Duration) (sluice.Decision, bool) {
	sc := e.scarce.Load()
	if sc == nil || now >= sc.until || e.left.Load() >= c.N {
		return sluice.Decision{}, false
	}
	passes := sc.passes
	switch c.Limit.Algorithm {
	case sluice.TokenBucket:
		switch {
		case sc.busy:
			// At worst the bucket is empty when the claim has been.
			passes = sc.until + sluice.TicksDuration(sc.interval)
		case now >= passes:
			// Another instance may have taken that token, and all since.
			passes = now + sluice.TicksDuration(sc.interval)
		}
		passes += sluice.TicksDuration((c.N - 1) * sc.interval)
	case sluice.SlidingWindow:
		if c.N > 1 {
			return sluice.Decision{}, false // how its estimate falls is not known here
		}
	}
	return sluice.Decision{
		Limit:      c.Limit.Capacity(),
		RetryAfter: max(passes, sc.until) - now,
		ResetAfter: max(sc.reset, passes, sc.until) - now,
		Source:     sluice.SourceLease,
	}, true
}
