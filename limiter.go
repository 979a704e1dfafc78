package sluice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Limiter applies one limit to any number of keys of a store. It may be used
// from many goroutines.
type Limiter struct {
	store Store
	limit Limit
}

// New returns a limiter, or an error if the limit is not valid.
func New(store Store, limit Limit) (*Limiter, error) {
	if err := limit.Validate(); err != nil {
		return nil, fmt.Errorf("limit %v: %w", limit, err)
	}
	return &Limiter{store: store, limit: limit}, nil
}

// Limit returns the limit applied.
func (l *Limiter) Limit() Limit { return l.limit }

// Take asks for n tokens of the key, all or none. An n of 0 peeks; one above
// the limit's capacity is an error that wraps [ErrCost].
func (l *Limiter) Take(ctx context.Context, key string, n int64) (Decision, error) {
	q := questions.Get().(*question)
	defer questions.Put(q)
	q.charge[0] = Charge{Key: key, Limit: l.limit, N: n}
	decisions, err := l.store.Take(ctx, q.decision[:0], q.charge[:])
	q.charge[0].Key = ""
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], nil
}

// A question is what a call of one charge needs. Stores keep nothing of it, so
// it is used again rather than allocated.
type question struct {
	charge   [1]Charge
	decision [1]Decision
}

var questions = sync.Pool{New: func() any { return new(question) }}

// Peek tells how the key stands and changes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.Take(ctx, key, 0)
}

// ErrWait reports that a wait would outlast the context's deadline. No token
// was taken.
var ErrWait = errors.New("the wait is longer than the context's deadline allows")

// Wait takes n tokens, waiting until they are there. It returns ErrWait at once
// if they cannot be there before the context's deadline, and the context's
// error if that ends first. Callers that wait for one key are not queued: who
// asks first after tokens are back has them.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		d, err := l.Take(ctx, key, n)
		if err != nil || d.Allowed {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d.RetryAfter {
			return fmt.Errorf("%w: %v", ErrWait, d.RetryAfter)
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrUnsupported reports a store that lacks an ability.
var ErrUnsupported = errors.New("the store does not support this")

// Reset forgets what the key used. A store that cannot do so is an error that
// wraps [ErrUnsupported].
func (l *Limiter) Reset(ctx context.Context, key string) error {
	f, ok := l.store.(Forgetter)
	if !ok {
		return fmt.Errorf("reset: %w", ErrUnsupported)
	}
	return f.Forget(ctx, []Charge{{Key: key, Limit: l.limit}})
}
