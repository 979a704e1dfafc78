package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/lease"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/shard"
)

// A distant store is a round trip away.
type distant struct{ *memory.Store }

func (s distant) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	time.Sleep(200 * time.Microsecond)
	dst, err := s.Store.Take(ctx, dst, charges)
	time.Sleep(200 * time.Microsecond)
	return dst, err
}

// Of these each request charges some, in one group or several.
var limits = []sluice.Charge{
	{Key: "bucket", Limit: sluice.Limit{Tokens: 3000, Per: time.Second, Burst: 1000}, Tolerance: 100_000},
	{Key: "window", Limit: sluice.Limit{Tokens: 2500, Per: time.Second, Algorithm: sluice.FixedWindow}, Tolerance: 100_000},
	{Key: "spread", Limit: sluice.Limit{Tokens: 4000, Per: time.Second, Burst: 2000}, Tolerance: 100_000, Shards: 3},
	{Key: "exact", Limit: sluice.Limit{Tokens: 2000, Per: time.Second, Burst: 500}},
}

// Leases under remembered refusals and shards, asked by several instances in
// groups of all kinds: no limit is exceeded, and each gives what it has.
func TestWithOtherLayers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { askTogether(t, seed) })
		})
	}
}

func askTogether(t *testing.T, seed uint64) {
	below := distant{memory.New(memory.Options{})}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	counts := newCounts()
	var leases []*lease.Store
	for i := range 3 {
		l := lease.New(below, lease.Options{MaxKeys: 64, Fleet: func() (int, time.Duration) { return 3, time.Hour }})
		leases = append(leases, l)
		top := shard.New(denied.New(l, denied.Options{}))
		life, end := context.WithTimeout(ctx, time.Duration(4+i)*time.Second)
		defer end()
		wait.Go(func() { l.Run(life) })
		for k := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(10*i+k)))
			wait.Go(func() { counts.ask(t, life, top, r) })
		}
	}
	wait.Wait()
	counts.check(t)
	stats := lease.Stats{}
	for _, l := range leases {
		s := l.Stats()
		stats.Spent += s.Spent
		stats.Claimed += s.Claimed
		stats.Returned += s.Returned
		stats.Lost += s.Lost
	}
	if stats.Spent == 0 || stats.Claimed != stats.Spent+stats.Returned+stats.Lost {
		t.Errorf("tokens were neither spent nor given back nor lost: %+v", stats)
	}
}

// counts is what was admitted of each limit.
type counts struct {
	mu     sync.Mutex
	debts  map[string]float64 // of buckets, draining
	last   map[string]time.Time
	worst  map[string]float64
	window map[time.Time]int64
	total  map[string]int64
}

func newCounts() *counts {
	return &counts{
		debts: make(map[string]float64), last: make(map[string]time.Time), worst: make(map[string]float64),
		window: make(map[time.Time]int64), total: make(map[string]int64),
	}
}

// ask is one caller, who asks much at times and little at others.
func (n *counts) ask(t *testing.T, ctx context.Context, s sluice.Store, r *rand.Rand) {
	for ctx.Err() == nil {
		pace := time.Duration(1+r.IntN(1500)) * time.Microsecond
		for until := time.Now().Add(time.Duration(r.IntN(700)) * time.Millisecond); time.Now().Before(until) && ctx.Err() == nil; time.Sleep(pace) {
			charges := draw(r)
			sent := time.Now()
			got, err := s.Take(t.Context(), nil, charges)
			if err != nil {
				t.Error(err)
				return
			}
			n.note(t, charges, got, sent)
		}
		time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
	}
}

func draw(r *rand.Rand) []sluice.Charge {
	var charges []sluice.Charge
	group := 0
	for _, i := range r.Perm(len(limits))[:1+r.IntN(len(limits))] {
		c := limits[i]
		c.N, c.Group = 1+r.Int64N(4), group
		charges = append(charges, c)
		group = (group + r.IntN(2)) % 2 // also one number twice, apart
	}
	return charges
}

func (n *counts) note(t *testing.T, charges []sluice.Charge, got []sluice.Decision, sent time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for first := 0; first < len(charges); {
		end, granted := first, 0
		for ; end < len(charges) && charges[end].Group == charges[first].Group; end++ {
			if d := got[end]; d.Granted == charges[end].N {
				granted++
			} else if d.Granted != 0 {
				t.Errorf("%d of %d granted", d.Granted, charges[end].N)
			}
		}
		if granted != 0 && granted != end-first {
			t.Errorf("%d of a group of %d passed: %+v", granted, end-first, got)
		}
		for ; first < end; first++ {
			n.admit(&charges[first], got[first].Granted, sent, now)
		}
	}
}

func (n *counts) admit(c *sluice.Charge, granted int64, sent, now time.Time) {
	n.total[c.Key] += granted
	if c.Limit.Algorithm == sluice.FixedWindow {
		if window := now.Truncate(c.Limit.Per); window.Equal(sent.Truncate(c.Limit.Per)) {
			n.window[window] += granted
		}
		return
	}
	rate := float64(c.Limit.Tokens) / c.Limit.Per.Seconds()
	if last, ok := n.last[c.Key]; ok {
		n.debts[c.Key] = max(0, n.debts[c.Key]-now.Sub(last).Seconds()*rate)
	}
	n.last[c.Key] = now
	n.debts[c.Key] += float64(granted)
	n.worst[c.Key] = max(n.worst[c.Key], n.debts[c.Key])
}

// trip is how much later than by the store's time an admission may be counted.
const trip = 400 * time.Microsecond

func (n *counts) check(t *testing.T) {
	for i := range limits {
		c := &limits[i]
		if n.total[c.Key] < 3000 {
			t.Errorf("%s: only %d passed", c.Key, n.total[c.Key])
		}
		if c.Limit.Algorithm == sluice.FixedWindow {
			continue
		}
		bound := float64(c.Limit.Capacity())*(1+float64(c.Tolerance)/1e6) + 2*trip.Seconds()*float64(c.Limit.Tokens)
		if over := n.worst[c.Key] - bound; over > 1 {
			t.Errorf("%s: %.0f over the bound", c.Key, over)
		}
	}
	for window, granted := range n.window {
		if granted > 2500 {
			t.Errorf("%d of 2500 passed in the window at %v", granted, window)
		}
	}
}
