// Package denied remembers refusals. A refusal by the store stays true until its
// wait is over, unless tokens are given back, the key is reset or its limit
// raised; so it can be told again without asking the store.
//
// # What is answered here
//
// A group is known to be refused if one of its charges is: nothing of it is
// consumed. The groups of a call that are not known to be refused, such as those
// of shadow limits, still go to the store, without the others; the call stays
// here only if none is left. Groups of peeks always go.
//
// Nothing is admitted that the store would have refused. A refusal is told for at
// most a second after the call that learned it was sent, so that what happens
// elsewhere is noticed a second late at most; settling or forgetting through this
// store is noticed at once.
//
// # What is reported
//
// A remembered refusal is told with the waits that are left of it, counted from
// when its answer was there: whoever waits that long, alone, passes. Of a token
// bucket the wait of a larger amount is computed, and a fixed window makes all
// wait for its end. A larger amount of a sliding window or log is asked of the
// store once, since its wait cannot be told from that of a smaller one.
//
// What the store would say now of the other charges of a refused group is not
// known. They are Allowed, since no refusal of theirs is known, with Granted 0;
// Remaining and ResetAfter are as last told beside a refusal, at most a second
// ago, and 0 if nothing was. A verdict's longest wait is then that of the refusals
// known.
package denied

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// DefaultMaxKeys is the bound on what is remembered if [Options] names none.
const DefaultMaxKeys = 1 << 16

// Options configure a [Store]; the zero value is the default.
type Options struct {
	// MaxKeys bounds the answers remembered, which is about the keys refused
	// in one second; 0 or less means DefaultMaxKeys. At the bound the one that
	// would end first is forgotten, and its key's next call asks the store.
	MaxKeys int
}

// A Store remembers the refusals of another. It may be used from many
// goroutines, starts none and needs no closing. Make one with [New].
type Store struct {
	next  sluice.Store
	now   func() time.Duration // since any moment; never goes back
	seed  maphash.Seed
	cache cache
	calls sync.Pool // *call
}

// New returns a store over next.
func New(next sluice.Store, o Options) *Store {
	start := time.Now()
	return newStore(next, o, func() time.Duration { return time.Since(start) })
}

func newStore(next sluice.Store, o Options, now func() time.Duration) *Store {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	s := &Store{next: next, now: now, seed: maphash.MakeSeed()}
	s.cache.init(o.MaxKeys)
	s.calls.New = func() any { return new(call) }
	return s
}

var errCount = errors.New("denied: the store did not answer every charge")

// Take implements [sluice.Store].
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if len(charges) == 1 {
		return s.takeOne(ctx, dst, charges)
	}
	return s.takeSeveral(ctx, dst, charges)
}

// takeOne decides the common call. Its charges are not kept, nor is anything
// allocated if the refusal is known.
func (s *Store) takeOne(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	c := &charges[0]
	if c.N <= 0 {
		return s.next.Take(ctx, dst, charges)
	}
	sent := s.now()
	l := s.look(c, unit(c), sent)
	if l.refused {
		if err := sluice.CheckCharges(charges); err != nil {
			return dst, err
		}
		return append(dst, l.entry.refusal(l.amount, sent)), nil
	}
	decisions, err := s.ask(ctx, dst, charges)
	if err != nil {
		return dst, err
	}
	looks := [1]look{l}
	s.learn(charges, looks[:], decisions[len(dst):], sent)
	return decisions, nil
}

// ask asks the store and makes sure that it answers all.
func (s *Store) ask(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	decisions, err := s.next.Take(ctx, dst, charges)
	if err == nil && len(decisions) != len(dst)+len(charges) {
		err = errCount
	}
	return decisions, err
}

// unit is the least that a grant of the charge can be; 0 for a peek.
func unit(c *sluice.Charge) int64 {
	if c.Unit != 0 && c.N > 0 {
		return c.Unit
	}
	return c.N
}

// Settle implements [sluice.Settler] by the store below, and forgets what is
// remembered of the keys, also if that fails.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	settler, ok := s.next.(sluice.Settler)
	if !ok {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	err := settler.Settle(ctx, settlements)
	for i := range settlements {
		s.drop(&settlements[i].Charge)
	}
	return err
}

// Forget implements [sluice.Forgetter] by the store below, and forgets what is
// remembered of the keys, also if that fails.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	forgetter, ok := s.next.(sluice.Forgetter)
	if !ok {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	err := forgetter.Forget(ctx, charges)
	for i := range charges {
		s.drop(&charges[i])
	}
	return err
}

// Locate implements [sluice.Locator] by the store below.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if l, ok := s.next.(sluice.Locator); ok {
		return l.Locate(c)
	}
	return sluice.Place{}
}

// Register implements [sluice.Registrar] by the store below.
func (s *Store) Register(ctx context.Context, id string, ttl time.Duration) ([]string, error) {
	r, ok := s.next.(sluice.Registrar)
	if !ok {
		return nil, fmt.Errorf("register: %w", sluice.ErrUnsupported)
	}
	return r.Register(ctx, id, ttl)
}
