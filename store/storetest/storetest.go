// Package storetest is the contract of [sluice.Store] as a test suite. Each
// case is named after the rule that it proves. The test of a new store is a
// [Harness] and one line:
//
//	func TestStore(t *testing.T) {
//		var clock storetest.Clock
//		storetest.Run(t, storetest.Harness{
//			New:   func() (sluice.Store, error) { return memory.New(memory.Options{Now: clock.Now}), nil },
//			Clock: &clock,
//		})
//	}
//
// A store on a server, whose clock nobody sets, leaves Clock out; the suite
// then waits in real time where a rule is about time, a few seconds in all.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A Harness says how to make the store under test.
type Harness struct {
	// New returns a store in which nothing was used, or an error, which fails
	// the case. It is called at least once for each rule. Who gives the
	// harness closes what New opens.
	New func() (sluice.Store, error)
	// Clock is what the stores that New returns take for the time; nil means
	// that their time is real and cannot be set. Rules whose proof needs a
	// clock that is set are skipped without one.
	Clock *Clock
	// Except names rules that this store does not promise, each with the
	// reason why. A name that is no rule's is an error.
	Except map[string]string
}

// A Clock stands still until it is told to move. It may be used from many
// goroutines. The zero value shows a moment in 2027.
type Clock struct{ offset atomic.Int64 }

// Now returns the time shown.
func (c *Clock) Now() time.Time {
	return time.Date(2027, 3, 14, 15, 9, 26, 535_897_932, time.UTC).Add(time.Duration(c.offset.Load()))
}

// Advance moves the clock, back if d is negative.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// A rule is one case of the suite.
type rule struct {
	name  string
	clock bool // needs a clock that can be set
	check func(*subject) error
}

// errSkip reports a rule about an ability that the store lacks.
var errSkip = errors.New("the store lacks the ability")

// rules is the contract.
var rules = slices.Concat(takeRules, timeRules, groupRules, limitRules, abilityRules, keyRules, modelRules)

// Run proves every rule in a subtest of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if err := h.checkExcept(); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if why, ok := h.Except[r.name]; ok {
				t.Skip(why)
			}
			if r.clock && h.Clock == nil {
				t.Skip("needs a clock that can be set")
			}
			switch err := h.prove(t.Context(), r); {
			case errors.Is(err, errSkip):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// Check proves every rule and returns all violations, joined; each begins with
// the name of its rule. Run is the same for a test.
func Check(ctx context.Context, h Harness) error {
	errs := []error{h.checkExcept()}
	for _, r := range rules {
		if _, ok := h.Except[r.name]; ok || r.clock && h.Clock == nil {
			continue
		}
		if err := h.prove(ctx, r); err != nil && !errors.Is(err, errSkip) {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	return errors.Join(errs...)
}

func (h *Harness) checkExcept() error {
	for name := range h.Except {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			return fmt.Errorf("harness excepts %q, which is no rule", name)
		}
	}
	return nil
}

func (h *Harness) prove(ctx context.Context, r rule) error {
	s, err := h.subject(ctx, r.name)
	if err != nil {
		return err
	}
	return r.check(s)
}
