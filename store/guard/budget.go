package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A budget is the context of one decision: it ends when the time is used up,
// and never for another reason, so that how a call ends tells about the store
// and not about the caller. It is used again unless its timer has fired, which
// makes a decision in time free of garbage. Nobody may hold it after the call
// it was made for.
type budget struct {
	values   context.Context // the caller's, asked for values only
	deadline time.Time
	done     chan struct{}
	timer    *time.Timer
	over     atomic.Bool
}

// budgets keeps those whose time was not used up.
type budgets struct{ pool sync.Pool }

// start returns a context that ends d after now, which has just been read.
func (p *budgets) start(ctx context.Context, now time.Time, d time.Duration) *budget {
	b, ok := p.pool.Get().(*budget)
	if ok {
		b.values, b.deadline = ctx, now.Add(d)
		b.timer.Reset(d)
		return b
	}
	b = &budget{values: ctx, deadline: now.Add(d), done: make(chan struct{})}
	b.timer = time.AfterFunc(d, b.expire)
	return b
}

// stop ends the use of b by the call.
func (p *budgets) stop(b *budget) {
	if b.timer.Stop() {
		b.values = context.Background() // a child that is cancelled late still asks
		p.pool.Put(b)
	}
}

func (b *budget) expire() {
	b.over.Store(true)
	close(b.done)
}

// Deadline implements [context.Context].
func (b *budget) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *budget) Done() <-chan struct{} { return b.done }

// Err implements [context.Context].
func (b *budget) Err() error {
	if b.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context] by the caller's context.
func (b *budget) Value(key any) any { return b.values.Value(key) }
