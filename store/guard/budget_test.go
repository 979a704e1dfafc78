package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// F93, F94: a store that hangs without closing takes a budget, and after a few
// of them nothing.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		s.next.take = hangs
		c := sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}
		for i := range 100 {
			decisions, took := s.take(c)
			want := time.Duration(0)
			if i < inARow {
				want = 5 * time.Millisecond
			}
			if took != want || decisions[0].Source != sluice.SourceFallback {
				t.Fatalf("decision %d took %v from %v, want %v from fallback", i, took, decisions[0].Source, want)
			}
		}
		if got := s.next.calls.Load(); got != inARow {
			t.Errorf("the store was called %d times, want %d", got, inARow)
		}
	})
}

func TestBudgetIsNotSpentOnSlowAnswersInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		s.next.take = answersAfter(4 * time.Millisecond)
		for range 50 {
			if d := s.one(sluice.Charge{Key: "k", Limit: perSecond(1), N: 1}); d.Source != sluice.SourceStore {
				t.Fatalf("Source = %v, want store", d.Source)
			}
		}
	})
}

// F95: a store that answers after seconds leaves a local limit, not none.
func TestSlowStoreKeepsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Instances: 4})
		s.next.take = answersAfter(6 * time.Second)
		granted := int64(0)
		for range 1000 {
			granted += s.one(sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 40, Per: time.Hour}, N: 1}).Granted
		}
		if granted != 10 {
			t.Errorf("%d of 40 granted by one of 4 instances, want 10", granted)
		}
	})
}

// One pause fails all calls under way, and must not open the breaker.
func TestFailuresTogetherCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		s.next.take = hangs
		var calls sync.WaitGroup
		for range 64 {
			calls.Go(func() { s.one(sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}) })
		}
		calls.Wait()
		n := s.Stats().Nodes[0]
		if n.State != Closed || n.Failed != 64 {
			t.Errorf("after one pause: %+v, want closed, 64 failed", n)
		}
		s.next.take = nil
		if d := s.one(sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}); d.Source != sluice.SourceStore {
			t.Errorf("Source after the pause = %v, want store", d.Source)
		}
	})
}

func TestCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		s.next.take = hangs
		time.AfterFunc(time.Millisecond, cancel)
		charges := []sluice.Charge{{Key: "k", Limit: perSecond(1), N: 1}}
		for range 5 {
			dst, err := s.Take(ctx, nil, charges)
			if !errors.Is(err, context.Canceled) || dst != nil {
				t.Errorf("Take by a caller that left = %v, %v, want the context's error", dst, err)
			}
		}
		if got := s.next.calls.Load(); got != 1 {
			t.Errorf("the store was called %d times for a caller that left, want 1", got)
		}
		if d := s.one(charges[0]); !d.Allowed {
			t.Error("the caller that left used the local token")
		}
	})
}

// Errors about the charges are answers, also of a probe.
func TestErrorsAboutChargesAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		costly := []sluice.Charge{{Key: "k", Limit: perSecond(1), N: 2}}
		for range 2 * inARow {
			if _, err := s.Take(t.Context(), nil, costly); !errors.Is(err, sluice.ErrCost) {
				t.Fatalf("Take over the capacity: %v, want ErrCost", err)
			}
		}
		s.open()
		if _, err := s.Take(t.Context(), nil, costly); !errors.Is(err, sluice.ErrCost) {
			t.Fatalf("Take over the capacity while open: %v, want ErrCost", err)
		}
		time.Sleep(time.Second)
		if _, err := s.Take(t.Context(), nil, costly); !errors.Is(err, sluice.ErrCost) {
			t.Fatalf("Take over the capacity as a probe: %v, want ErrCost", err)
		}
		if d := s.one(sluice.Charge{Key: "k", Limit: perSecond(1), N: 1}); d.Source != sluice.SourceStore {
			t.Errorf("Source after it = %v, want store", d.Source)
		}
	})
}

func TestBudgetContext(t *testing.T) {
	type key struct{}
	var p budgets
	ctx := context.WithValue(t.Context(), key{}, 7)
	b := p.start(ctx, time.Now(), time.Hour)
	if deadline, ok := b.Deadline(); !ok || time.Until(deadline) > time.Hour || b.Err() != nil || b.Value(key{}) != 7 {
		t.Errorf("a new budget: %v, %v, %v, %v", deadline, ok, b.Err(), b.Value(key{}))
	}
	child, cancel := context.WithTimeout(b, 2*time.Hour)
	defer cancel()
	p.stop(b)
	b2 := p.start(t.Context(), time.Now(), time.Nanosecond)
	<-b2.Done()
	if !errors.Is(b2.Err(), context.DeadlineExceeded) {
		t.Errorf("Err of a budget used up = %v", b2.Err())
	}
	p.stop(b2)
	if b3 := p.start(t.Context(), time.Now(), time.Hour); b3 == b2 {
		t.Error("a budget used up is used again")
	}
	_ = child
}

// stuck hangs for one key until the budget ends.
type stuck struct{ grant }

func (s stuck) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if charges[0].Key == "stuck" {
		<-ctx.Done()
		return dst, ctx.Err()
	}
	return s.grant.Take(ctx, dst, charges)
}

// BenchmarkExcess measures how much later than a bare timer of the same length a
// decision comes whose call hangs. 50 callers alternate between both and calls
// that are answered, which keep the breaker closed.
func BenchmarkExcess(b *testing.B) {
	s := New(stuck{}, memory.New(memory.Options{}), Options{})
	charge := func(key string) []sluice.Charge {
		return []sluice.Charge{{Key: key, Limit: perSecond(1000), N: 1, OnFailure: sluice.FailAllow}}
	}
	hanging, answered := charge("stuck"), charge("k")
	var mu sync.Mutex
	var bare, guarded []time.Duration
	for b.Loop() {
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for range 20 {
					start := time.Now()
					<-time.NewTimer(5 * time.Millisecond).C
					first := time.Since(start)
					start = time.Now()
					_, err := s.Take(b.Context(), nil, hanging)
					second := time.Since(start)
					if err != nil {
						b.Error(err)
						return
					}
					for range 10 {
						s.Take(b.Context(), nil, answered)
					}
					mu.Lock()
					if second >= 5*time.Millisecond {
						bare, guarded = append(bare, first), append(guarded, second)
					}
					mu.Unlock()
				}
			})
		}
		callers.Wait()
	}
	slices.Sort(bare)
	slices.Sort(guarded)
	for _, q := range []int{500, 990, 999} {
		i := (len(bare) - 1) * q / 1000
		b.ReportMetric(float64(guarded[i]-bare[i])/1e6, fmt.Sprintf("excess-ms-p%d", q))
	}
	b.ReportMetric(float64(len(bare)), "samples")
}
