package lease

import (
	"context"
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
	if e.claiming || e.left.Load() > 0 || e.reserved.Load() > 0 || e.demand.lately(now, span) > 0 {
		return false
	}
	e.gone = true
	return true
}

// back is a settlement that gives back n tokens of a grant.
func (e *entry) back(n int64, g *grant) sluice.Settlement {
	c := e.charge
	c.N = -n
	return sluice.Settlement{Charge: c, From: g.Decision}
}

// settleLocked takes all that is held, to be given back. mu must be held.
func (e *entry) settleLocked() []sluice.Settlement {
	g := e.grant.Load()
	n := e.left.Swap(0)
	if g == nil || n <= 0 {
		return nil
	}
	return []sluice.Settlement{e.back(n, g)}
}

// expire gives back what is held and may no longer be spent.
func (s *Store) expire(e *entry) {
	e.mu.Lock()
	back := e.settleLocked()
	e.mu.Unlock()
	s.giveBack(back)
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

// drop takes the charge's entry out of use and gives nothing back.
func (s *Store) drop(c *sluice.Charge) {
	e := s.table.find(s.hash(c), c)
	if e == nil {
		return
	}
	e.mu.Lock()
	e.gone = true
	e.left.Store(0)
	e.mu.Unlock()
	s.table.remove(e.hash, e)
}

// giveBack sends settlements, once, without letting anybody wait.
func (s *Store) giveBack(settlements []sluice.Settlement) {
	if len(settlements) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		s.claims.Go(func() { s.settle(settlements) })
		return
	}
	s.count(settlements, &s.counts.lost)
}

// settle sends settlements.
func (s *Store) settle(settlements []sluice.Settlement) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := s.settler.Settle(ctx, settlements); err != nil {
		s.count(settlements, &s.counts.lost)
		return
	}
	s.count(settlements, &s.counts.returned)
}
