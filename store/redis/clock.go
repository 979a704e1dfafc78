package redis

import (
	"sync/atomic"
	"time"
)

// A clock is this machine's, for servers that refuse to read theirs in scripts.
// It may be read from many goroutines.
type clock struct {
	last atomic.Int64 // Unix microseconds
}

// heldBack is how far a clock is taken to have been corrected rather than set.
const heldBack = time.Second

// read returns Unix microseconds that do not go back while the machine's clock
// is corrected a little. A clock that was set back is followed: held until it
// had caught up, nothing would refill meanwhile, where the script clamps what a
// later time has left behind.
func (c *clock) read(now time.Time) int64 {
	micros := now.UnixMicro()
	for {
		last := c.last.Load()
		if micros <= last && last-micros < heldBack.Microseconds() {
			return last
		}
		if c.last.CompareAndSwap(last, micros) {
			return micros
		}
	}
}

// ownTime returns this machine's time in Unix microseconds if calls are decided
// by it; else 0.
func (s *Store) ownTime() int64 {
	if !s.callersTime && (s.link == nil || !s.link.callersTime.Load()) {
		return 0
	}
	return s.clock.read(time.Now())
}
