package policy

import (
	"context"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// Attributes reads an attribute of a request by its name; "" if the request has
// none. It is asked only for what a limit needs. Names that begin with
// "header:" read a header of an HTTP request.
type Attributes func(name string) string

// A Request is what an Engine decides.
type Request struct {
	// Attributes reads the request.
	Attributes Attributes
	// N is the amount, by which each limit's cost is multiplied; 0 peeks.
	N int64
	// Without, if not empty, names an attribute that is not known: limits that
	// need it are left out, so that the others can be charged before a request
	// without identity is turned away.
	Without string
}

// A Result is what one matched limit says.
type Result struct {
	Limit     *Limit       // the limit as configured
	Rule      *Rule        // the override in force; nil: the limit's own default
	Effective sluice.Limit // how much may pass
	Key       string       // the counter
	Cost      int64        // tokens asked
	Decision  sluice.Decision
}

// A Verdict is the answer to a request. It may be used again for another
// request, which saves allocations.
type Verdict struct {
	// Allowed is false if a limit that is not a shadow refused.
	Allowed bool
	// Results has one entry for each limit that matched, in the order of the
	// configuration, shadow limits too.
	Results []Result

	charges   []sluice.Charge
	decisions []sluice.Decision
}

// Describing returns the result that a caller should hear about: of a refusal,
// the refused limit with the longest wait; else the limit closest to
// exhaustion. It is nil if no limit matched but shadows.
func (v *Verdict) Describing() *Result { return nil }

// An Engine decides requests by a set of limits over a store. It may be used
// from many goroutines; the set can be changed at any time.
type Engine struct {
	store sluice.Store
	set   atomic.Pointer[Set]
}

// NewEngine returns an engine.
func NewEngine(store sluice.Store, set *Set) *Engine {
	e := &Engine{store: store}
	e.set.Store(set)
	return e
}

// Set returns the limits in force.
func (e *Engine) Set() *Set { return e.set.Load() }

// Swap puts another set of limits in force; requests under way keep theirs.
func (e *Engine) Swap(set *Set) { e.set.Store(set) }

// Decide charges every limit that matches the request in one call of the store
// and fills the verdict.
func (e *Engine) Decide(ctx context.Context, r Request, v *Verdict) error { return nil }
