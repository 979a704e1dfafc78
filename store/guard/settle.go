package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// Settling is in batches of at most settleBatch debts, settleCalls of them on
// their way at a time, each within settleTimeout.
const (
	settleBatch   = 128
	settleCalls   = 4
	settleTimeout = time.Second
)

// remember notes a local grant to be settled.
func (s *Store) remember(n *node, c *sluice.Charge, granted int64) {
	if s.settler != nil && !s.ledger.add(n, c, granted) {
		s.counts.forgotten.Add(1)
	}
}

// settleBefore charges what is owed on a call's own keys before the store
// decides on them, or waits until somebody else has.
func (s *Store) settleBefore(b *budget, n *node, charges []sluice.Charge) error {
	var mine []claimed
	var others []<-chan struct{}
	for i := range charges {
		if charges[i].OnFailure != sluice.FailLocal {
			continue
		}
		d, amount, busy := s.ledger.claim(&charges[i])
		if d != nil {
			mine = append(mine, claimed{d, amount})
		}
		if busy != nil {
			others = append(others, busy)
		}
	}
	if len(mine) > 0 {
		if err := s.settleWithin(b, n, mine); err != nil {
			return err
		}
	}
	// Only who holds no claim waits, so nobody waits in a ring. A busy channel
	// of this call itself, for a key that stands in it twice, is closed by now.
	for _, busy := range others {
		select {
		case <-busy:
		case <-b.Done():
			return b.Err()
		}
	}
	return nil
}

// settleWithin settles claimed debts and waits for it no longer than a call's
// budget. The settlement itself has its own time: cut off with the caller it
// would be lost, as it is sent once.
func (s *Store) settleWithin(b *budget, n *node, some []claimed) error {
	if err := s.answers(b, n, some); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.settling.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		done <- s.settleClaimed(ctx, some)
	})
	select {
	case err := <-done:
		return err
	case <-b.Done():
		return b.Err()
	}
}

// answers makes sure, if the last call failed, that the store answers at all
// before a settlement is sent, since that is sent once. If it does not, the
// claims are owed as before.
func (s *Store) answers(ctx context.Context, n *node, some []claimed) error {
	if n.trouble.Load() == 0 || n.until.Load() != 0 {
		return nil
	}
	err := s.peek(ctx, n)
	if err != nil {
		for _, c := range some {
			s.ledger.add(n, c.debt.charge(), c.amount)
			s.ledger.release(c.debt)
		}
	}
	return err
}

// settleClaimed settles claimed debts in one call and releases them.
func (s *Store) settleClaimed(ctx context.Context, some []claimed) error {
	settlements := make([]sluice.Settlement, 0, len(some))
	for _, c := range some {
		if amount := s.deficit(c); amount > 0 {
			charge := c.debt.charge()
			charge.N = amount
			settlements = append(settlements, sluice.Settlement{Charge: *charge})
		}
	}
	var err error
	if len(settlements) > 0 {
		if err = s.settler.Settle(ctx, settlements); err != nil {
			s.counts.lost.Add(int64(len(settlements)))
		} else {
			s.counts.settled.Add(int64(len(settlements)))
		}
	}
	for _, c := range some {
		s.ledger.release(c.debt)
	}
	return err
}

func (d *debt) charge() *sluice.Charge {
	return &sluice.Charge{Key: d.counter.key, Tag: d.counter.tag, Limit: d.counter.limit}
}

// deficit returns what a claimed debt still matters: what the local counter has
// refilled since, or counted in a window that has ended, does not. The counter
// keeps what it counted, so that outages in a row have one burst among them.
func (s *Store) deficit(c claimed) int64 {
	limit, key := c.debt.counter.limit, c.debt.counter.key
	now := sluice.Ticks(time.Now())
	sh := s.fleet.Load().share(&limit, hash(key), now, now)
	if sh.limit.Tokens == 0 {
		return 0
	}
	peek := [1]sluice.Charge{{Key: key, Limit: sh.limit}}
	var buf [1]sluice.Decision
	decisions, err := s.local.Take(context.Background(), buf[:0], peek[:])
	if err != nil {
		return c.amount
	}
	return min(c.amount, decisions[0].Limit-decisions[0].Remaining)
}

