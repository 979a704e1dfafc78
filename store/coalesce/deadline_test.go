package coalesce

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// until is a context that ends at its deadline and is never asked for Done.
type until struct {
	context.Context
	t        *testing.T
	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }
func (u until) EndsAtDeadline() bool        { return true }

func (u until) Done() <-chan struct{} {
	u.t.Error("asked for Done")
	return nil
}

// takeWithin asks one token and returns how long that took.
func takeWithin(t *testing.T, s *Store, key string, d time.Duration) (time.Duration, error) {
	began := time.Now()
	_, err := s.Take(until{context.Background(), t, began.Add(d)}, nil, []sluice.Charge{one(key, 1)})
	return time.Since(began), err
}

// Each wait ends at its own deadline, whether its call is under way or not.
func TestDeadlines(t *testing.T) {
	bubble(t, Options{InFlight: 2}, func(t *testing.T, s *Store, below *gate) {
		var callers sync.WaitGroup
		for i := range 20 {
			d := time.Duration(1+(i*7+12)%20) * time.Millisecond // the first is not the shortest
			callers.Go(func() {
				key := []string{"a", "b", "c", "d"}[i%4]
				if took, err := takeWithin(t, s, key, d); took != d || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a wait of %v ended after %v with %v", d, took, err)
				}
			})
			time.Sleep(100 * time.Microsecond)
		}
		callers.Wait()
		below.let(100)
		// What was granted to nobody was given back, and the next finds all.
		for _, key := range []string{"a", "b", "c", "d"} {
			if used := below.used(key); used != 0 {
				t.Errorf("%d of %s are used", used, key)
			}
		}
		again := call(s, one("a", 1))
		below.let(1)
		wantGranted(t, []*caller{again}, 1)
	})
}

// sleepy answers after a while, which is around the deadlines.
type sleepy struct{ *memory.Store }

func (s sleepy) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	return s.Store.Take(ctx, dst, charges)
}

// Answers and deadlines that come together: who was told of an error was not
// charged, and nobody is told another's answer.
func TestDeadlinesAgainstAnswers(t *testing.T) {
	below := memory.New(memory.Options{})
	s := New(sleepy{below}, Options{})
	var granted [3]int64
	var mu sync.Mutex
	var callers sync.WaitGroup
	keys := []string{"a", "b", "c"}
	for i := range 60 {
		callers.Go(func() {
			for range 100 {
				k := rand.IntN(len(keys))
				ctx := until{context.Background(), t, time.Now().Add(time.Duration(500+rand.IntN(2500)) * time.Microsecond)}
				got, err := s.Take(ctx, nil, []sluice.Charge{one(keys[k], int64(1+i%3))})
				switch {
				case err == nil:
					mu.Lock()
					granted[k] += got[0].Granted
					mu.Unlock()
				case !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	s.Close()
	for k, key := range keys {
		got, err := below.Take(t.Context(), nil, []sluice.Charge{one(key, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if used := got[0].Limit - got[0].Remaining; used != granted[k] || used == 0 {
			t.Errorf("%d of %s are used, %d were granted", used, key, granted[k])
		}
	}
}
