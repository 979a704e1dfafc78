package denied

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func TestAmounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []sluice.Limit{
			{Tokens: 10, Per: time.Hour},
			{Tokens: 10, Per: time.Hour, Algorithm: sluice.FixedWindow},
			{Tokens: 10, Per: time.Hour, Algorithm: sluice.SlidingWindow},
			{Tokens: 10, Per: time.Hour, Algorithm: sluice.SlidingLog},
		} {
			s, below := newCounted(Options{})
			key := limit.Algorithm.String()
			wantTake(t, s, key, limit, 6, true, fromStore)
			wantTake(t, s, key, limit, 5, false, fromStore)
			time.Sleep(time.Millisecond)
			for n := int64(5); n <= 10; n++ {
				want := takeOne(t, below, key, limit, n)
				source := fromHere
				if sliding(limit.Algorithm) && n > 5 {
					source = fromStore
				}
				got := wantTake(t, s, key, limit, n, false, source)
				got.Source, got.At = want.Source, want.At
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%d of %v (-store +here):\n%s", n, limit, diff)
				}
				wantTake(t, s, key, limit, n, false, fromHere)
			}
			wantTake(t, s, key, limit, 3, true, fromStore)
			// What remains and the waits have changed.
			wantTake(t, s, key, limit, 5, false, fromStore)
			// A smaller refusal takes the place of a larger one.
			wantTake(t, s, key, limit, 2, false, fromStore)
			wantTake(t, s, key, limit, 2, false, fromHere)
			wantTake(t, s, key, limit, 1, true, fromStore)
		}
	})
}

func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCounted(Options{})
		limit := sluice.Limit{Tokens: 10, Per: time.Hour}
		part := sluice.Charge{Key: "key", Limit: limit, N: 9, Unit: 3}
		for i, want := range []struct {
			granted int64
			source  sluice.Source
		}{{9, fromStore}, {0, fromStore}, {0, fromHere}} {
			if d := take(t, s, part)[0]; d.Granted != want.granted || d.Source != want.source {
				t.Errorf("call %d: got %+v, want %+v", i, d, want)
			}
		}
		// A part of a grant is no refusal.
		if err := s.Forget(t.Context(), []sluice.Charge{part}); err != nil {
			t.Fatal(err)
		}
		takeOne(t, s, "key", limit, 5)
		for i, want := range []int64{3, 0} {
			if d := take(t, s, part)[0]; d.Granted != want || d.Source != fromStore {
				t.Errorf("call %d: got %+v, want %d granted by the store", i, d, want)
			}
		}
		wantTake(t, s, "key", limit, 3, false, fromHere)
		wantTake(t, s, "key", limit, 2, true, fromStore)
	})
}

// TestOtherLimitsOfAKey changes one thing of a refused charge at a time.
func TestOtherLimitsOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, below := newCounted(Options{})
		limit := sluice.Limit{Tokens: 10, Per: time.Hour, Algorithm: sluice.FixedWindow}
		refused := sluice.Charge{Key: "key", Tag: "tag", Limit: limit, N: 10}
		take(t, s, refused)
		take(t, s, refused)
		for name, change := range map[string]func(c *sluice.Charge){
			"key":      func(c *sluice.Charge) { c.Key += "x" },
			"empty":    func(c *sluice.Charge) { c.Key = "" },
			"tag":      func(c *sluice.Charge) { c.Tag = "" },
			"raised":   func(c *sluice.Charge) { c.Limit.Tokens = 20 },
			"period":   func(c *sluice.Charge) { c.Limit.Per = time.Minute },
			"calendar": func(c *sluice.Charge) { c.Limit.Per, c.Limit.Calendar.Unit = 0, sluice.CalendarDay },
			"bucket":   func(c *sluice.Charge) { c.Limit.Algorithm = sluice.TokenBucket },
		} {
			if d := take(t, s, refused)[0]; d.Source != fromHere {
				t.Fatalf("%s: the refusal is not remembered: %+v", name, d)
			}
			c := refused
			change(&c)
			calls := below.calls
			if d := take(t, s, c)[0]; d.Source != fromStore || below.calls != calls+1 {
				t.Errorf("another %s: got %+v, want the store's answer", name, d)
			}
			// Whatever it answered, no more than the store below would admit.
			take(t, s, refused)
		}
	})
}

