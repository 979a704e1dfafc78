package policy

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// Attributes reads an attribute of a request by its name; "" if the request has
// none. It is asked only for what a limit needs, at most once a name. Names
// that begin with "header:" read a header of an HTTP request.
type Attributes func(name string) string

// A Request is what an Engine decides.
type Request struct {
	// Attributes reads the request; nil: it has none.
	Attributes Attributes
	// N is the amount, by which each limit's cost is multiplied; 0 peeks.
	N int64
	// Without, if not empty, names an attribute that is not known: limits that
	// need it, for their match, key or cost, are left out, so that the others
	// can be charged before a request without identity is turned away.
	Without string
}

// An Engine decides requests by a set of limits over a store. It may be used
// from many goroutines; the set can be changed at any time.
type Engine struct {
	store sluice.Store
	set   atomic.Pointer[Set]
}

// NewEngine returns an engine; a nil set has no limits.
func NewEngine(store sluice.Store, set *Set) *Engine {
	e := &Engine{store: store}
	e.Swap(set)
	return e
}

// Set returns the limits in force; it is never nil.
func (e *Engine) Set() *Set { return e.set.Load() }

// Swap puts another set of limits in force; requests under way keep theirs.
func (e *Engine) Swap(set *Set) {
	if set == nil {
		set = &Set{}
	}
	e.set.Store(set)
}

// Decide charges every limit that matches the request in one call of the store
// and fills the verdict. All limits that are not shadows pass together, or none
// of them is charged. An error means that nothing was decided: a [*CostError]
// is the caller's mistake, any other wraps the store's error. With a verdict
// used before, Decide allocates the text of the keys and nothing else.
func (e *Engine) Decide(ctx context.Context, r Request, v *Verdict) error {
	v.reset(e.Set(), &r)
	if r.N < 0 {
		return fmt.Errorf("decide: %w: amount is %d: want 0 or more", sluice.ErrCharge, r.N)
	}
	for i := range v.reader.set.limits {
		if err := v.meet(&v.reader.set.limits[i], r.N); err != nil {
			return err
		}
	}
	v.charge()
	if len(v.charges) > 0 {
		decisions, err := e.store.Take(ctx, v.decisions[:0], v.charges)
		if err != nil {
			return fmt.Errorf("decide: %w", err)
		}
		if len(decisions) != len(v.charges) {
			return fmt.Errorf("decide: the store answered %d of %d charges", len(decisions), len(v.charges))
		}
		v.decisions = decisions
	}
	v.conclude()
	return nil
}
