// Package lease claims tokens of hot keys in advance, so that most decisions on
// them need no round trip. Only limits with a tolerance t are leased: all
// instances together never hold more than t x burst claimed and unspent. A share
// of fewer than four tokens is not leased, nor is a key that is asked for less in
// half a lease time. What they hold is debited in the store before anyone spends it, is spent or given
// back within a lease time, and is lost, at most one lease, when an instance
// crashes.
//
// # Bound
//
// In any window W at most (1 + t) x burst + rate x W is admitted, and at most t x
// burst lies unused: what is in a bucket and what is claimed from it are never
// more together than burst and t x burst, whoever claims or gives back, since what
// is on its way back still counts as held. A fixed or sliding window spends its
// leases before it ends, so its own bound holds as it is. An instance sizes its
// share by the largest number of instances seen within a lease time, and leases
// nothing before all others must have seen it.
//
// # Refusals
//
// Once a claim or a caller finds the limit reached, others are refused here for as
// long as half a lease of each instance needs to refill, 20ms at most, unless the
// store said itself that nothing passes before. Whoever waits as long as a refusal
// says, while nobody else asks, passes: it counts what a claim under way may still
// take, and what other instances may have taken since the store was asked. Of a
// sliding window, whose refill is not known here, a second try may be needed.
package lease

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// LeastShare is how many tokens an instance's part of t x burst must be, or it
// leases nothing.
const LeastShare = least

// Options configure a [Store]; the zero value is the default, for an instance
// that is alone.
type Options struct {
	// Time is how long a token may be held; 0: 1s. It bounds how late unspent
	// tokens come back, and how long an instance that comes or goes makes the
	// others' shares wrong.
	Time time.Duration
	// TTL is how long a heartbeat counts; 0: 10s.
	TTL time.Duration
	// Fleet tells how many instances live, this one too, and for how long each
	// of the others can have known that this one does; nil: it is alone. It is
	// asked often and must not block.
	Fleet func() (live int, visible time.Duration)
	// MaxKeys bounds the keys whose demand is watched; 0: 65536. Others are
	// asked of the store, each call by itself.
	MaxKeys int
}

func (o *Options) setDefaults() {
	if o.Time <= 0 {
		o.Time = time.Second
	}
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	if o.MaxKeys <= 0 {
		o.MaxKeys = 1 << 16
	}
}

// A Store leases from another. It may be used from many goroutines. Make one
// with [New], and let [Store.Run] run beside it: nothing is leased without.
type Store struct {
	next    sluice.Store
	settler sluice.Settler // nil: what is left could not be given back, so nothing is leased
	o       Options

	start  time.Time
	seed   maphash.Seed
	table  table
	fleet  fleet
	calls  sync.Pool // *call
	counts counts
	active atomic.Bool // leases may be used now

	mu      sync.Mutex
	running bool           // Run is, and has not begun to end
	claims  sync.WaitGroup // under way; added to only while running
}

// New returns a store over next, which must bound the time of its calls, as
// store/guard does. A claim is a call of its own that asks for a part and fails
// with [sluice.FailDeny]; an answer that is not the store's counts as none.
func New(next sluice.Store, o Options) *Store {
	o.setDefaults()
	s := &Store{next: next, o: o, start: time.Now(), seed: maphash.MakeSeed()}
	s.settler, _ = next.(sluice.Settler)
	s.table.init(o.MaxKeys)
	s.calls.New = func() any { return new(call) }
	return s
}

// now is the time since the store was made, by the monotonic clock.
func (s *Store) now() time.Duration { return time.Since(s.start) }

// Stats counts since New.
type Stats struct {
	Leased   int64 // decisions that took tokens of a lease
	Spent    int64 // the tokens
	Refused  int64 // decisions that were refused since a claim had just been
	Claims   int64 // calls for tokens
	Claimed  int64 // tokens
	Returned int64 // tokens given back
	Lost     int64 // tokens that did not come back, by a failing call or a reset: they refill
	Held     int64 // tokens held now
	Active   bool  // leases may be used: Run runs, and all others must have seen this instance
}

type counts struct {
	leased, spent, refused, claims, claimed, returned, lost atomic.Int64
}

// Stats returns the counts of now.
func (s *Store) Stats() Stats {
	held := int64(0)
	for e := range s.table.all() {
		held += e.left.Load()
	}
	return Stats{
		Leased: s.counts.leased.Load(), Spent: s.counts.spent.Load(), Refused: s.counts.refused.Load(),
		Claims: s.counts.claims.Load(), Claimed: s.counts.claimed.Load(),
		Returned: s.counts.returned.Load(), Lost: s.counts.lost.Load(),
		Held: held, Active: s.active.Load(),
	}
}

// Settle implements [sluice.Settler] by the store below. What is given back
// returns to the store, also if it came from a lease.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if s.settler == nil {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	return s.settler.Settle(ctx, settlements)
}

// Forget implements [sluice.Forgetter] by the store below. What is held of the
// keys is forgotten with them, also if that fails: given back it would count
// twice.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	f, ok := s.next.(sluice.Forgetter)
	if !ok {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	for i := range charges {
		s.drop(&charges[i])
	}
	err := f.Forget(ctx, charges)
	for i := range charges {
		s.drop(&charges[i]) // what was claimed meanwhile
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
