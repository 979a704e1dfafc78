// Package guard lets a store fail without its callers noticing more than the
// limits' failure modes. A decision takes at most its budget; after a few
// failures in a row a breaker opens, for each node of the store, and nobody waits
// for it; meanwhile each limit is counted in memory at this instance's share,
// allows or denies. When the node answers again, what was admitted in memory is
// charged to it before it decides on the same keys.
//
// # Bound
//
// Across an outage one instance admits at most 2 x burst + rate x W in any window
// W: what the store had admitted, and what was counted in memory. So does a fleet
// whose instances see the outage begin and end together; up to a probe's delay
// apart, as they do, rate x that delay may come on top. An instance that is cut
// off while others are not admits its share beside what the store does, until it
// is back. Of several outages in one window the later ones add what the local
// counters refilled since the first, as far as the store had no room left to be
// charged with it. What is lost, by a failing settlement or over MaxPending, counts as
// never admitted.
package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// Options configure a [Store]; the zero value is the default.
type Options struct {
	// Budget is the longest that a decision waits for the store; 0: 5ms.
	Budget time.Duration
	// Probe is how long a breaker stays open before a call is tried again; 0:
	// 250ms.
	Probe time.Duration
	// Failures is how many failures in a row open a breaker; 0: 3. With more than
	// an outage can bring every call waits for its budget instead, which shows
	// what the breaker is for.
	Failures int
	// Instances divides the limits until the first heartbeat is read, and
	// always without a Registrar; 0: 1.
	Instances int
	// ID names this instance among all; "": a random one.
	ID string
	// TTL is how long a heartbeat counts; three are sent in it. 0: 10s.
	TTL time.Duration
	// MaxPending bounds the keys remembered for settling; 0: 65536. Those over
	// it are not settled: they can have a burst more after an outage.
	MaxPending int
	// Registrar counts the instances; nil: the next store, if it is one.
	Registrar sluice.Registrar
	// OnState, if not nil, is told of every change of a breaker, and OnBeat of
	// every heartbeat: the instances alive, or why they could not be counted.
	// They may be called from many goroutines and should return at once.
	OnState func(node string, from, to State)
	OnBeat  func(live int, err error)
}

func (o *Options) setDefaults() {
	set(&o.Budget, 5*time.Millisecond)
	set(&o.Probe, 250*time.Millisecond)
	set(&o.TTL, 10*time.Second)
	if o.Failures <= 0 {
		o.Failures = inARow
	}
	if o.Instances <= 0 {
		o.Instances = 1
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 1 << 16
	}
	if o.ID == "" {
		o.ID = rand.Text()
	}
}

func set(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

func clone(s string) string { return strings.Clone(s) }

// A Store guards another. It may be used from many goroutines. Make one with
// [New], and let [Store.Run] run beside it.
type Store struct {
	next      sluice.Store
	local     sluice.Store
	settler   sluice.Settler // of next; nil: none
	locator   sluice.Locator // of next; nil: one node
	registrar sluice.Registrar
	o         Options

	budgets budgets
	nodes   atomic.Pointer[map[string]*node]
	mu      sync.Mutex // one writer of nodes at a time
	fleet   atomic.Pointer[fleet]
	visible visibility
	ledger  ledger
	scratch sync.Pool     // *scratch
	wake    chan struct{} // holds a token when there are debts to settle
	counts  counts
	running atomic.Bool // Run is
	// settling holds the settlements that callers began and did not wait for.
	settling sync.WaitGroup
}

// New returns a store over next, which must heed its context, be answered
// before the context ends or not at all, and not keep it. A grant that comes
// later is lost unless next gives it back, as store/coalesce does. local counts
// while next does not answer: a store in memory, for this purpose alone.
func New(next, local sluice.Store, o Options) *Store {
	o.setDefaults()
	s := &Store{next: next, local: local, registrar: o.Registrar, o: o, wake: make(chan struct{}, 1)}
	s.settler, _ = next.(sluice.Settler)
	s.locator, _ = next.(sluice.Locator)
	if s.registrar == nil {
		s.registrar, _ = next.(sluice.Registrar)
	}
	s.nodes.Store(&map[string]*node{})
	s.fleet.Store(unknownFleet(o.ID, o.Instances))
	s.ledger.init(o.MaxPending)
	s.scratch.New = func() any { return new(scratch) }
	return s
}

var errCount = errors.New("guard: the store did not answer every charge")

// Take implements [sluice.Store]. It fails only on charges that make no sense
// and for callers whose context has ended; an end during the call is noticed
// after it, at most a budget later.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if len(charges) == 0 {
		return dst, nil
	}
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	n := s.node(&charges[0])
	p, ok := s.enter(n)
	if !ok {
		return s.fallback(dst, charges, n)
	}
	b := s.budgets.start(ctx, p.began, s.o.Budget)
	decisions, err := s.ask(b, n, p, dst, charges)
	s.budgets.stop(b)
	switch {
	case err == nil:
		s.succeed(n, p)
		return decisions, nil
	case isAnswer(err):
		s.succeed(n, p)
		return dst, err
	}
	s.fail(n, p)
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	return s.fallback(dst, charges, n)
}

// ask asks the store within the budget. What is owed on the call's own keys is
// settled before; while others are still to settle the local share must suffice,
// too.
func (s *Store) ask(b *budget, n *node, p permit, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if n.trouble.Load() != 0 {
		if err := sluice.CheckCharges(charges); err != nil {
			return dst, err
		}
		if n.waitsForFleet(p.began) {
			return s.both(b, n, dst, charges)
		}
	}
	return s.askNext(b, n, dst, charges)
}

func (s *Store) askNext(b *budget, n *node, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if n.pending.Load() > 0 {
		if err := s.settleBefore(b, n, charges); err != nil {
			return dst, err
		}
	}
	decisions, err := s.next.Take(b, dst, charges)
	if err == nil && len(decisions) != len(dst)+len(charges) {
		err = errCount
	}
	return decisions, err
}

// isAnswer says whether an error is about the charges, not about the store.
func isAnswer(err error) bool {
	return errors.Is(err, sluice.ErrCharge) || errors.Is(err, sluice.ErrCost)
}

// Locate implements [sluice.Locator] by the next store.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if s.locator == nil {
		return sluice.Place{}
	}
	return s.locator.Locate(c)
}

// Register implements [sluice.Registrar] by the registrar.
func (s *Store) Register(ctx context.Context, id string, ttl time.Duration) ([]string, error) {
	if s.registrar == nil {
		return nil, fmt.Errorf("register: %w", sluice.ErrUnsupported)
	}
	return s.registrar.Register(ctx, id, ttl)
}

// Forget implements [sluice.Forgetter]: the keys are forgotten here, with what
// is owed on them, and in the next store.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	for i := range charges {
		s.ledger.drop(&charges[i])
	}
	var errs []error
	if f, ok := s.local.(sluice.Forgetter); ok {
		errs = append(errs, f.Forget(ctx, charges))
	}
	f, ok := s.next.(sluice.Forgetter)
	if !ok {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	return errors.Join(append(errs, f.Forget(ctx, charges))...)
}
