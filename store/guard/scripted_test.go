package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A scripted store does what a test says, and otherwise what the store in it
// does.
type scripted struct {
	sluice.Store
	take  func(s *scripted, ctx context.Context) error // nil, or answering nil: the store in it answers
	calls atomic.Int64
	live  func() ([]string, error)

	mu   sync.Mutex
	sent [][]sluice.Settlement
}

func (s *scripted) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	s.calls.Add(1)
	if s.take != nil {
		if err := s.take(s, ctx); err != nil {
			return dst, err
		}
	}
	return s.Store.Take(ctx, dst, charges)
}

func (s *scripted) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	s.calls.Add(1)
	if s.take != nil {
		if err := s.take(s, ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.sent = append(s.sent, settlements)
	s.mu.Unlock()
	return s.Store.(sluice.Settler).Settle(ctx, settlements)
}

func (s *scripted) Forget(ctx context.Context, charges []sluice.Charge) error {
	return s.Store.(sluice.Forgetter).Forget(ctx, charges)
}

func (s *scripted) Register(_ context.Context, id string, ttl time.Duration) ([]string, error) {
	if s.live == nil {
		return []string{id}, nil
	}
	return s.live()
}

var errBroken = errors.New("connection refused")

func broken(*scripted, context.Context) error { return errBroken }

func hangs(_ *scripted, ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// answersAfter lets d pass, or the context end.
func answersAfter(d time.Duration) func(*scripted, context.Context) error {
	return func(_ *scripted, ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subject is a guard over a scripted store.
type subject struct {
	*Store
	next *scripted
	t    *testing.T
}

func newSubject(t *testing.T, o Options) *subject {
	next := &scripted{Store: memory.New(memory.Options{})}
	return &subject{Store: New(next, memory.New(memory.Options{}), o), next: next, t: t}
}

// take takes charges and returns the decisions and how long they took.
func (s *subject) take(charges ...sluice.Charge) ([]sluice.Decision, time.Duration) {
	s.t.Helper()
	start := time.Now()
	decisions, err := s.Take(s.t.Context(), nil, charges)
	if err != nil || len(decisions) != len(charges) {
		s.t.Fatalf("Take(%v) = %v, %v, want %d decisions", charges, decisions, err, len(charges))
	}
	return decisions, time.Since(start)
}

// one takes one charge.
func (s *subject) one(c sluice.Charge) sluice.Decision {
	s.t.Helper()
	decisions, _ := s.take(c)
	return decisions[0]
}

// open makes the breaker open.
func (s *subject) open() {
	s.t.Helper()
	script := s.next.take
	s.next.take = broken
	for range inARow {
		s.one(sluice.Charge{Key: "opening", Limit: perSecond(1000), N: 0})
	}
	s.next.take = script
	if state := s.Stats().Nodes[0].State; state != Open {
		s.t.Fatalf("after %d failures the breaker is %v, want open", inARow, state)
	}
}

func perSecond(n int64) sluice.Limit { return sluice.Limit{Tokens: n, Per: time.Second} }
