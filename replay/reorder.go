package replay

import (
	"math"
	"time"
)

// A reorderer gives entries back in the order of their times, as far as its
// window reaches; entries of one time keep the order of the log. Its memory is
// bounded by the window, a number of entries and a number of bytes.
type reorderer struct {
	window   int64 // nanoseconds
	maxLines int
	maxBytes int
	release  func(*entry) error

	heap   []place // the earliest first
	slots  []entry
	free   []int32
	bytes  int
	order  int64
	newest int64 // the latest time read
	last   int64 // the latest time released
	late   int64
	lateBy int64 // nanoseconds, the most
	early  int64 // released before their time, since the window was full
}

// A place is an entry's place in the heap.
type place struct {
	at, order int64
	slot      int32
}

const (
	// windowBytes bounds the lines held back, whatever their number.
	windowBytes = 96 << 20
	// slotBytes is about what an entry takes beside its line.
	slotBytes = 256
	// keepBytes is the longest line whose memory is kept for another.
	keepBytes = 1024
)

// longestWindow keeps arithmetic on times in 64 bits.
const longestWindow = 31 * 24 * time.Hour

func newReorderer(o *Options, release func(*entry) error) *reorderer {
	return &reorderer{
		window:   int64(min(o.Window, longestWindow)),
		maxLines: o.WindowLines,
		maxBytes: windowBytes,
		release:  release,
		newest:   math.MinInt64 + int64(longestWindow),
		last:     math.MinInt64,
	}
}

func (a place) before(b place) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// add takes a copy of the entry and releases what has come of age. An entry
// that is older than what was released is late: it is released at once, at the
// time reached.
func (r *reorderer) add(e *entry) error {
	if e.at < r.last {
		r.late++
		r.lateBy = max(r.lateBy, r.last-e.at)
		e.at = r.last
		return r.release(e)
	}
	r.newest = max(r.newest, e.at)
	r.push(e)
	for len(r.heap) > 0 && r.heap[0].at < r.newest-r.window {
		if err := r.pop(); err != nil {
			return err
		}
	}
	for len(r.heap) > r.maxLines || r.bytes > r.maxBytes {
		r.early++
		if err := r.pop(); err != nil {
			return err
		}
	}
	return nil
}

// flush releases all that is left.
func (r *reorderer) flush() error {
	for len(r.heap) > 0 {
		if err := r.pop(); err != nil {
			return err
		}
	}
	return nil
}

func (r *reorderer) push(e *entry) {
	slot := int32(len(r.slots))
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		r.slots = append(r.slots, entry{})
	}
	r.slots[slot].copyFrom(e)
	r.bytes += slotBytes + len(e.line)
	r.order++
	r.heap = append(r.heap, place{e.at, r.order, slot})
	for i := len(r.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !r.heap[i].before(r.heap[up]) {
			break
		}
		r.heap[i], r.heap[up] = r.heap[up], r.heap[i]
		i = up
	}
}

// pop releases the earliest entry.
func (r *reorderer) pop() error {
	first, n := r.heap[0], len(r.heap)-1
	r.heap[0] = r.heap[n]
	r.heap = r.heap[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < n && r.heap[down+1].before(r.heap[down]) {
			down++
		}
		if down >= n || !r.heap[down].before(r.heap[i]) {
			break
		}
		r.heap[i], r.heap[down] = r.heap[down], r.heap[i]
		i = down
	}
	e := &r.slots[first.slot]
	r.last = e.at
	r.bytes -= slotBytes + len(e.line)
	err := r.release(e)
	if cap(e.line) > keepBytes {
		e.line = nil
	}
	if cap(e.extra) > keepBytes/16 {
		e.extra = nil
	}
	r.free = append(r.free, first.slot)
	return err
}

// lateness returns by how much the latest line came too late.
func (r *reorderer) lateness() time.Duration { return time.Duration(r.lateBy) }
