// Package memory is the store in this process: the truth for one process, and
// the counters that a fallback, a replay or a test needs.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// Options configure a [Store]; the zero value is the default.
type Options struct {
	// MaxKeys bounds the counters kept; 0 means 1<<20.
	MaxKeys int
	// Now tells the time; nil means a monotonic clock that starts at the wall
	// clock's time.
	Now func() time.Time
}

// A Store keeps counters in memory. It may be used from many goroutines.
type Store struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[name]*sluice.State // guarded by mu
}

type name struct {
	key  string
	kind sluice.Kind
}

// Stats says how a store stands.
type Stats struct {
	// Keys is the counters kept.
	Keys int
	// Evicted counts the keys forgotten, since the store was made, that were
	// not full.
	Evicted int64
}

// New returns an empty store.
func New(o Options) *Store {
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Time { return start.Add(time.Since(start)) }
	}
	return &Store{now: o.Now, keys: map[name]*sluice.State{}}
}

// Take implements [sluice.Store].
func (s *Store) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	meters := make([]sluice.Meter, len(charges))
	states := make([]*sluice.State, len(charges))
	fresh := map[name]*sluice.State{}
	for i := range charges {
		c := &charges[i]
		meters[i], _ = c.Limit.Meter()
		n := name{c.Key, c.Limit.Kind()}
		states[i] = s.keys[n]
		if states[i] == nil {
			states[i] = fresh[n]
		}
		if states[i] == nil {
			states[i] = &sluice.State{}
			fresh[n] = states[i]
		}
	}
	dst = sluice.Decide(dst, charges, meters, states, sluice.Ticks(s.now()))
	for n, state := range fresh {
		if state.Time != 0 || state.Count != 0 {
			s.keys[n] = state
		}
	}
	return dst, nil
}

// Settle implements [sluice.Settler].
func (s *Store) Settle(_ context.Context, settlements []sluice.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range settlements {
		c := &settlements[i].Charge
		m, err := c.Limit.Meter()
		if err != nil {
			return err
		}
		n := name{c.Key, c.Limit.Kind()}
		state := s.keys[n]
		if state == nil {
			if c.N <= 0 {
				continue
			}
			state = &sluice.State{}
			s.keys[n] = state
		}
		sluice.Correct(state, &settlements[i], &m, sluice.Ticks(s.now()))
	}
	return nil
}

// Forget implements [sluice.Forgetter].
func (s *Store) Forget(_ context.Context, charges []sluice.Charge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range charges {
		delete(s.keys, name{charges[i].Key, charges[i].Limit.Kind()})
	}
	return nil
}

// Len returns the number of counters kept.
func (s *Store) Len() int { return s.Stats().Keys }

// Stats returns the counts of now.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Keys: len(s.keys)}
}
