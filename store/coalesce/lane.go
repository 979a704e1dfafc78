package coalesce

import "sync"

// A lane holds the calls of one place: those under way and those that wait.
//
// Items that wait are ready, if only the place is busy, or parked with their
// key, if that has enough calls under way. Whenever something is ready, as many
// calls are under way as may be, and whenever something is parked, its key has
// calls under way: so each item's turn comes when a call ends.
type lane struct {
	s *Store

	mu       sync.Mutex
	inFlight int // calls
	keys     map[string]*key
	ready    queue
	spare    []*key // to be used again
}

// A key counts the calls under way that begin with a key, and holds the items
// for it that are not under way.
type key struct {
	name     string
	inFlight int
	open     []*item // ready or parked: still to be joined
	parked   queue
}

// A queue holds items, first come, first served.
type queue struct{ first, last *item }

func (q *queue) push(it *item) {
	it.next = nil
	if q.first == nil {
		q.first = it
	} else {
		q.last.next = it
	}
	q.last = it
}

func (q *queue) pop() *item {
	it := q.first
	if it != nil {
		q.first = it.next
		it.next = nil
	}
	return it
}

// add lets a waiter's call go out at once, or wait.
func (l *lane) add(w *waiter) {
	l.mu.Lock()
	k := l.key(w.charges[0].Key)
	for _, it := range k.open {
		if it.joins(w) {
			it.join(w)
			l.mu.Unlock()
			return
		}
	}
	it := newItem(k, w)
	k.open = append(k.open, it)
	if k.inFlight >= l.s.o.KeyInFlight {
		k.parked.push(it)
		l.mu.Unlock()
		return
	}
	l.ready.push(it)
	b := l.dispatch()
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

// release drops a key's entry once nothing is under way or waits. mu must be
// held.
func (l *lane) release(k *key) {
	if k.inFlight > 0 || len(k.open) > 0 {
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
	for it := l.ready.first; it != nil; it = l.ready.first {
		if b != nil && b.size+len(it.first.charges) > l.s.o.Charges {
			break
		}
		l.ready.pop()
		l.seal(it)
		if !it.prune() {
			l.release(it.key)
			continue
		}
		it.key.inFlight++
		if b == nil {
			b = newBatch(l)
		}
		b.add(it)
	}
	if b != nil {
		l.inFlight++
	}
	return b
}

// seal ends the joining of an item. mu must be held.
func (l *lane) seal(it *item) {
	open := it.key.open
	for i := range open {
		if open[i] == it {
			it.key.open = append(open[:i], open[i+1:]...)
			return
		}
	}
}

// landed notes that a call has ended and returns the one that takes its place;
// nil if none is ready.
func (l *lane) landed(b *batch) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	for _, k := range b.keys {
		k.inFlight--
		if parked := k.parked.pop(); parked != nil {
			l.ready.push(parked)
		}
		l.release(k)
	}
	return l.dispatch()
}
