package lease

import (
	"context"
	"hash/maphash"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
)

// Run lets the store lease until ctx ends; then it gives back all that is held,
// within about a second. It gives back as well what nobody asks for any more and
// what has been held for a lease time. All that the store starts has ended when
// Run returns.
func (s *Store) Run(ctx context.Context) {
	if s.settler == nil {
		<-ctx.Done()
		return
	}
	s.setRunning(true)
	ticker := time.NewTicker(s.o.Time / 8)
	defer ticker.Stop()
	for ctx.Err() == nil {
		s.active.Store(s.look(s.now()) > 0)
		select {
		case <-ticker.C:
			s.sweep()
		case <-ctx.Done():
		}
	}
	s.active.Store(false)
	s.setRunning(false)
	s.claims.Wait()
	s.returnAll()
}

func (s *Store) setRunning(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
}

// batch is how many keys are given back in one call.
const batch = 64

// sweep gives back what is held too long or for nobody, and forgets keys without
// demand.
func (s *Store) sweep() {
	var back []refund
	now := s.now()
	for e := range s.table.all() {
		e.mu.Lock()
		if e.over(now) || e.demand.lately(now, s.span()) == 0 {
			back = append(back, e.settleLocked()...)
		}
		idle := e.idleLocked(now, s.span())
		e.mu.Unlock()
		if idle {
			s.table.remove(e.hash, e)
		}
		if len(back) >= batch {
			s.giveBack(back)
			back = nil
		}
	}
	s.giveBack(back)
}

// returnAll gives back everything. No claim is under way.
func (s *Store) returnAll() {
	var back []refund
	for e := range s.table.all() {
		e.mu.Lock()
		e.gone = true
		back = append(back, e.settleLocked()...)
		e.mu.Unlock()
		s.table.remove(e.hash, e)
	}
	for len(back) > 0 {
		n := min(batch, len(back))
		s.settle(back[:n])
		back = back[n:]
	}
}

func (s *Store) hash(c *sluice.Charge) uint64 { return maphash.String(s.seed, c.Key) }

// cloned returns a charge whose strings are no parts of longer ones.
func cloned(c *sluice.Charge) sluice.Charge {
	d := *c
	d.Key, d.Tag = strings.Clone(c.Key), strings.Clone(c.Tag)
	return d
}
