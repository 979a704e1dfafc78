package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

func newEntry(hash uint64, c *sluice.Charge, now time.Duration) *entry {
	e := &entry{hash: hash, charge: cloned(c)}
	e.charge.N, e.charge.Unit, e.charge.Group = 0, 0, 0
	e.demand.began = now
	e.low.Store(-1)
	return e
}

// over says whether tokens are held that may no longer be spent.
func (e *entry) over(now time.Duration) bool {
	g := e.grant.Load()
	return g != nil && now >= g.until && e.left.Load() > 0
}

// idle says whether nothing is held of the counter and nobody asks for it.
func (e *entry) idle(now, span time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.idleLocked(now, span)
}

func (e *entry) idleLocked(now, span time.Duration) bool {
	if e.claiming || e.left.Load() > 0 || e.reserved.Load() > 0 || e.returning.Load() > 0 || e.demand.lately(now, span) > 0 {
		return false
	}
	e.gone = true
	return true
}

// A refund is tokens on their way back to the store.
type refund struct {
	entry *entry
	n     int64
	from  sluice.Decision
}

// back begins to give back n tokens of a grant.
func (e *entry) back(n int64, g *grant) refund {
	e.returning.Add(n)
	return refund{e, n, g.Decision}
}

// settleLocked takes all that is held, to be given back. mu must be held.
func (e *entry) settleLocked() []refund {
	g := e.grant.Load()
	if g == nil {
		return nil
	}
	n := e.left.Swap(0)
	if n <= 0 {
		return nil
	}
	return []refund{e.back(n, g)}
}

// restore takes back n tokens that were reserved of a grant and not spent, and
// returns what may no longer be: those of a window that has ended meanwhile, and
// of a lease or an entry that has.
func (e *entry) restore(n int64, from *grant, now time.Duration) []refund {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.reserved.Add(-n)
	if e.forgotten {
		return nil
	}
	g := e.grant.Load()
	if e.gone || g != from && e.charge.Limit.Algorithm != sluice.TokenBucket && now >= from.until {
		return []refund{e.back(n, from)}
	}
	e.left.Add(n)
	if now >= g.until {
		return e.settleLocked()
	}
	return nil
}

// retire takes an entry out of use and gives back what it holds.
func (s *Store) retire(e *entry) {
	e.mu.Lock()
	e.gone = true
	back := e.settleLocked()
	e.mu.Unlock()
	s.table.remove(e.hash, e)
	s.giveBack(back)
}

// drop takes the charge's entry out of use and gives nothing back. What was
// claimed after the reset is lost with the rest: it cannot be told from it.
func (s *Store) drop(c *sluice.Charge) {
	e := s.table.find(s.hash(c), c)
	if e == nil {
		return
	}
	e.mu.Lock()
	e.gone, e.forgotten = true, true
	s.counts.lost.Add(e.left.Swap(0))
	e.mu.Unlock()
	s.table.remove(e.hash, e)
}

// giveBack sends refunds, once, without letting anybody wait.
func (s *Store) giveBack(refunds []refund) {
	if len(refunds) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		s.claims.Go(func() { s.settle(refunds) })
		return
	}
	arrived(refunds, &s.counts.lost)
}

// settle sends refunds.
func (s *Store) settle(refunds []refund) {
	settlements := make([]sluice.Settlement, len(refunds))
	for i := range refunds {
		c := refunds[i].entry.charge
		c.N = -refunds[i].n
		settlements[i] = sluice.Settlement{Charge: c, From: refunds[i].from}
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := s.settler.Settle(ctx, settlements); err != nil {
		arrived(refunds, &s.counts.lost)
		return
	}
	arrived(refunds, &s.counts.returned)
}

// arrived ends refunds, and counts their tokens.
func arrived(refunds []refund, count *atomic.Int64) {
	for i := range refunds {
		refunds[i].entry.returning.Add(-refunds[i].n)
		count.Add(refunds[i].n)
	}
}