// peek asks whether a node answers.
func (s *Store) peek(ctx context.Context, n *node) error {
	_, err := s.next.Take(ctx, nil, []sluice.Charge{n.sample})
	return err
}

// settleAll settles the debts of a node until there are none or it fails.
func (s *Store) settleAll(ctx context.Context, n *node) {
	// What was not sent is owed as before: to try it again at once would spin.
	var failed atomic.Bool
	for ctx.Err() == nil && n.state() == Closed && !failed.Load() {
		some := s.ledger.claimSome(n, settleBatch*settleCalls)
		if len(some) == 0 {
			return
		}
		var calls sync.WaitGroup
		for _, batch := range s.batches(some) {
			calls.Go(func() {
				if err := s.settleBatch(ctx, n, batch); err != nil {
					failed.Store(true)
				}
			})
		}
		calls.Wait()
	}
}

func (s *Store) settleBatch(ctx context.Context, n *node, batch []claimed) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	p := permit{began: time.Now()}
	err := s.answers(ctx, n, batch)
	if err == nil {
		err = s.settleClaimed(ctx, batch)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.fail(n, p)
	}
	return err
}

// batches parts debts into what can travel in one call: of one slot, and not too
// many.
func (s *Store) batches(some []claimed) [][]claimed {
	bySlot := make(map[int][]claimed)
	var batches [][]claimed
	for _, c := range some {
		slot := s.Locate(c.debt.charge()).Slot
		bySlot[slot] = append(bySlot[slot], c)
		if len(bySlot[slot]) == settleBatch {
			batches = append(batches, bySlot[slot])
			delete(bySlot, slot)
		}
	}
	for _, batch := range bySlot {
		batches = append(batches, batch)
	}
	return batches
}

// Settle implements [sluice.Settler] by the next store, within the budget, and
// for what was granted here, by the local one.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	var next []sluice.Settlement
	var errs []error
	for i := range settlements {
		st := &settlements[i]
		if st.Charge.N < 0 && st.From.Source == sluice.SourceFallback {
			errs = append(errs, s.giveBackLocal(ctx, *st))
		} else {
			next = append(next, *st)
		}
	}
	if len(next) > 0 {
		errs = append(errs, s.settleNext(ctx, next))
	}
	return errors.Join(errs...)
}

// ErrAway reports that the store's breaker is open.
var ErrAway = errors.New("guard: the store does not answer")

func (s *Store) settleNext(ctx context.Context, settlements []sluice.Settlement) error {
	if s.settler == nil {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	n := s.node(&settlements[0].Charge)
	p, ok := s.enter(n)
	if !ok {
		return ErrAway
	}
	b := s.budgets.start(ctx, p.began, s.o.Budget)
	err := s.settler.Settle(b, settlements)
	s.budgets.stop(b)
	if err == nil || isAnswer(err) {
		s.succeed(n, p)
	} else {
		s.fail(n, p)
	}
	return err
}

// giveBackLocal returns tokens to a local counter.
func (s *Store) giveBackLocal(ctx context.Context, st sluice.Settlement) error {
	settler, ok := s.local.(sluice.Settler)
	if !ok || st.Charge.OnFailure != sluice.FailLocal {
		return nil
	}
	if _, err := st.Charge.Limit.Meter(); err != nil {
		return err
	}
	now := sluice.Ticks(time.Now())
	sh := s.fleet.Load().share(&st.Charge.Limit, hash(st.Charge.Key), now, now)
	if sh.limit.Tokens == 0 {
		return nil // the window has ended
	}
	s.ledger.lower(&st.Charge, -st.Charge.N)
	st.Charge.Limit = sh.limit
	return settler.Settle(ctx, []sluice.Settlement{st})
}
