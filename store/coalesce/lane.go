package coalesce

import (
	"slices"
	"sync"
	"time"
)

// A lane holds the calls of one place: those under way and those that wait.
//
// Each item waits with its key. A key that has items and not too many calls
// under way is ready; a call takes an item from each ready key in turn. While
// fewer calls are under way than may be, no key is ready; and a key that has
// items and is not ready has calls under way: so each item's turn comes when a
// call ends.
type lane struct {
	s *Store

	mu       sync.Mutex
	inFlight int // calls
	keys     map[string]*key
	open     map[uint64]*item // the items that wait and can be joined, by their sums
	ready    keyQueue         // may hold keys that have too many calls under way by now
	spare    []*key           // to be used again
	flying   []*batch         // the calls under way
	timer    *time.Timer      // ends the waits that are overdue; nil: nobody needed it yet
	wakes    time.Time        // when it will; zero: it will not
}

// A key holds the items that begin with a key and wait, first come, first
// served, and counts the calls under way that have such items.
type key struct {
	name     string
	inFlight int
	waiting  itemQueue
	ready    bool   // in the lane's queue; waiting is not empty then
	last     *batch // the latest of the calls under way; nil perhaps
	next     *key   // in the lane's queue
}

type keyQueue struct{ first, last *key }

func (q *keyQueue) push(k *key) {
	k.next = nil
	if q.first == nil {
		q.first = k
	} else {
		q.last.next = k
	}
	q.last = k
}

func (q *keyQueue) pop() {
	k := q.first
	q.first, k.next = k.next, nil
}

type itemQueue struct{ first, last *item }

func (q *itemQueue) push(it *item) {
	it.next = nil
	if q.first == nil {
		q.first = it
	} else {
		q.last.next = it
	}
	q.last = it
}

func (q *itemQueue) pop() {
	it := q.first
	q.first, it.next = it.next, nil
}

// add lets a waiter's call go out at once, or wait. sum is equal for equal
// calls.
func (l *lane) add(w *waiter, sum uint64) {
	l.mu.Lock()
	l.watch(w)
	if it := l.open[sum]; it != nil && it.joins(w) {
		it.join(w)
		l.mu.Unlock()
		return
	}
	k := l.key(w.charges[0].Key)
	it := newItem(k, w, sum)
	k.waiting.push(it)
	l.getReady(k)
	b := l.dispatch()
	if !it.sealed && !it.single {
		l.open[sum] = it
	}
	l.mu.Unlock()
	if b != nil {
		l.s.workers.run(b)
	}
}

// key returns a key's entry. mu must be held.
func (l *lane) key(name string) *key {
	k := l.keys[name]
	if k == nil {
		if n := len(l.spare); n > 0 {
			k, l.spare = l.spare[n-1], l.spare[:n-1]
			k.name = name
		} else {
			k = &key{name: name}
		}
		l.keys[name] = k
	}
	return k
}

// getReady puts a key in the queue, if it has items that may go. mu must be
// held.
func (l *lane) getReady(k *key) {
	if !k.ready && k.waiting.first != nil && k.inFlight < l.s.o.KeyInFlight {
		k.ready = true
		l.ready.push(k)
	}
}

// release drops a key's entry once nothing is under way or waits. mu must be
// held.
func (l *lane) release(k *key) {
	if k.inFlight > 0 || k.waiting.first != nil {
		return
	}
	delete(l.keys, k.name)
	if len(l.spare) < 256 {
		k.name = ""
		l.spare = append(l.spare, k)
	}
}

// dispatch makes a call of what is ready, if one more may be under way; nil if
// there is none. mu must be held.
func (l *lane) dispatch() *batch {
	if l.inFlight >= l.s.o.InFlight {
		return nil
	}
	var b *batch
	for k := l.ready.first; k != nil; k = l.ready.first {
		it := k.waiting.first
		if b != nil && b.size+len(it.first.charges) > l.s.o.Charges {
			break
		}
		l.ready.pop()
		k.ready = false
		rides := b != nil && k.last == b
		if !rides && k.inFlight >= l.s.o.KeyInFlight {
			continue // until a call lands
		}
		k.waiting.pop()
		l.seal(it)
		if it.prune() {
			if b == nil {
				b = l.s.newBatch(l)
			}
			b.add(it, !rides)
		}
		if k.waiting.first != nil {
			k.ready = true
			l.ready.push(k)
		}
		l.release(k)
	}
	if b != nil {
		l.inFlight++
		l.flying = append(l.flying, b)
	}
	return b
}

// seal ends the joining of an item. mu must be held.
func (l *lane) seal(it *item) {
	it.sealed = true
	if l.open[it.sum] == it {
		delete(l.open, it.sum)
	}
}

// busy says whether other calls than one that has just been answered are under
// way: the wire is not idle.
func (l *lane) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight > 1
}

// landed notes that a call has ended and returns those that take its place,
// linked; nil if none is ready.
func (l *lane) landed(b *batch) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.flying = slices.DeleteFunc(l.flying, func(other *batch) bool { return other == b })
	for _, k := range b.keys {
		k.inFlight--
		if k.last == b {
			k.last = nil
		}
		l.getReady(k)
		l.release(k)
	}
	first := l.dispatch()
	for last := first; last != nil; last = last.next {
		last.next = l.dispatch()
	}
	return first
}
