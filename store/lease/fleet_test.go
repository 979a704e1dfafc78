package lease

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

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

var errDown = errors.New("down")

// failingStore fails all that is asked of it.
type failingStore struct{ *truth }

func (failingStore) Take(_ context.Context, dst []sluice.Decision, _ []sluice.Charge) ([]sluice.Decision, error) {
	return dst, errDown
}

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		burst, tolerance int64
		instances        int
		want             int64
	}{
		{100_000, 10_000, 4, 250},
		{100_000, 10_000, 3, 333},
		{100, 10_000, 2, 0},
		{100, 10_000, 1, 1},
		{100, 10_000, 0, 0},
		{sluice.MaxTokens, sluice.MaxTolerance, 1, sluice.MaxTokens / 2},
	} {
		c := sluice.Charge{Limit: sluice.Limit{Tokens: 1, Per: time.Second, Burst: tt.burst}, Tolerance: tt.tolerance}
		if got := share(&c, tt.instances); got != tt.want {
			t.Errorf("%d millionths of %d for one of %d: %d, want %d", tt.tolerance, tt.burst, tt.instances, got, tt.want)
		}
	}
}

// The largest number of the last lease time counts.
func TestFleet(t *testing.T) {
	var f fleet
	for _, step := range []struct {
		at   time.Duration
		live int
		want int
	}{
		{0, 3, 3},
		{500, 5, 5},
		{900, 2, 5},
		{1000, 2, 5},
		{1499, 2, 5},
		{1999, 2, 5},
		{2000, 2, 2},
		{2100, 4, 4},
		{9000, 1, 1},
	} {
		if got := f.note(step.live, step.at*time.Millisecond, time.Second); got != step.want {
			t.Errorf("at %d ms with %d: %d, want %d", step.at, step.live, got, step.want)
		}
	}
}

// An instance leases once all others must have seen it, and not while it does not
// know that they do.
func TestVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var visible atomic.Int64
		s := New(newTruth(), Options{Fleet: func() (int, time.Duration) { return 2, time.Duration(visible.Load()) }})
		run(t, s)
		for _, step := range []struct {
			visible time.Duration
			leases  bool
		}{{0, false}, {10 * time.Second, false}, {11*time.Second - 1, false}, {11 * time.Second, true}, {0, false}} {
			visible.Store(int64(step.visible))
			time.Sleep(2 * time.Second) // notices; what is held ends
			before := s.Stats().Claims
			ask(t, s, hot, 1000, time.Millisecond)
			if leases := s.Stats().Claims > before; leases != step.leases {
				t.Errorf("visible for %v: leases %v", step.visible, leases)
			}
			if held := s.Stats().Held; held > 500 {
				t.Errorf("holds %d, more than its share", held)
			}
		}
	})
}

// A drain is what a token bucket admits: at most burst + rate x W in any window.
type drain struct {
	mu    sync.Mutex
	limit sluice.Limit
	debt  float64 // tokens
	last  time.Time
	worst float64
	total int64
}

func (d *drain) admit(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if !d.last.IsZero() {
		d.debt = max(0, d.debt-now.Sub(d.last).Seconds()*float64(d.limit.Tokens)/d.limit.Per.Seconds())
	}
	d.last, d.debt, d.total = now, d.debt+float64(n), d.total+n
	d.worst = max(d.worst, d.debt)
}

// Whatever instances ask, come, go and crash: never more than t x burst is held in
// advance, and no window admits more than (1 + t) x burst + rate x W.
func TestBound(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	below := newTruth()
	below.trip = time.Duration(r.IntN(4000)) * time.Microsecond
	c := sluice.Charge{Key: "k", N: 1, Tolerance: []int64{5_000, 10_000, 50_000, 200_000}[r.IntN(4)]}
	c.Limit = sluice.Limit{Tokens: 1000 + r.Int64N(20_000), Per: time.Second, Burst: 1000 + r.Int64N(20_000)}
	d := &drain{limit: c.Limit}
	most := c.Limit.Burst * c.Tolerance / million
	var live atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	var stores []*Store
	const instances = 5
	live.Store(instances)
	for i := range instances {
		s := New(below, Options{MaxKeys: 8, Fleet: func() (int, time.Duration) { return int(live.Load()), time.Hour }})
		stores = append(stores, s)
		life, end := context.WithTimeout(ctx, time.Duration(2+i)*time.Second)
		defer end()
		wait.Go(func() { s.Run(life); live.Add(-1) })
		for k := range 4 {
			seed := seed*100 + uint64(10*i+k)
			wait.Go(func() { wants(t, life, s, c, d, seed) })
		}
	}
	wait.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			held := below.outstanding()
			for _, s := range stores {
				held -= s.Stats().Spent
			}
			if held > most {
				t.Errorf("%d tokens are held or on their way back, at most %d may be", held, most)
				cancel()
			}
		}
	})
	wait.Wait()
	if over := d.worst - float64(c.Limit.Burst+most); over > 0 {
		t.Errorf("%.1f over the bound", over)
	}
	spent := int64(0)
	for _, s := range stores {
		spent += s.Stats().Spent
	}
	if spent < d.total/4 || below.claimed != spent {
		t.Errorf("%d of %d from leases, %d claimed and not given back", spent, d.total, below.claimed)
	}
}

// wants asks at a rate that changes, as one caller.
func wants(t *testing.T, ctx context.Context, s *Store, c sluice.Charge, d *drain, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	for ctx.Err() == nil {
		pace := time.Duration(r.ExpFloat64() * float64(1500*time.Microsecond))
		for until := time.Now().Add(time.Duration(r.IntN(500)) * time.Millisecond); time.Now().Before(until) && ctx.Err() == nil; {
			c.N = 1 + r.Int64N(3)
			got, err := s.Take(t.Context(), nil, []sluice.Charge{c})
			if err != nil {
				t.Error(err)
				return
			}
			if got[0].Allowed {
				d.admit(c.N)
			}
			time.Sleep(pace + time.Microsecond)
		}
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	}
}

// The contract holds as it is where nothing may be leased.
func TestContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{New: func() (sluice.Store, error) {
		s := New(memory.New(memory.Options{}), Options{})
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		wait.Go(func() { s.Run(ctx) })
		t.Cleanup(func() { cancel(); wait.Wait() })
		return s, nil
	}})
}