func TestGroups(t *testing.T) {
	hour := sluice.Limit{Tokens: 10, Per: time.Hour, Algorithm: sluice.FixedWindow}
	charge := func(group int, key string, n int64) sluice.Charge {
		return sluice.Charge{Key: key, Limit: hour, N: n, Group: group}
	}
	for _, tt := range []struct {
		name    string
		before  []sluice.Charge // of which the last group is refused
		charges []sluice.Charge
		want    []int64 // granted
		sent    int     // charges
	}{
		{"one of a group", []sluice.Charge{charge(0, "a", 10), charge(1, "a", 1)}, []sluice.Charge{charge(0, "a", 1), charge(0, "b", 1)}, []int64{0, 0}, 0},
		{"the last of a group", []sluice.Charge{charge(0, "a", 10), charge(1, "a", 1)}, []sluice.Charge{charge(0, "b", 1), charge(0, "a", 1)}, []int64{0, 0}, 0},
		{"a shadow is counted", []sluice.Charge{charge(0, "a", 10), charge(1, "a", 1)}, []sluice.Charge{charge(0, "a", 1), charge(1, "b", 2)}, []int64{0, 2}, 1},
		{"a refused shadow", []sluice.Charge{charge(0, "a", 10), charge(1, "a", 1)}, []sluice.Charge{charge(0, "b", 1), charge(1, "a", 2), charge(2, "c", 3)}, []int64{1, 0, 3}, 2},
		{"numbers that meet", []sluice.Charge{charge(0, "a", 10), charge(1, "a", 1)}, []sluice.Charge{charge(0, "b", 4), charge(1, "a", 1), charge(0, "c", 11-1), charge(0, "b", 5)}, []int64{4, 0, 10, 5}, 3},
		{"all groups", []sluice.Charge{charge(0, "a", 10), charge(1, "b", 10), charge(2, "a", 1), charge(3, "b", 1)}, []sluice.Charge{charge(0, "a", 1), charge(1, "b", 1)}, []int64{0, 0}, 0},
		{"a group of peeks passes through", []sluice.Charge{charge(0, "a", 10), charge(1, "a", 1)}, []sluice.Charge{charge(0, "a", 1), charge(1, "b", 0)}, []int64{0, 0}, 1},
		{"a key on both sides", []sluice.Charge{charge(0, "a", 6), charge(1, "a", 5)}, []sluice.Charge{charge(0, "a", 1), charge(1, "a", 5)}, []int64{1, 0}, 2},
		{"twice in a group, refused together", []sluice.Charge{charge(0, "a", 1), charge(1, "a", 5), charge(1, "a", 5)}, []sluice.Charge{charge(0, "a", 5), charge(1, "b", 1)}, []int64{5, 1}, 2},
		{"twice in a group, as much as one", []sluice.Charge{charge(0, "a", 6), charge(1, "a", 6)}, []sluice.Charge{charge(0, "a", 3), charge(0, "a", 3)}, []int64{0, 0}, 0},
		{"twice in a group, less than one", []sluice.Charge{charge(0, "a", 4), charge(1, "a", 7)}, []sluice.Charge{charge(0, "a", 3), charge(0, "a", 3)}, []int64{3, 3}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, below := newCounted(Options{})
				take(t, s, tt.before...)
				model := memory.New(memory.Options{})
				take(t, model, tt.before...)
				below.charges = 0
				got := take(t, s, tt.charges...)
				want := take(t, model, tt.charges...)
				var granted []int64
				for i, d := range got {
					granted = append(granted, d.Granted)
					if d.Granted != want[i].Granted || d.RetryAfter != 0 && d.RetryAfter != want[i].RetryAfter || d.Limit != 10 {
						t.Errorf("decision %d is %+v, want %+v", i, d, want[i])
					}
				}
				if !slices.Equal(granted, tt.want) || below.charges != tt.sent {
					t.Errorf("granted %v with %d charges sent, want %v and %d", granted, below.charges, tt.want, tt.sent)
				}
			})
		})
	}
}

