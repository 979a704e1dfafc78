// Package coalesce lets calls of a store share round trips. While few calls are
// under way each goes out at once; beyond that, equal calls wait and go together
// as one charge with partial grants, and different ones travel side by side in
// one call. It is exact: what was granted is handed out first come, first
// served, and what a caller who gave up no longer takes goes to the next or is
// given back.
package coalesce

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// Options bound what is under way. The zero value is the default, right for a
// store whose round trip is short.
type Options struct {
	// KeyInFlight is how many calls for one key may be under way before others
	// wait for them; 0 means 4.
	KeyInFlight int
	// InFlight is how many calls may be under way in one place before others
	// wait; 0 means 3. It is worth as many as the store can decide in one
	// round trip: at a millisecond, some forty.
	InFlight int
	// Charges bounds one call made of several; 0 means 128.
	Charges int
}

// A Store shares the round trips of another. Calls under way are not ended by a
// caller's context: the caller is, and its grant goes on to somebody else. The
// store below must end each call by itself. It may be used from many goroutines.
type Store struct {
	next    sluice.Store
	locator sluice.Locator
	settler sluice.Settler
	o       Options

	workers workers
	waiters sync.Pool // *waiter
	batches sync.Pool // *batch
	seed    maphash.Seed
	calls   atomic.Int64
	charges atomic.Int64

	mu    sync.RWMutex
	lanes map[int]*lane // by slot
}

// New returns a store over next. Its Locator, if it has one, says which calls
// can travel together.
func New(next sluice.Store, o Options) *Store {
	if o.KeyInFlight == 0 {
		o.KeyInFlight = 4
	}
	if o.InFlight == 0 {
		o.InFlight = 3
	}
	if o.Charges == 0 {
		o.Charges = 128
	}
	s := &Store{next: next, o: o, seed: maphash.MakeSeed(), lanes: make(map[int]*lane)}
	s.locator, _ = next.(sluice.Locator)
	s.settler, _ = next.(sluice.Settler)
	s.waiters.New = func() any { return &waiter{done: make(chan struct{}, 1)} }
	s.batches.New = func() any { return new(batch) }
	s.workers.init()
	return s
}

// ErrClosed reports a call after Close.
var ErrClosed = errors.New("coalesce: the store is closed")

// Close waits for the calls under way and ends all goroutines. Calls that come
// later return [ErrClosed].
func (s *Store) Close() { s.workers.close() }

// Take implements [sluice.Store]. When ctx ends it returns the context's error,
// and what is granted later is not lost.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if len(charges) == 0 {
		return dst, nil
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	until := endsAt(ctx)
	if until.IsZero() {
		if err := ctx.Err(); err != nil {
			return dst, err
		}
	}
	w := s.waiters.Get().(*waiter)
	w.ask(charges)
	w.until = until
	s.lane(charges).add(w, s.sum(charges))
	if err := w.wait(ctx); err != nil {
		return dst, err // whoever answers drops the waiter
	}
	dst, err := append(dst, w.decisions...), w.err
	s.waiters.Put(w)
	return dst, err
}

// Stats counts since New.
type Stats struct {
	// Calls is the calls made of the store below, Charges the charges that
	// callers asked in them.
	Calls, Charges int64
}

// Stats returns the counts of now.
func (s *Store) Stats() Stats {
	return Stats{Calls: s.calls.Load(), Charges: s.charges.Load()}
}

// sum returns a number that is equal for equal calls and likely differs for
// others.
func (s *Store) sum(charges []sluice.Charge) uint64 {
	sum := uint64(len(charges))
	for i := range charges {
		c := &charges[i]
		sum = (sum^maphash.String(s.seed, c.Key))*0x9e3779b97f4a7c15 + uint64(c.N)
	}
	return sum
}

// lane returns the queue of the place where a call is decided.
func (s *Store) lane(charges []sluice.Charge) *lane {
	slot := 0
	if s.locator != nil {
		slot = s.locator.Locate(&charges[0]).Slot
	}
	s.mu.RLock()
	l := s.lanes[slot]
	s.mu.RUnlock()
	if l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes[slot] == nil {
		s.lanes[slot] = &lane{s: s, keys: make(map[string]*key), open: make(map[uint64]*item)}
	}
	return s.lanes[slot]
}

// Locate implements [sluice.Locator] by the store below.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if s.locator == nil {
		return sluice.Place{}
	}
	return s.locator.Locate(c)
}

// Forget implements [sluice.Forgetter] by the store below.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	f, ok := s.next.(sluice.Forgetter)
	if !ok {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	return f.Forget(ctx, charges)
}

// Settle implements [sluice.Settler] by the store below.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if s.settler == nil {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	return s.settler.Settle(ctx, settlements)
}

// Register implements [sluice.Registrar] by the store below.
func (s *Store) Register(ctx context.Context, id string, ttl time.Duration) ([]string, error) {
	r, ok := s.next.(sluice.Registrar)
	if !ok {
		return nil, fmt.Errorf("register: %w", sluice.ErrUnsupported)
	}
	return r.Register(ctx, id, ttl)
}
