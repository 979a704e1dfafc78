package coalesce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A step of a random schedule: a call begins, a caller leaves, or the store
// answers.
type step struct {
	charges []sluice.Charge // of a call; nil: none begins
	leave   int             // the caller who leaves; -1: none
	let     int             // calls let through
}

var keys = []string{"A", "B", "C"}

func drawStep(t *rapid.T, leaving bool, callers int) step {
	s := step{leave: -1}
	switch k := rapid.IntRange(0, 9).Draw(t, "step"); {
	case k == 0 && leaving && callers > 0:
		s.leave = rapid.IntRange(0, callers-1).Draw(t, "leave")
	case k <= 2:
		s.let = rapid.IntRange(1, 3).Draw(t, "let")
	default:
		s.charges = []sluice.Charge{one(rapid.SampledFrom(keys).Draw(t, "key"), rapid.Int64Range(0, 2).Draw(t, "n"))}
		if rapid.IntRange(0, 3).Draw(t, "shape") == 0 {
			other := one("x", rapid.Int64Range(1, 2).Draw(t, "other"))
			other.Group = rapid.IntRange(0, 1).Draw(t, "group")
			s.charges = append(s.charges, other)
		}
		if c := &s.charges[0]; c.N == 2 && len(s.charges) == 1 {
			c.Unit = rapid.Int64Range(0, 1).Draw(t, "unit")
		}
	}
	return s
}

