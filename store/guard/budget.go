package guard

import (
	"context"
	"sync"
	"time"
)

// A budget is the context of one decision: it ends when the time is used up,
// and never for another reason, so that how a call ends tells about the store
// and not about the caller. It is used again unless its time was used up, which
// makes a decision in time free of garbage. Nobody may hold it after the call
// it was made for.
type budget struct {
	values   context.Context // the caller's, asked for values only
	deadline time.Time

	mu    sync.Mutex
	over  bool          // the time is used up, and done is closed
	done  chan struct{} // nil: nobody has asked for it
	timer *time.Timer   // closes it; nil as well
}

// budgets keeps those whose time was not used up.
type budgets struct{ pool sync.Pool }

// start returns a context that ends d after now, which has just been read. A
// timer runs only if somebody asks for Done: store/coalesce has one for all.
func (p *budgets) start(ctx context.Context, now time.Time, d time.Duration) *budget {
	b, ok := p.pool.Get().(*budget)
	if !ok {
		b = new(budget)
	}
	b.values, b.deadline = ctx, now.Add(d)
	return b
}

// stop ends the use of b by the call.
func (p *budgets) stop(b *budget) {
	b.mu.Lock()
	usedUp := b.over || b.timer != nil && !b.timer.Stop()
	b.done, b.timer = nil, nil
	b.mu.Unlock()
	if !usedUp {
		b.values = context.Background() // a child that is cancelled late still asks
		p.pool.Put(b)
	}
}

// expire ends the context.
func (b *budget) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expireLocked()
}

func (b *budget) expireLocked() {
	if b.over {
		return
	}
	b.over = true
	if b.done == nil {
		b.done = make(chan struct{})
	}
	close(b.done)
}

// Deadline implements [context.Context].
func (b *budget) Deadline() (time.Time, bool) { return b.deadline, true }

// EndsAtDeadline says that whoever waits until the deadline need not ask for
// Done.
func (b *budget) EndsAtDeadline() bool { return true }

// Done implements [context.Context].
func (b *budget) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
		b.timer = time.AfterFunc(time.Until(b.deadline), b.expire)
	}
	return b.done
}

// Err implements [context.Context].
func (b *budget) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && time.Now().Before(b.deadline) {
		return nil
	}
	b.expireLocked()
	return context.DeadlineExceeded
}

// Value implements [context.Context] by the caller's context.
func (b *budget) Value(key any) any { return b.values.Value(key) }
