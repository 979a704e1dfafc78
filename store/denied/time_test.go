package denied

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// newCounted returns a store over a counter, both in the time of the test.
func newCounted(o Options) (*Store, *counter) {
	below := &counter{Store: memory.New(memory.Options{})}
	return New(below, o), below
}

func take(t *testing.T, s sluice.Store, charges ...sluice.Charge) []sluice.Decision {
	t.Helper()
	got, err := s.Take(t.Context(), nil, charges)
	if err != nil {
		t.Fatalf("Take(%+v) failed: %v", charges, err)
	}
	return got
}

func takeOne(t *testing.T, s sluice.Store, key string, limit sluice.Limit, n int64) sluice.Decision {
	t.Helper()
	return take(t, s, sluice.Charge{Key: key, Limit: limit, N: n})[0]
}

// wantTake checks who answered whether n tokens pass.
func wantTake(t *testing.T, s sluice.Store, key string, limit sluice.Limit, n int64, allowed bool, source sluice.Source) sluice.Decision {
	t.Helper()
	d := takeOne(t, s, key, limit, n)
	if d.Allowed != allowed || d.Source != source {
		t.Fatalf("%d of %q under %v: got %+v, want Allowed %v from %v", n, key, limit, d, allowed, source)
	}
	return d
}

const (
	fromStore = sluice.SourceStore
	fromHere  = sluice.SourceDenied
)

func TestRefusalHoldsUntilItsWaitIsOver(t *testing.T) {
	for _, limit := range []sluice.Limit{
		{Tokens: 10, Per: time.Second, Burst: 1},
		{Tokens: 1, Per: 100 * time.Millisecond, Algorithm: sluice.FixedWindow},
		{Tokens: 1, Per: 100 * time.Millisecond, Algorithm: sluice.SlidingWindow},
		{Tokens: 1, Per: 100 * time.Millisecond, Algorithm: sluice.SlidingLog},
	} {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, below := newCounted(Options{})
				for round := range 5 {
					wantTake(t, s, "key", limit, 1, true, fromStore)
					first := wantTake(t, s, "key", limit, 1, false, fromStore)
					step := first.RetryAfter / 50
					for passed := time.Duration(0); passed < first.RetryAfter; passed += step {
						last := wantTake(t, s, "key", limit, 1, false, fromHere)
						if last.RetryAfter != first.RetryAfter-passed || last.ResetAfter != first.ResetAfter-passed || last.Remaining != 0 || last.Limit != 1 {
							t.Fatalf("%v after %+v: got %+v", passed, first, last)
						}
						time.Sleep(min(step, last.RetryAfter))
					}
					if want := 2*round + 2; below.calls != want {
						t.Fatalf("round %d: %d calls of the store, want %d", round, below.calls, want)
					}
				}
			})
		})
	}
}

func TestRaisesElsewhereAreASecondLate(t *testing.T) {
	for name, raise := range map[string]func(t *testing.T, below *counter, granted sluice.Decision){
		"give-back": func(t *testing.T, below *counter, granted sluice.Decision) {
			c := sluice.Charge{Key: "key", Limit: daily, N: -1}
			if err := below.Settle(t.Context(), []sluice.Settlement{{Charge: c, From: granted}}); err != nil {
				t.Fatal(err)
			}
		},
		"reset": func(t *testing.T, below *counter, _ sluice.Decision) {
			if err := below.Forget(t.Context(), []sluice.Charge{{Key: "key", Limit: daily}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, below := newCounted(Options{})
				granted := wantTake(t, s, "key", daily, 1, true, fromStore)
				wantTake(t, s, "key", daily, 1, false, fromStore)
				time.Sleep(100 * time.Millisecond)
				raise(t, below, granted)
				time.Sleep(900*time.Millisecond - 1)
				wantTake(t, s, "key", daily, 1, false, fromHere)
				time.Sleep(time.Nanosecond)
				wantTake(t, s, "key", daily, 1, true, fromStore)
			})
		})
	}
}

func TestAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, below := newCounted(Options{})
		takeOne(t, s, "key", daily, 1)
		for range 10_000 {
			takeOne(t, s, "key", daily, 1)
			time.Sleep(time.Millisecond)
		}
		if below.calls != 11 {
			t.Errorf("10 s of refusals made %d calls of the store, want 11", below.calls)
		}
	})
}

// A slow store decides some time after the call was sent, and answers some time
// after that.
type slow struct {
	*memory.Store
	there, back time.Duration
}

func (s slow) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	time.Sleep(s.there)
	defer time.Sleep(s.back)
	return s.Store.Take(ctx, dst, charges)
}