// TestBesideARefusal sees what is told of the other charges of a refused group.
func TestBesideARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCounted(Options{})
		second := sluice.Limit{Tokens: 2, Per: time.Second}
		day := sluice.Limit{Tokens: 1000, Per: 24 * time.Hour, Algorithm: sluice.FixedWindow}
		group := []sluice.Charge{{Key: "second", Limit: second, N: 1}, {Key: "day", Limit: day, N: 1}}
		for range 2 {
			take(t, s, group...)
		}
		first := take(t, s, group...)
		time.Sleep(100 * time.Millisecond)
		got := take(t, s, group...)
		want := slices.Clone(first)
		for i := range want {
			want[i].Source = fromHere
			want[i].ResetAfter -= 100 * time.Millisecond
		}
		want[0].RetryAfter -= 100 * time.Millisecond
		if diff := cmp.Diff(want, got); diff != "" || got[1].Remaining != 998 {
			t.Errorf("beside a refusal (-want +got):\n%s", diff)
		}
		group[1].Key = "another day"
		if got, want := take(t, s, group...)[1], (sluice.Decision{Allowed: true, Limit: 1000, Source: fromHere}); got != want {
			t.Errorf("a key not asked before: got %+v, want %+v", got, want)
		}
	})
}

func TestPeeksPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, below := newCounted(Options{})
		for range 3 {
			takeOne(t, s, "key", daily, 1)
		}
		calls := below.calls
		if d := wantTake(t, s, "key", daily, 0, true, fromStore); d.Remaining != 0 || below.calls != calls+1 {
			t.Errorf("a peek at a refused key: got %+v with %d calls, want the store's answer", d, below.calls-calls)
		}
		wantTake(t, s, "key", daily, 1, false, fromHere)
	})
}

// A scripted store answers every charge as it is told.
type scripted struct {
	answer sluice.Decision
	err    error
	short  int
	calls  int
}

func (s *scripted) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	s.calls++
	if s.err != nil {
		return dst, s.err
	}
	for range len(charges) - s.short {
		dst = append(dst, s.answer)
	}
	return dst, nil
}

