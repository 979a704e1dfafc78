package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// A Simulation is a fleet under traffic in virtual time: the code that a server
// runs, a simulated network and a model of Redis. The seed decides the traffic
// and the network; which of several goroutines goes first at one instant it does
// not, so that counts of calls differ a little from run to run.
type Simulation struct {
	Name    string
	Seconds int
	Rate    int // requests a second, of tenants by a Zipf distribution of 1.1
	Tenants int
	// Hot is how many tokens a second one more tenant asks for, in bursts of up
	// to twice that.
	Hot int
	// Instances is how many there are at the beginning, and at each tenth of the
	// run; the last number stays.
	Instances []int
	Skew      time.Duration // the most that clocks of instances are off, either way
	Outage    span
	Wrong     wrong
	Seed      uint64
}

const (
	hotTenant = "hot"
	hotOn     = 300 * time.Millisecond
	hotOff    = 450 * time.Millisecond
	hotLong   = 1100 * time.Millisecond
)

// simLimits are those of a simulation: one for each tenant, exact but for that of
// the hot one; one in windows for the hot tenant; and one for all.
func simLimits() []policy.Limit {
	hot := []policy.Condition{{Attribute: "tenant", Patterns: []string{hotTenant}}}
	perSecond := func(tokens, burst int64) sluice.Limit {
		return sluice.Limit{Tokens: tokens, Per: time.Second, Burst: burst}
	}
	return []policy.Limit{
		{
			Name: "tenant", Key: []string{"tenant"}, Default: perSecond(100, 200),
			Overrides: []policy.Rule{{Match: hot, Limit: perSecond(10_000, 4000), Tolerance: 200_000}},
		},
		{
			Name: "window", Match: hot, Tolerance: 50_000,
			Default: sluice.Limit{Tokens: 40_000, Per: 10 * time.Second, Algorithm: sluice.FixedWindow},
		},
		{Name: "everyone", Default: perSecond(25_000, 30_000), Tolerance: 50_000},
	}
}

// A simRun is a simulation under way.
type simRun struct {
	Simulation
	store *simStore
	set   *policy.Set
	rand  *rand.Rand
	names []string

	live    []*simInstance
	made    int
	stopped int
	ending  sync.WaitGroup // instances that stop

	mu       sync.Mutex
	tenants  map[string][]Admission
	everyone []Admission
	admitted int64 // tokens
	waits    []time.Duration
	fallback int
	errs     []error
}

func (s Simulation) start(set *policy.Set) *simRun {
	r := &simRun{
		Simulation: s,
		set:        set,
		rand:       rand.New(rand.NewPCG(s.Seed, 0)),
		tenants:    make(map[string][]Admission),
		names:      make([]string, s.Tenants),
	}
	for i := range r.names {
		r.names[i] = fmt.Sprintf("tenant-%06d", i)
	}
	if s.Outage.to > 0 {
		r.store = newSimStore(s.Wrong, s.Outage)
	} else {
		r.store = newSimStore(s.Wrong)
	}
	return r
}

// run lets the fleet meet its traffic. The first seconds are for the instances
// to see each other; they are not counted.
func (r *simRun) run(ctx context.Context) {
	r.scale(r.Instances[0])
	time.Sleep(warming)
	var traffic sync.WaitGroup
	zipf := rand.NewZipf(r.rand, 1.1, 1, uint64(r.Tenants-1))
	whole := time.Duration(r.Seconds) * time.Second
	began := time.Now()
	hot := time.Duration(0)
	tenth := 0
	for at := time.Duration(0); at < whole && ctx.Err() == nil; at += time.Duration(r.rand.ExpFloat64() * float64(time.Second) / float64(r.Rate)) {
		time.Sleep(at - time.Since(began))
		if now := int(10 * at / whole); now > tenth {
			tenth = now
			r.scale(r.Instances[min(tenth, len(r.Instances)-1)])
		}
		r.request(&traffic, r.names[zipf.Uint64()], 1)
		for r.Hot > 0 && hot < at {
			hot = r.askHot(&traffic, hot)
		}
	}
	traffic.Wait()
	r.scale(0)
	r.ending.Wait()
}

// warming is how long instances see each other before there is traffic.
const warming = 3 * simTTL

// askHot makes the hot tenant's request that is due at a time, and returns when
// the next one is. It asks for little, which leaves leases that are not spent; for
// much once its bucket is full; and pauses until leases are given back.
func (r *simRun) askHot(traffic *sync.WaitGroup, at time.Duration) time.Duration {
	const cycle = hotOn + hotOff + hotOn + hotLong
	rate := r.Hot / 4
	switch in := at % cycle; {
	case in >= cycle-hotLong:
		return at - in + cycle
	case in >= hotOn+hotOff:
		rate = 2 * r.Hot
	case in >= hotOn:
		return at - in + hotOn + hotOff
	}
	cost := 1 + r.rand.Int64N(3)
	r.request(traffic, hotTenant, cost)
	return at + time.Duration(cost)*time.Second/time.Duration(rate)
}

// scale starts or stops instances until there are n. Every third that stops
// crashes.
func (r *simRun) scale(n int) {
	for len(r.live) < n {
		skew := time.Duration(0)
		if r.Skew > 0 {
			skew = time.Duration(r.rand.Int64N(int64(2*r.Skew))) - r.Skew
		}
		r.live = append(r.live, newSimInstance(r.made, r.Instances[0], r.store, r.set, skew, r.Seed))
		r.made++
	}
	for len(r.live) > n {
		end := r.live[0].close
		if r.stopped%3 == 2 {
			end = r.live[0].crash
		}
		r.stopped++
		r.ending.Go(end)
		r.live = r.live[1:]
	}
}

// request sends one request to any instance and records what it is told.
func (r *simRun) request(traffic *sync.WaitGroup, tenant string, cost int64) {
	x := r.live[r.rand.IntN(len(r.live))]
	x.requests.Add(1)
	traffic.Go(func() {
		defer x.requests.Done()
		sent := time.Since(r.store.epoch)
		allowed, fallback, err := x.decide(tenant, cost)
		answered := time.Since(r.store.epoch)
		if !x.crashed.Load() {
			r.record(tenant, Admission{Sent: sent, Answered: answered, N: cost}, allowed, fallback, err)
		}
	})
}

func (r *simRun) record(tenant string, a Admission, allowed, fallback bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = append(r.waits, a.Answered-a.Sent)
	switch {
	case err != nil:
		r.errs = append(r.errs, err)
	case allowed:
		r.tenants[tenant] = append(r.tenants[tenant], a)
		r.everyone = append(r.everyone, a)
		r.admitted += a.N
	}
	if fallback {
		r.fallback++
	}
}
