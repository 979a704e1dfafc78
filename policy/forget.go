package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-limiter/sluice"
)

// ErrNoForget says that the store of an engine cannot reset keys.
var ErrNoForget = errors.New("the store cannot reset keys")

// Forget resets the counters that a request would be charged on, those of the
// limits that choose says, as if nothing had ever been taken from them. It
// returns these counters, without a decision. The error is [ErrNoForget], a
// [*CostError] or wraps the store's.
func (e *Engine) Forget(ctx context.Context, r Request, choose func(*Limit) bool) ([]Result, error) {
	store, ok := e.store.(sluice.Forgetter)
	if !ok {
		return nil, ErrNoForget
	}
	var v Verdict
	r.N = 0 // what is reset has no cost
	v.reset(e.Set(), &r)
	for i := range v.reader.set.limits {
		l := &v.reader.set.limits[i]
		if !choose(l.Limit) {
			continue
		}
		if err := v.meet(l, 0); err != nil {
			return nil, err
		}
	}
	v.charge()
	if len(v.charges) == 0 {
		return nil, nil
	}
	if err := store.Forget(ctx, v.charges); err != nil {
		return nil, fmt.Errorf("forget: %w", err)
	}
	return slices.Clone(v.Results), nil
}