func TestOnlyRefusalsByTheStoreAreRemembered(t *testing.T) {
	refusal := sluice.Decision{Limit: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}
	for _, tt := range []struct {
		source sluice.Source
		calls  int
	}{{sluice.SourceStore, 1}, {sluice.SourceDenied, 3}, {sluice.SourceLease, 3}, {sluice.SourceFallback, 3}} {
		for _, size := range []int{1, 2} {
			below := &scripted{answer: refusal}
			below.answer.Source = tt.source
			s := New(below, Options{})
			for range 3 {
				take(t, s, slices.Repeat([]sluice.Charge{{Key: "key", Limit: sluice.Limit{Tokens: 2, Per: time.Hour}, N: 1}}, size)...)
			}
			if below.calls != tt.calls {
				t.Errorf("a refusal from %v of %d charges: %d calls, want %d", tt.source, size, below.calls, tt.calls)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	below := &scripted{answer: sluice.Decision{Limit: 1, RetryAfter: time.Hour}}
	s := New(below, Options{})
	refused, other := sluice.Charge{Key: "key", Limit: daily, N: 1}, sluice.Charge{Key: "other", Limit: daily, N: 1, Group: 1}
	take(t, s, refused)
	kept := []sluice.Decision{{Remaining: 17}}
	check := func(name string, want error, charges ...sluice.Charge) {
		t.Helper()
		got, err := s.Take(t.Context(), slices.Clone(kept), charges)
		if !errors.Is(err, want) || !slices.Equal(got, kept) {
			t.Errorf("%s: Take = %+v, %v, want %v", name, got, err, want)
		}
	}
	tooMuch, senseless, negative := refused, refused, other
	tooMuch.N, senseless.Unit, negative.N = 2, 2, -1
	calls := below.calls
	check("cost", sluice.ErrCost, tooMuch)
	check("unit", sluice.ErrCharge, senseless)
	check("cost of one of two", sluice.ErrCost, tooMuch, other)
	check("a group that goes to the store", sluice.ErrCharge, refused, negative)
	if below.calls != calls {
		t.Errorf("senseless calls on a refused key reached the store")
	}
	below.err = broken
	check("one", broken, other)
	check("several", broken, other, sluice.Charge{Key: "third", Limit: daily, N: 1, Group: 2})
	check("beside a refusal", broken, refused, other)
	check("negative", broken, negative)
	below.err, below.short = nil, 1
	check("no answer", errCount, other)
	check("no answer beside a refusal", errCount, refused, other)
	if got, err := s.Take(t.Context(), slices.Clone(kept), nil); err != nil && !errors.Is(err, errCount) || len(got) != 1 {
		t.Errorf("an empty call: %v, %v", got, err)
	}
}

func TestBounded(t *testing.T) {
	for _, most := range []int{1, 2, 7, 8, 9, 100, 1000} {
		s := New(&scripted{answer: sluice.Decision{Limit: 1, RetryAfter: time.Hour}}, Options{MaxKeys: most})
		for i := range 20 * most {
			takeOne(t, s, fmt.Sprint("key", i), daily, 1)
		}
		if n := s.remembered(); n > most || n < most/2 {
			t.Errorf("of %d keys at a bound of %d, %d are remembered", 20*most, most, n)
		}
		// The newest is kept, and so is what is asked of it again and again.
		below := s.next.(*scripted)
		calls := below.calls
		for range 10 {
			takeOne(t, s, fmt.Sprint("key", 20*most-1), daily, 1)
		}
		if below.calls != calls {
			t.Errorf("at a bound of %d the newest key is not remembered", most)
		}
	}
}

func TestAbilitiesOfTheStoreBelow(t *testing.T) {
	s := New(&scripted{}, Options{})
	for name, err := range map[string]error{
		"Settle": s.Settle(t.Context(), nil),
		"Forget": s.Forget(t.Context(), nil),
		"Register": func() error {
			_, err := s.Register(t.Context(), "id", time.Second)
			return err
		}(),
	} {
		if !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("%s = %v, want ErrUnsupported", name, err)
		}
	}
	if p := s.Locate(&sluice.Charge{}); p != (sluice.Place{}) {
		t.Errorf("Locate = %+v, want one place", p)
	}
	able := New(abilities{}, Options{})
	if p := able.Locate(&sluice.Charge{Key: "abc"}); p.Slot != 3 {
		t.Errorf("Locate = %+v, want that of the store below", p)
	}
	if live, err := able.Register(t.Context(), "id", time.Second); err != nil || !slices.Equal(live, []string{"id"}) {
		t.Errorf("Register = %v, %v, want that of the store below", live, err)
	}
}

type abilities struct{}

func (abilities) Take(_ context.Context, dst []sluice.Decision, _ []sluice.Charge) ([]sluice.Decision, error) {
	return dst, nil
}

func (abilities) Locate(c *sluice.Charge) sluice.Place { return sluice.Place{Slot: len(c.Key)} }

func (abilities) Register(_ context.Context, id string, _ time.Duration) ([]string, error) {
	return []string{id}, nil
}

// TestConcurrentUse takes, gives back and resets from many goroutines, and
// counts what was admitted.
func TestConcurrentUse(t *testing.T) {
	s := New(memory.New(memory.Options{}), Options{MaxKeys: 16})
	limit := sluice.Limit{Tokens: 10, Per: 366 * 24 * time.Hour, Algorithm: sluice.FixedWindow}
	const keys = 30
	var mu sync.Mutex
	var used [keys]int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				key := (i*7 + g) % keys
				charge := sluice.Charge{Key: fmt.Sprint(key), Limit: limit, N: 1 + int64(i%3)}
				shadow := sluice.Charge{Key: "shadow", Limit: limit, N: 1, Group: 1}
				decisions, err := s.Take(t.Context(), nil, []sluice.Charge{charge, shadow}[:1+i%2])
				if err != nil {
					t.Error(err)
					return
				}
				d := decisions[0]
				mu.Lock()
				used[key] += d.Granted
				mu.Unlock()
				if d.Granted > 0 && i%5 == 0 {
					mu.Lock()
					used[key] -= d.Granted
					mu.Unlock()
					charge.N = -d.Granted
					if err := s.Settle(t.Context(), []sluice.Settlement{{Charge: charge, From: d}}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for key := range used {
		d := takeOne(t, s, fmt.Sprint(key), limit, 0)
		if d.Remaining != 10-used[key] {
			t.Errorf("key %d: %d remain of 10 after %d were taken", key, d.Remaining, used[key])
		}
	}
}
