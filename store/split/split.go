// Package split lets a call reach over several slots of a cluster. A store
// below decides what lies in one slot in one step; split asks the slots side by
// side, and where a group reaches over several of them it gives back what some
// granted and others did not. It never admits too much; for a moment, until a
// give-back arrives, a key may admit too little.
package split

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-limiter/sluice"
)

// A Store takes calls apart. It may be used from many goroutines.
type Store struct {
	next    sluice.Store
	locator sluice.Locator
	settler sluice.Settler
	calls   sync.Pool // *call
	backs   backs
}

// New returns a store over next, whose Locator says which charges can be
// decided in one call and whose Settler takes what is given back. Without a
// Locator everything passes straight through.
func New(next sluice.Store) *Store {
	s := &Store{next: next}
	s.locator, _ = next.(sluice.Locator)
	s.settler, _ = next.(sluice.Settler)
	s.calls.New = func() any { return new(call) }
	s.backs.init()
	return s
}

// Close waits for what is being given back. Later calls give back before they
// return.
func (s *Store) Close() { s.backs.close() }

// Take implements [sluice.Store]. A call within one slot goes straight to the
// store below. Of another, all parts are answered or it is an error, and then
// what was granted is given back.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if s.oneSlot(charges) {
		return s.next.Take(ctx, dst, charges)
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	c := s.calls.Get().(*call)
	defer s.calls.Put(c)
	defer c.reset()
	c.prepare(s, charges)
	for from := 0; from < len(charges); {
		to := c.stage(from)
		back, err := c.run(ctx, from, to)
		if err != nil {
			s.giveBack(c.undo(from, back))
			return dst, err
		}
		from = to
		if from < len(charges) && len(back) > 0 {
			// The next stage may need it.
			if err := s.settle(ctx, back); err != nil {
				s.giveBack(c.undo(from, nil))
				return dst, err
			}
			continue
		}
		s.giveBack(back)
	}
	return append(dst, c.decisions...), nil
}

// oneSlot says whether a call need not be taken apart.
func (s *Store) oneSlot(charges []sluice.Charge) bool {
	if s.locator == nil || len(charges) < 2 {
		return true
	}
	slot := s.locator.Locate(&charges[0]).Slot
	for i := 1; i < len(charges); i++ {
		if s.locator.Locate(&charges[i]).Slot != slot {
			return false
		}
	}
	return true
}

// Locate implements [sluice.Locator] by the store below.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if s.locator == nil {
		return sluice.Place{}
	}
	return s.locator.Locate(c)
}

// Settle implements [sluice.Settler]: each slot gets its own call.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if s.settler == nil {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	for i := range settlements {
		if _, err := settlements[i].Charge.Limit.Meter(); err != nil {
			return err // before another slot settles
		}
	}
	return s.settle(ctx, settlements)
}

func (s *Store) settle(ctx context.Context, settlements []sluice.Settlement) error {
	if s.settler == nil || len(settlements) == 0 {
		return nil
	}
	parts := make(map[int][]sluice.Settlement)
	for i := range settlements {
		slot := s.Locate(&settlements[i].Charge).Slot
		parts[slot] = append(parts[slot], settlements[i])
	}
	if len(parts) == 1 {
		return s.settler.Settle(ctx, settlements)
	}
	var mu sync.Mutex
	var errs []error
	var wait sync.WaitGroup
	for _, part := range parts {
		wait.Go(func() {
			if err := s.settler.Settle(ctx, part); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Forget implements [sluice.Forgetter] by the store below.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	f, ok := s.next.(sluice.Forgetter)
	if !ok {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	return f.Forget(ctx, charges)
}
