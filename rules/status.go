package rules

import (
	"sync"
	"time"
)

// A Status says how well a table is known.
type Status struct {
	// Stale says that the database does not answer: the rows are the last that
	// were known. Since is when that began; zero if it answers.
	Stale bool
	Since time.Time
	// Problem is why; "" if the database answers. It holds no password.
	Problem string
	// Loads counts how often all rows were fetched, Fetches how often some
	// were, and Rows how many these were.
	Loads, Fetches, Rows int64
	// Failures counts attempts to reach the database that came to nothing.
	Failures int64
}

// Status returns how well the table is known. It may be called from many
// goroutines.
func (t *Table) Status() Status {
	t.status.mu.Lock()
	defer t.status.mu.Unlock()
	return t.status.now
}

// A statusBook is a status that is kept up to date.
type statusBook struct {
	mu   sync.Mutex
	now  Status
	told time.Time // when a failure was last told of
}

// again is how long a failure that goes on is not told of again.
const again = time.Minute

func (b *statusBook) change(f func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.now)
}

func (b *statusBook) loaded() { b.change(func(s *Status) { s.Loads++ }) }

func (b *statusBook) fetched(rows int) {
	b.change(func(s *Status) { s.Fetches, s.Rows = s.Fetches+1, s.Rows+int64(rows) })
}

// failed notes an error and says whether it is to be told.
func (b *statusBook) failed(err error, now time.Time) (news bool) {
	b.change(func(s *Status) {
		s.Failures++
		news = !s.Stale || now.Sub(b.told) >= again
		if news {
			b.told = now
		}
		s.Problem = err.Error()
		if !s.Stale {
			s.Stale, s.Since = true, now
		}
	})
	return news
}

// reached notes that the database answered and says whether it had not before.
func (b *statusBook) reached() (news bool) {
	b.change(func(s *Status) {
		news = s.Stale
		s.Stale, s.Since, s.Problem = false, time.Time{}, ""
	})
	return news
}
