package coalesce

import (
	"context"
	"time"
)

// A clocked context ends at its deadline and for no other reason, as the budget
// of store/guard does. A wait under it needs no timer and no channel of its own:
// the lane ends those that are overdue, with one timer for all.
type clocked interface {
	context.Context
	EndsAtDeadline() bool
}

// endsAt returns the deadline of a clocked context; zero for any other.
func endsAt(ctx context.Context) time.Time {
	if c, ok := ctx.(clocked); ok && c.EndsAtDeadline() {
		until, _ := c.Deadline()
		return until
	}
	return time.Time{}
}

// wait returns when the answer is there, or the context's error if that ends
// first.
func (w *waiter) wait(ctx context.Context) error {
	if !w.until.IsZero() {
		<-w.done
		if w.left() {
			return context.DeadlineExceeded
		}
		return nil
	}
	ended := ctx.Done()
	if ended == nil {
		<-w.done // costs half of what choosing between two channels does
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ended:
	}
	if w.giveUp() {
		return ctx.Err()
	}
	<-w.done // the answer is being written
	return nil
}

// watch sees to it that a waiter does not wait beyond its time. mu must be held.
func (l *lane) watch(w *waiter) {
	if w.until.IsZero() || !l.wakes.IsZero() && !w.until.Before(l.wakes) {
		return
	}
	l.wakes = w.until
	if d := time.Until(w.until); l.timer == nil {
		l.timer = time.AfterFunc(d, l.expire)
	} else {
		l.timer.Reset(d)
	}
}

// expire ends the waits that are overdue, and comes again when the next will be.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := overdue{now: time.Now()}
	for _, k := range l.keys {
		for it := k.waiting.first; it != nil; it = it.next {
			o.look(it)
		}
	}
	for _, b := range l.flying {
		b.mu.Lock()
		for i := 0; i < len(b.items) && !b.answered; i++ {
			o.look(b.items[i])
		}
		b.mu.Unlock()
	}
	l.wakes = o.next
	if !o.next.IsZero() {
		l.timer.Reset(o.next.Sub(o.now))
	}
}

// overdue goes through the waiters of items.
type overdue struct {
	now  time.Time
	next time.Time // the first deadline to come; zero: none
}

// look lets the waiters go whose time is over. They are still part of the item,
// which drops them, or what is granted to them, later.
func (o *overdue) look(it *item) {
	for w := it.first; w != nil; w = w.next {
		switch {
		case w.until.IsZero() || w.state.Load() != waiting:
		case o.now.Before(w.until):
			if o.next.IsZero() || w.until.Before(o.next) {
				o.next = w.until
			}
		case w.giveUp():
			w.done <- struct{}{}
		}
	}
}