// TestSlowStore sees that a refusal is told no longer than it is true, counted
// from before the store could decide, and that the waits told are long enough,
// counted from after.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := sluice.Limit{Tokens: 10, Per: time.Second, Burst: 1}
		below := slow{memory.New(memory.Options{}), 10 * time.Millisecond, 20 * time.Millisecond}
		s := New(below, Options{})
		takeOne(t, below.Store, "key", limit, 1)
		empty := time.Now()
		wantTake(t, s, "key", limit, 1, false, fromStore)
		d := wantTake(t, s, "key", limit, 1, false, fromHere)
		if told := time.Since(empty) + d.RetryAfter; told != 120*time.Millisecond {
			t.Errorf("the wait told ends %v after the token was taken, want 120ms: 20ms more than the answer took", told)
		}
		time.Sleep(90*time.Millisecond - 2*time.Microsecond - time.Since(empty))
		wantTake(t, s, "key", limit, 1, false, fromHere)
		time.Sleep(2 * time.Microsecond)
		wantTake(t, s, "key", limit, 1, true, fromStore)
	})
}

func TestWaitsOverBeforeTheAnswerAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := sluice.Limit{Tokens: 1000, Per: time.Second, Burst: 1}
		below := slow{memory.New(memory.Options{}), 0, 2 * time.Millisecond}
		s := New(below, Options{})
		takeOne(t, below.Store, "key", limit, 1)
		wantTake(t, s, "key", limit, 1, false, fromStore)
		if n := s.remembered(); n != 0 {
			t.Errorf("%d answers are remembered, want 0", n)
		}
	})
}

// remembered returns the number of entries.
func (s *Store) remembered() (n int) {
	for i := range s.cache.sets {
		for j := range s.cache.sets[i].entries {
			if s.cache.sets[i].entries[j].Load() != nil {
				n++
			}
		}
	}
	return n
}

// TestAnswersOverrunByAReset answers a call after the key was given back or
// reset, as it was decided before.
func TestAnswersOverrunByAReset(t *testing.T) {
	for name, raise := range map[string]func(s *Store, granted sluice.Decision) error{
		"give-back": func(s *Store, granted sluice.Decision) error {
			c := sluice.Charge{Key: "key", Limit: daily, N: -1}
			return s.Settle(context.Background(), []sluice.Settlement{{Charge: c, From: granted}})
		},
		"reset": func(s *Store, _ sluice.Decision) error {
			return s.Forget(context.Background(), []sluice.Charge{{Key: "key", Limit: daily}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := slow{memory.New(memory.Options{}), 0, 20 * time.Millisecond}
				s := New(below, Options{})
				granted := takeOne(t, s, "key", daily, 1)
				wantTake(t, s, "key", daily, 1, false, fromStore)
				if err := raise(s, granted); err != nil {
					t.Fatal(err)
				}
				wantTake(t, s, "key", daily, 1, true, fromStore)

				if err := s.Forget(t.Context(), []sluice.Charge{{Key: "key", Limit: daily}}); err != nil {
					t.Fatal(err)
				}
				granted = takeOne(t, s, "key", daily, 1)
				go func() {
					time.Sleep(10 * time.Millisecond)
					if err := raise(s, granted); err != nil {
						t.Error(err)
					}
				}()
				wantTake(t, s, "key", daily, 1, false, fromStore) // answered after the raise
				wantTake(t, s, "key", daily, 1, true, fromStore)
			})
		})
	}
}

// TestWhatIsToldBesideARefusalIsNew refuses a key again and again, and its
// neighbour's state, which was told once, is not told after a second.
func TestWhatIsToldBesideARefusalIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCounted(Options{})
		first := sluice.Charge{Key: "first", Limit: daily, N: 1}
		second := sluice.Charge{Key: "second", Limit: sluice.Limit{Tokens: 10, Per: time.Hour}, N: 1}
		take(t, s, first, second)
		take(t, s, first, second)
		for _, want := range []int64{9, 9, 0, 0} {
			take(t, s, first) // asks the store once a second
			if d := take(t, s, first, second)[1]; d.Source != fromHere || d.Remaining != want {
				t.Errorf("beside a refusal: got %+v, want Remaining %d", d, want)
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// TestResetsUnderAnotherLimit resets a counter that two limits count on, as they
// do while one takes the other's place.
func TestResetsUnderAnotherLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCounted(Options{})
		other := daily
		other.Burst = 2
		for _, raise := range []func() error{
			func() error { return s.Forget(t.Context(), []sluice.Charge{{Key: "key", Limit: other}}) },
			func() error {
				from := takeOne(t, s.next, "key", daily, 0)
				return s.Settle(t.Context(), []sluice.Settlement{{Charge: sluice.Charge{Key: "key", Limit: other, N: -1}, From: from}})
			},
		} {
			wantTake(t, s, "key", daily, 1, true, fromStore)
			wantTake(t, s, "key", daily, 1, false, fromStore)
			wantTake(t, s, "key", daily, 1, false, fromHere)
			if err := raise(); err != nil {
				t.Fatal(err)
			}
		}
		wantTake(t, s, "key", daily, 1, true, fromStore)
	})
}
