package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// An admission is what one decision let pass.
type admission struct {
	at time.Time
	n  int64
}

// excess returns how many tokens more than burst + rate x W were admitted in the
// worst window W, 0 at the least.
func excess(admissions []admission, limit sluice.Limit) float64 {
	rate := float64(limit.Tokens) / limit.Per.Seconds()
	worst, sum := 0.0, 0.0
	for i, a := range admissions {
		if i > 0 {
			// The best window ends before this admission, or goes on.
			sum = max(0, sum-rate*a.at.Sub(admissions[i-1].at).Seconds())
		}
		sum += float64(a.n)
		worst = max(worst, sum-float64(limit.Capacity()))
	}
	return worst
}

// A fault is how a store is away.
type fault int

const (
	refuses fault = iota // and keeps what it counted
	stalls
	restarts // empty
	lastFault
)

// A faulty store is away at times.
type faulty struct {
	mu     sync.Mutex
	down   bool
	fault  fault
	store  *memory.Store
	jitter func() time.Duration
}

func (f *faulty) do(ctx context.Context, call func(*memory.Store) error) error {
	if err := answersAfter(f.jitter())(nil, ctx); err != nil {
		return err
	}
	f.mu.Lock()
	down, fault, store := f.down, f.fault, f.store
	f.mu.Unlock()
	switch {
	case down && fault == stalls:
		return hangs(nil, ctx)
	case down:
		return errBroken
	}
	return call(store)
}

func (f *faulty) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) (out []sluice.Decision, err error) {
	out = dst
	err = f.do(ctx, func(s *memory.Store) (err error) {
		out, err = s.Take(ctx, dst, charges)
		return err
	})
	return out, err
}

func (f *faulty) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	return f.do(ctx, func(s *memory.Store) error { return s.Settle(ctx, settlements) })
}

func (f *faulty) set(down bool, fault fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down, f.fault = down, fault
	if down && fault == restarts {
		f.store = memory.New(memory.Options{})
	}
}

// An outage is one history: some instances, one limit, callers, and a store that
// is away once.
type outage struct {
	instances int
	limit     sluice.Limit
	every     time.Duration // between the calls of one instance, about
	away      time.Duration
	fault     fault
	unsettled bool // planted: nothing is settled
	unshared  bool // planted: everyone has the whole limit
}

// play returns all admissions, and how much the store admitted from
// 1.7 s after its return.
func (o *outage) play(t *testing.T, seed uint64) (all []admission, sources [4]int) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.Int64N(int64(d) + 1))
	}
	next := &faulty{store: memory.New(memory.Options{}), jitter: func() time.Duration { return random(2 * time.Millisecond) }}
	var ids []string
	for i := range o.instances {
		ids = append(ids, fmt.Sprint("instance ", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var back atomic.Bool
	for _, id := range ids {
		s := New(next, memory.New(memory.Options{}), Options{ID: id})
		s.fleet.Store(knownFleet(id, ids))
		if o.unsettled {
			s.settler = nil
		}
		if o.unshared {
			s.fleet.Store(unknownFleet(id, 1))
		}
		running.Go(func() { s.Run(ctx) })
		running.Go(func() {
			for ctx.Err() == nil {
				c := sluice.Charge{Key: "k", Limit: o.limit, N: 1}
				d, err := s.Take(t.Context(), nil, []sluice.Charge{c})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if d[0].Granted > 0 {
					all = append(all, admission{time.Now(), d[0].Granted})
				}
				if back.Load() {
					sources[d[0].Source]++
				}
				mu.Unlock()
				time.Sleep(random(2 * o.every))
			}
		})
	}
	time.Sleep(3*time.Second + random(time.Second))
	next.set(true, o.fault)
	time.Sleep(o.away)
	next.set(false, o.fault)
	time.Sleep(1700 * time.Millisecond)
	back.Store(true)
	time.Sleep(3 * time.Second)
	cancel()
	running.Wait()
	return all, sources
}

// randomOutage draws a history.
func randomOutage(rng *rand.Rand) outage {
	return outage{
		instances: []int{1, 1, 2, 3, 5, 12}[rng.IntN(6)],
		limit: []sluice.Limit{
			perSecond(10), perSecond(100),
			{Tokens: 50, Per: time.Second, Burst: 4},
			{Tokens: 20, Per: time.Second, Burst: 200},
			{Tokens: 2, Per: time.Second, Burst: 1},
		}[rng.IntN(5)],
		every: time.Duration(1+rng.IntN(20)) * time.Millisecond,
		away:  time.Duration(300+rng.IntN(4000)) * time.Millisecond, // nobody misses it
		fault: fault(rng.IntN(int(lastFault))),
	}
}

// over returns how many tokens more than the bound a history admitted: 2 x burst
// + rate x W, and for a fleet the rate in the time that its instances see the end
// of the outage apart.
func (o *outage) over(all []admission) float64 {
	apart := 520 * time.Millisecond
	if o.instances == 1 {
		apart = 0
	}
	rate := float64(o.limit.Tokens) / o.limit.Per.Seconds()
	return excess(all, o.limit) - float64(o.limit.Capacity()) - rate*apart.Seconds()
}

// Across an outage the bound holds in any window, and soon after it the store
// decides, with as much as it would have.
func TestBound(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	histories := 100
	if race {
		histories = 30
	}
	for i := range histories {
		o := randomOutage(rng)
		synctest.Test(t, func(t *testing.T) {
			all, sources := o.play(t, seed+uint64(i))
			if over := o.over(all); over > 1e-6 {
				t.Errorf("%+v: %.2f tokens over the bound", o, over)
			}
			if sources[sluice.SourceFallback] > 0 {
				t.Errorf("%+v: %d decisions from fallback 1.7s after the store was back", o, sources[sluice.SourceFallback])
			}
			if last := all[len(all)-1].at; time.Since(last) > time.Second {
				t.Errorf("%+v: nothing was admitted in the last %v: a ban", o, time.Since(last))
			}
		})
	}
}

// The check finds a guard that settles nothing, and one that does not divide.
func TestBoundNotices(t *testing.T) {
	for name, plant := range map[string]func(*outage){
		"unsettled": func(o *outage) { o.unsettled, o.fault = true, restarts },
		"unshared":  func(o *outage) { o.unshared = true },
	} {
		t.Run(name, func(t *testing.T) {
			o := outage{instances: 5, limit: perSecond(100), every: 3 * time.Millisecond, away: time.Second}
			plant(&o)
			synctest.Test(t, func(t *testing.T) {
				if all, _ := o.play(t, 1); o.over(all) < 10 {
					t.Errorf("%+v: %.2f tokens over the bound, want many", o, o.over(all))
				}
			})
		})
	}
}

func TestExcess(t *testing.T) {
	start := time.Now()
	at := func(ms int, n int64) admission {
		return admission{start.Add(time.Duration(ms) * time.Millisecond), n}
	}
	for _, tt := range []struct {
		name string
		all  []admission
		want float64
	}{
		{"nothing", nil, 0},
		{"a burst", []admission{at(0, 10)}, 0},
		{"a burst and a token too early", []admission{at(0, 10), at(50, 1)}, 0.5},
		{"a burst and a token in time", []admission{at(0, 10), at(100, 1)}, 0},
		{"long after a pause", []admission{at(0, 10), at(5000, 10), at(5000, 3)}, 3},
	} {
		if got := excess(tt.all, perSecond(10)); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%s: excess = %v, want %v", tt.name, got, tt.want)
		}
	}
}
