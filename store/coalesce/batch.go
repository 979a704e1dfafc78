package coalesce

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A batch is one call of the store below, made of items.
type batch struct {
	lane      *lane
	next      *batch // that goes out with it
	items     []*item
	keys      []*key // of the items, each once
	size      int    // charges
	charges   []sluice.Charge
	decisions []sluice.Decision
	back      []sluice.Settlement

	mu       sync.Mutex
	answered bool // its waiters are being answered, and must not be looked at
}

func (s *Store) newBatch(l *lane) *batch {
	b := s.batches.Get().(*batch)
	b.lane = l
	return b
}

// add takes an item along, and notes its key if it is the first of that. The
// lane's mu must be held.
func (b *batch) add(it *item, first bool) {
	b.items = append(b.items, it)
	b.size += len(it.first.charges)
	if first {
		b.keys = append(b.keys, it.key)
		it.key.inFlight++
		it.key.last = b
	}
}

// recycle keeps the batch's memory, and nothing that others hold.
func (b *batch) recycle() {
	clear(b.items)
	clear(b.keys)
	clear(b.charges)
	clear(b.back)
	s := b.lane.s
	b.lane, b.next, b.size, b.answered = nil, nil, 0, false
	b.items, b.keys, b.charges, b.decisions, b.back = b.items[:0], b.keys[:0], b.charges[:0], b.decisions[:0], b.back[:0]
	s.batches.Put(b)
}

// run makes the call and answers everyone who waits for it.
func (b *batch) run() {
	s := b.lane.s
	b.compose()
	s.calls.Add(1)
	s.charges.Add(b.asked())
	decisions, err := s.next.Take(context.Background(), b.decisions[:0], b.charges)
	b.decisions = decisions
	if err == nil && len(decisions) != len(b.charges) {
		err = errCount
	}
	if err != nil {
		b.fail(err)
		return
	}
	b.markAnswered()
	at := 0
	for _, it := range b.items {
		end := at + len(it.first.charges)
		b.handOut(it, b.charges[at:end], decisions[at:end])
		at = end
	}
}

// asked returns the charges that callers asked, each counted by itself.
func (b *batch) asked() int64 {
	n := int64(0)
	for _, it := range b.items {
		n += it.calls * int64(len(it.first.charges))
	}
	return n
}

// backTimeout bounds the call that gives back what nobody took. It is tried
// once.
const backTimeout = time.Second

// giveBack gives back what nobody took. The call has landed, so that nobody
// waits for it.
func (b *batch) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), backTimeout)
	defer cancel()
	// Lost, the keys admit less until they refill.
	_ = b.lane.s.settler.Settle(ctx, b.back)
}

// compose writes the charges of all items: m equal calls become one of m times
// the amount, in units of one call. Groups get numbers of their own.
func (b *batch) compose() {
	b.charges = b.charges[:0]
	group := 0
	for _, it := range b.items {
		charges := it.first.charges
		for i := range charges {
			c := charges[i]
			if i == 0 || c.Group != charges[i-1].Group {
				group++
			}
			c.Group = group
			if it.calls > 1 && c.N > 0 {
				c.Unit = c.N
				c.N *= it.calls
			}
			b.charges = append(b.charges, c)
		}
	}
}

// handOut gives each waiter of an item its part, first come, first served. The
// item is its first waiter's, and neither is touched once that is answered.
func (b *batch) handOut(it *item, charges []sluice.Charge, decisions []sluice.Decision) {
	several := it.calls > 1
	taken := int64(0) // calls of callers that are still there
	for w := it.first; w != nil; {
		next := w.next
		if w.claim() {
			w.answer(charges, decisions, several, taken)
			taken++
		}
		w = next
	}
	for i := range decisions {
		each := decisions[i].Granted
		if several {
			each = charges[i].Unit
		}
		if b.lane.s.settler == nil {
			continue
		}
		if left := decisions[i].Granted - taken*each; left > 0 {
			back := charges[i]
			back.N, back.Unit = -left, 0
			b.back = append(b.back, sluice.Settlement{Charge: back, From: decisions[i]})
		}
	}
}

// answer writes the decisions of the call number rank, counted from 0, of an
// item, and lets its caller go on.
func (w *waiter) answer(charges []sluice.Charge, decisions []sluice.Decision, several bool, rank int64) {
	w.decisions = append(w.decisions[:0], decisions...)
	if several {
		for i := range w.decisions {
			part(&w.decisions[i], &charges[i], rank)
		}
	}
	w.done <- struct{}{}
}

// part turns the decision about all calls of an item into that about one. The
// group's other charges were granted as many calls; a charge that has no wait
// would have passed alone.
func part(d *sluice.Decision, c *sluice.Charge, rank int64) {
	if c.N == 0 {
		return
	}
	if d.Granted >= (rank+1)*c.Unit {
		d.Allowed, d.Granted, d.RetryAfter = true, c.Unit, 0
		return
	}
	if d.Granted > 0 {
		d.Allowed = d.RetryAfter == 0
	}
	d.Granted = 0
}

// markAnswered keeps the lane from looking at waiters who may be gone and waiting
// for something else any moment.
func (b *batch) markAnswered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = true
}

// fail answers everyone with an error.
func (b *batch) fail(err error) {
	b.markAnswered()
	for _, it := range b.items {
		for w := it.first; w != nil; {
			next := w.next
			if w.claim() {
				w.err = err
				w.done <- struct{}{}
			}
			w = next
		}
	}
}
