package memory

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/sluice-limiter/sluice"
)

// Settle implements [sluice.Settler]. Settlements are applied one by one; an
// invalid one is an error that wraps [sluice.ErrCharge], and then none is.
// Giving back to a key that is not kept changes nothing, since it is full.
func (s *Store) Settle(_ context.Context, settlements []sluice.Settlement) error {
	for i := range settlements {
		c := &settlements[i].Charge
		if _, err := c.Limit.Meter(); err != nil {
			return err
		}
		if c.N < -sluice.MaxTokens || c.N > sluice.MaxTokens {
			return fmt.Errorf("%w: settled amount is %d: want at most %d either way", sluice.ErrCharge, c.N, int64(sluice.MaxTokens))
		}
	}
	for i := range settlements {
		s.settle(&settlements[i])
	}
	return nil
}

func (s *Store) settle(settlement *sluice.Settlement) {
	charges := [1]sluice.Charge{settlement.Charge}
	c := s.begin(charges[:])
	sluice.Correct(c.states[0], settlement, &c.meters[0], c.now)
	c.end(charges[:])
}

// Forget implements [sluice.Forgetter]. It never fails.
func (s *Store) Forget(_ context.Context, charges []sluice.Charge) error {
	for i := range charges {
		s.forget(&charges[i])
	}
	return nil
}

func (s *Store) forget(c *sluice.Charge) {
	hash := maphash.String(s.seed, c.Key)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if c.Limit.Algorithm != sluice.TokenBucket {
		if w := sh.windows.byName[name{c.Key, c.Limit.Kind()}]; w != nil {
			s.removeWindow(sh, w)
		}
		return
	}
	if b := sh.table.Load().find(hash, c.Key); b != nil {
		b.kill()
		s.removeBucket(sh, b)
	}
}
