package coalesce

import (
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A waiter is one call that waits for its answer.
type waiter struct {
	charges   []sluice.Charge // its own copy: the caller may leave before
	decisions []sluice.Decision
	err       error
	done      chan struct{} // holds one token when answered
	state     atomic.Int32
	until     time.Time // when the lane is to end the wait; zero: the caller does
	next      *waiter   // in its item
	item      item      // in use if this is its first waiter
}

const (
	waiting int32 = iota
	answered
	gone
)

func (w *waiter) ask(charges []sluice.Charge) {
	w.charges = append(w.charges[:0], charges...)
	w.decisions, w.err, w.next = w.decisions[:0], nil, nil
	w.state.Store(waiting)
}

// giveUp says that the caller leaves; false if the answer is there already.
func (w *waiter) giveUp() bool { return w.state.CompareAndSwap(waiting, gone) }

// claim says that the answer comes now; false if the caller has left.
func (w *waiter) claim() bool { return w.state.CompareAndSwap(waiting, answered) }

func (w *waiter) left() bool { return w.state.Load() == gone }

// An item is a call to be made, with all the waiters that ask exactly that.
type item struct {
	key         *key
	sum         uint64
	first, last *waiter
	calls       int64 // waiters
	single      bool  // the call asks for a part already, or for much: it is not multiplied
	sealed      bool  // no longer waits and cannot be joined
	next        *item // in a queue
}

// maxCalls bounds the waiters of one item, so that amounts stay in bounds.
const maxCalls = 4096

func newItem(k *key, w *waiter, sum uint64) *item {
	it := &w.item
	*it = item{key: k, sum: sum, first: w, last: w, calls: 1}
	for i := range w.charges {
		c := &w.charges[i]
		it.single = it.single || c.Unit != 0 && c.Unit != c.N || c.N > sluice.MaxTokens/maxCalls
	}
	return it
}

// joins says whether a waiter asks what the item's waiters ask.
func (it *item) joins(w *waiter) bool {
	if it.single || it.calls >= maxCalls || len(it.first.charges) != len(w.charges) {
		return false
	}
	for i := range w.charges {
		if it.first.charges[i] != w.charges[i] {
			return false
		}
	}
	return true
}

func (it *item) join(w *waiter) {
	it.last.next = w
	it.last = w
	it.calls++
}

// prune drops the waiters whose callers have left, and says whether any is
// left.
func (it *item) prune() bool {
	var first, last *waiter
	it.calls = 0
	for w := it.first; w != nil; {
		next := w.next
		if !w.left() {
			if first == nil {
				first = w
			} else {
				last.next = w
			}
			last = w
			last.next = nil
			it.calls++
		}
		w = next
	}
	it.first, it.last = first, last
	return first != nil
}
