package lease

import (
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A fleet remembers the largest number of instances of the last lease time. An
// instance that is no longer seen may spend what it holds until that has passed.
type fleet struct {
	mu      sync.Mutex
	began   time.Duration // of the present span, a lease time long
	largest int           // in it
	before  int           // in the one before
}

// look asks how many instances live and returns by how many tokens are divided;
// 0 while this instance may not lease.
func (s *Store) look(now time.Duration) int {
	live, visible := 1, s.o.TTL+s.o.Time
	if s.o.Fleet != nil {
		live, visible = s.o.Fleet()
	}
	n := s.fleet.note(max(live, 1), now, s.o.Time)
	if visible < s.o.TTL+s.o.Time {
		return 0
	}
	return n
}

// note adds a number and returns the largest of the last lease time at least.
func (f *fleet) note(live int, now, span time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case now-f.began >= 2*span:
		f.began, f.largest, f.before = now, live, 0
	case now-f.began >= span:
		f.began, f.largest, f.before = now, live, f.largest
	}
	f.largest = max(f.largest, live)
	return max(f.largest, f.before)
}

const million = 1_000_000

// share returns the tokens that one of n instances may hold; 0: none.
func share(c *sluice.Charge, n int) int64 {
	if n <= 0 {
		return 0
	}
	capacity := c.Limit.Capacity()
	// In two parts, so that the product stays in bounds.
	all := capacity/million*c.Tolerance + capacity%million*c.Tolerance/million
	return all / int64(n)
}
