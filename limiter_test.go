package sluice

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A tinyStore is the least that a Store can be: Decide under a lock.
type tinyStore struct {
	mu     sync.Mutex
	states map[string]*State
	err    error
}

func (s *tinyStore) Take(_ context.Context, dst []Decision, charges []Charge) ([]Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return dst, s.err
	}
	if err := CheckCharges(charges); err != nil {
		return dst, err
	}
	var meters []Meter
	var states []*State
	for _, c := range charges {
		m, err := c.Limit.Meter()
		if err != nil {
			return dst, err
		}
		if s.states == nil {
			s.states = map[string]*State{}
		}
		if s.states[c.Key] == nil {
			s.states[c.Key] = new(State)
		}
		meters, states = append(meters, m), append(states, s.states[c.Key])
	}
	return Decide(dst, charges, meters, states, Ticks(time.Now())), nil
}

// A forgetfulStore can also reset keys.
type forgetfulStore struct{ tinyStore }

func (s *forgetfulStore) Forget(_ context.Context, charges []Charge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range charges {
		delete(s.states, c.Key)
	}
	return nil
}

func newLimiter(t *testing.T, store Store, limit string) *Limiter {
	t.Helper()
	l, err := New(store, newKey(t, limit).limit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNewRejectsAnInvalidLimit(t *testing.T) {
	if l, err := New(&tinyStore{}, Limit{}); err == nil {
		t.Errorf("New = %v, want an error", l)
	}
}

func TestLimiterTakesAndPeeks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, &tinyStore{}, "2/s")
		if l.Limit().Tokens != 2 {
			t.Errorf("Limit = %v", l.Limit())
		}
		for i, want := range []bool{true, true, false} {
			d, err := l.Take(t.Context(), "a", 1)
			if err != nil || d.Allowed != want {
				t.Errorf("Take %d = %+v, %v, want allowed %v", i, d, err, want)
			}
		}
		if d, err := l.Peek(t.Context(), "a"); err != nil || d.Remaining != 0 || !d.Allowed {
			t.Errorf("Peek = %+v, %v", d, err)
		}
		if d, err := l.Peek(t.Context(), "b"); err != nil || d.Remaining != 2 {
			t.Errorf("Peek of another key = %+v, %v", d, err)
		}
		if _, err := l.Take(t.Context(), "a", 3); !errors.Is(err, ErrCost) {
			t.Errorf("Take of 3 = %v, want ErrCost", err)
		}
		if _, err := l.Take(t.Context(), "a", -1); !errors.Is(err, ErrCharge) {
			t.Errorf("Take of -1 = %v, want ErrCharge", err)
		}
	})
}

func TestWaitTakesAsSoonAsTokensAreThere(t *testing.T) {
	for _, limit := range []string{"2/s", "2/s fixed_window", "2/s sliding_window", "2/s sliding_log"} {
		synctest.Test(t, func(t *testing.T) {
			l, start := newLimiter(t, &tinyStore{}, limit), time.Now()
			want := map[string]time.Duration{"2/s": 500 * time.Millisecond, "2/s sliding_window": 1500 * time.Millisecond}[limit]
			if want == 0 {
				want = time.Second
			}
			for range 3 {
				if err := l.Wait(t.Context(), "a", 1); err != nil {
					t.Fatal(err)
				}
			}
			if got := time.Since(start); got != want {
				t.Errorf("%s: the third token is there after %v, want %v", limit, got, want)
			}
		})
	}
}

func TestWaitIsBoundedByTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline time.Duration
		want     error
		after    time.Duration
	}{
		{"too short: an error at once", 499 * time.Millisecond, ErrWait, 0},
		{"just too short", 500 * time.Millisecond, ErrWait, 0},
		{"long enough", 501 * time.Millisecond, nil, 500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, &tinyStore{}, "2/s")
				if err := l.Wait(t.Context(), "a", 2); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				err := l.Wait(ctx, "a", 1)
				if !errors.Is(err, tt.want) || time.Since(start) != tt.after {
					t.Errorf("Wait = %v after %v, want %v after %v", err, time.Since(start), tt.want, tt.after)
				}
				if tt.want != nil {
					time.Sleep(time.Second)
					if d, err := l.Peek(t.Context(), "a"); err != nil || d.Remaining != 2 {
						t.Errorf("a failed wait has left %+v, %v", d, err)
					}
				}
			})
		})
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, &tinyStore{}, "1/h")
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.Wait(ctx, "a", 1); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- l.Wait(ctx, "a", 1) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want the context's error", err)
		}
		if err := l.Wait(ctx, "b", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait with a cancelled context = %v", err)
		}
	})
}

func TestWaitersShareWhatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, start := newLimiter(t, &tinyStore{}, "10/s burst 1"), time.Now()
		var wg sync.WaitGroup
		for range 21 {
			wg.Go(func() {
				if err := l.Wait(t.Context(), "a", 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("21 tokens of 10/s took %v, want 2s", got)
		}
	})
}

func TestLimiterPassesOnWhatTheStoreSays(t *testing.T) {
	down := errors.New("down")
	l := newLimiter(t, &tinyStore{err: down}, "1/s")
	if _, err := l.Take(t.Context(), "a", 1); !errors.Is(err, down) {
		t.Errorf("Take = %v, want %v", err, down)
	}
	if err := l.Wait(t.Context(), "a", 1); !errors.Is(err, down) {
		t.Errorf("Wait = %v, want %v", err, down)
	}
}

func TestResetForgetsWhatWasUsed(t *testing.T) {
	l := newLimiter(t, &forgetfulStore{}, "1/h")
	for range 3 {
		if d, err := l.Take(t.Context(), "a", 1); err != nil || !d.Allowed {
			t.Fatalf("Take = %+v, %v", d, err)
		}
		if err := l.Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := newLimiter(t, &tinyStore{}, "1/h").Reset(t.Context(), "a"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Reset without the ability = %v, want ErrUnsupported", err)
	}
}