// TestRandomSchedules holds what callers are told against what the store below
// has, for any order of calls, answers and callers who leave.
func TestRandomSchedules(t *testing.T) {
	merged := 0
	rapid.Check(t, func(rt *rapid.T) {
		o := Options{
			KeyInFlight: rapid.IntRange(1, 3).Draw(rt, "of a key"),
			InFlight:    rapid.IntRange(1, 3).Draw(rt, "of all"),
			Charges:     rapid.IntRange(1, 6).Draw(rt, "charges"),
		}
		leaving := rapid.Bool().Draw(rt, "leaving")
		var steps []step
		callers := 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			s := drawStep(rt, leaving, callers)
			if s.charges != nil {
				callers++
			}
			steps = append(steps, s)
		}
		var err error
		synctest.Test(t, func(*testing.T) {
			var n int
			n, err = play(o, steps)
			merged += n
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
	if merged == 0 {
		t.Error("no two calls were merged")
	}
}

// play runs a schedule to its end, and says how many calls were saved.
func play(o Options, steps []step) (saved int, err error) {
	below := newGate()
	s := New(below, o)
	var callers []*caller
	left := 0
	for _, step := range steps {
		switch {
		case step.charges != nil:
			callers = append(callers, call(s, step.charges...))
		case step.leave >= 0:
			if c := callers[step.leave]; !c.done {
				left++
				c.leave()
			}
		}
		below.let(step.let)
	}
	for below.let(1) > 0 {
	}
	s.Close()
	errs := []error{exact(below, callers, left)}
	for _, charges := range below.calls {
		if first := charges[len(charges)-1].Group; len(charges) > max(o.Charges, 2) {
			errs = append(errs, fmt.Errorf("a call has %d charges in %d groups", len(charges), first))
		}
	}
	if below.most > o.KeyInFlight || below.wide > o.InFlight {
		errs = append(errs, fmt.Errorf("%d calls of a key and %d in all were under way at once", below.most, below.wide))
	}
	return len(callers) - len(below.calls), errors.Join(errs...)
}

// exact checks that every caller was answered, that what they were granted is
// what was taken, and, if none left, that nobody was refused what was there and
// that of equal calls the first were served.
func exact(below *gate, callers []*caller, left int) error {
	used := make(map[string]int64)
	refused := make(map[string]int) // by what was asked: the first caller
	for i, c := range callers {
		switch {
		case !c.done:
			return fmt.Errorf("caller %d, %+v, has no answer", i, c.charges)
		case errors.Is(c.err, context.Canceled):
			continue
		case c.err != nil || len(c.got) != len(c.charges):
			return fmt.Errorf("caller %d: %v, %v", i, c.got, c.err)
		}
		for j, d := range c.got {
			used[c.charges[j].Key] += d.Granted
			if j > 0 && c.charges[j].Group == c.charges[0].Group && c.charges[0].N > 0 && (d.Granted == 0) != (c.got[0].Granted == 0) {
				return fmt.Errorf("caller %d: a group was granted in part: %+v", i, c.got)
			}
		}
		if left > 0 || c.charges[0].N == 0 {
			continue
		}
		what := fmt.Sprint(c.charges)
		if first, ok := refused[what]; ok && c.got[0].Granted > 0 {
			return fmt.Errorf("caller %d was refused %s, and later caller %d was not", first, what, i)
		} else if !ok && c.got[0].Granted == 0 {
			refused[what] = i
		}
		if len(c.charges) == 1 && c.got[0].Granted == 0 && below.used(c.charges[0].Key)+max(1, c.charges[0].N-c.charges[0].Unit) <= 10 {
			return fmt.Errorf("caller %d was refused %s, and %d of 10 are used", i, what, below.used(c.charges[0].Key))
		}
	}
	for _, k := range append(keys, "x") {
		if n := below.used(k); n != used[k] {
			return fmt.Errorf("%d tokens of %s were taken, and callers have %d", n, k, used[k])
		}
	}
	return nil
}

// A busy store takes a moment for each call.
type busy struct {
	*memory.Store
	calls atomic.Int64
}

func (b *busy) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	b.calls.Add(1)
	timer := time.NewTimer(50 * time.Microsecond)
	<-timer.C
	return b.Store.Take(ctx, dst, charges)
}

// TestConservation counts, with many callers of whom some give up, what was
// granted and what was taken.
func TestConservation(t *testing.T) {
	const (
		callers = 64
		rounds  = 150
		hot     = 2000
	)
	limit := sluice.Limit{Tokens: hot, Per: 366 * 24 * time.Hour, Algorithm: sluice.FixedWindow}
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint("patient ", patient), func(t *testing.T) {
			below := &busy{Store: memory.New(memory.Options{})}
			s := New(below, Options{})
			var granted [3]atomic.Int64
			var wg sync.WaitGroup
			for g := range callers {
				wg.Go(func() {
					random := rand.New(rand.NewPCG(uint64(g), 1))
					for range rounds {
						key := random.IntN(2)
						charges := []sluice.Charge{
							{Key: fmt.Sprint(key), Limit: limit, N: 1 + random.Int64N(2)},
							{Key: "2", Limit: limit, N: 1, Group: 1},
						}[:1+random.IntN(2)]
						ctx := t.Context()
						if !patient && random.IntN(3) == 0 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(500*time.Microsecond))))
							defer cancel()
						}
						decisions, err := s.Take(ctx, nil, charges)
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
							return
						}
						for i, d := range decisions {
							if d.Granted != 0 && d.Granted != charges[i].N {
								t.Errorf("%d of %d granted", d.Granted, charges[i].N)
							}
							granted[[]int{key, 2}[i]].Add(d.Granted)
						}
					}
				})
			}
			wg.Wait()
			s.Close() // what nobody took is given back now
			for key := range granted {
				d, err := below.Store.Take(t.Context(), nil, []sluice.Charge{{Key: fmt.Sprint(key), Limit: limit}})
				if err != nil {
					t.Fatal(err)
				}
				if n := granted[key].Load(); n != hot-d[0].Remaining || n > hot || patient && n < hot-1 {
					t.Errorf("key %d: %d granted, %d taken, of %d", key, n, hot-d[0].Remaining, hot)
				}
			}
			if n := below.calls.Load(); n > callers*rounds/2 {
				t.Errorf("%d decisions took %d calls", callers*rounds, n)
			}
		})
	}
}
