package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A truth is the store that all instances share, a round trip away. It counts
// what is claimed in advance.
type truth struct {
	*memory.Store
	trip time.Duration

	mu      sync.Mutex
	calls   int
	claimed int64 // and not given back
	away    bool  // as if the guard answered
}

func newTruth() *truth {
	return &truth{Store: memory.New(memory.Options{}), trip: 200 * time.Microsecond}
}

// isClaim tells claims from callers' charges.
func isClaim(c *sluice.Charge) bool { return c.Unit == 1 && c.OnFailure == sluice.FailDeny }

func (s *truth) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	time.Sleep(s.trip / 2)
	s.mu.Lock()
	s.calls++
	away := s.away
	s.mu.Unlock()
	if away {
		for range charges {
			dst = append(dst, sluice.Decision{Source: sluice.SourceFallback, RetryAfter: time.Second, Limit: charges[0].Limit.Capacity()})
		}
		return dst, nil
	}
	first := len(dst)
	dst, err := s.Store.Take(ctx, dst, charges)
	if err == nil && isClaim(&charges[0]) {
		s.mu.Lock()
		s.claimed += dst[first].Granted
		s.mu.Unlock()
	}
	time.Sleep(s.trip / 2)
	return dst, err
}

func (s *truth) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	time.Sleep(s.trip / 2)
	s.mu.Lock()
	for i := range settlements {
		s.claimed += settlements[i].Charge.N
	}
	s.mu.Unlock()
	err := s.Store.Settle(ctx, settlements)
	time.Sleep(s.trip / 2)
	return err
}

func (s *truth) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *truth) trips() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// outstanding returns what is claimed and not given back.
func (s *truth) outstanding() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed
}

// run runs a store's background for the time of the test; stop ends it and
// returns when it has given all back.
func run(t *testing.T, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { s.Run(ctx) })
	synctest.Wait()
	stop = func() { cancel(); wait.Wait() }
	t.Cleanup(stop)
	return stop
}

func take(t *testing.T, s sluice.Store, charges ...sluice.Charge) []sluice.Decision {
	t.Helper()
	got, err := s.Take(t.Context(), nil, charges)
	if err != nil {
		t.Fatalf("Take(%+v) failed: %v", charges, err)
	}
	return got
}

// ask asks one token of a charge's counter n times, a time apart, and returns
// how many passed.
func ask(t *testing.T, s sluice.Store, c sluice.Charge, n int, apart time.Duration) (passed int) {
	t.Helper()
	for range n {
		if take(t, s, c)[0].Allowed {
			passed++
		}
		time.Sleep(apart)
	}
	return passed
}

var (
	wide = sluice.Limit{Tokens: 10_000, Per: time.Second, Burst: 100_000}
	// hot may hold 1,000 tokens in advance.
	hot = sluice.Charge{Key: "hot", Limit: wide, N: 1, Tolerance: 10_000}
)

// remaining returns what the shared store has left of a charge's counter.
func remaining(t *testing.T, s sluice.Store, c sluice.Charge) int64 {
	t.Helper()
	c.N, c.Unit = 0, 0
	return take(t, s, c)[0].Remaining
}
