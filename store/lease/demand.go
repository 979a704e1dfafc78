package lease

import (
	"sync/atomic"
	"time"
)

// A demand counts the tokens asked of a key lately. Adding is for many
// goroutines; the rest is under the entry's mutex.
type demand struct {
	asked  atomic.Int64  // in the present span
	began  time.Duration // of it
	before int64         // in a span before it, scaled to its length
}

// maxAsked keeps products in bounds.
const maxAsked = 1 << 30

// lately returns the tokens asked in the last span, about.
func (d *demand) lately(now, span time.Duration) int64 {
	elapsed := now - d.began
	if elapsed >= span {
		asked := min(d.asked.Swap(0), maxAsked)
		d.before = asked * int64(span) / int64(elapsed)
		d.began, elapsed = now, 0
	}
	asked := min(d.asked.Load(), maxAsked)
	return asked + d.before*int64(span-elapsed)/int64(span)
}
