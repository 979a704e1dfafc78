package lab

import (
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
	// Hot is how many requests a second one more tenant makes.
	Hot int
	// Instances is how many there are at the beginning, and at each tenth of the
	// run; the last number stays.
	Instances []int
	Skew      time.Duration // the most that clocks of instances are off, either way
	Outage    span
	Wrong     wrong
	Seed      uint64
}

const hotTenant = "hot"

// simLimits are those of a simulation: one for each tenant, exact but for that
// of the hot one, and one for all.
func simLimits() []policy.Limit {
	perSecond := func(tokens, burst int64) sluice.Limit {
		return sluice.Limit{Tokens: tokens, Per: time.Second, Burst: burst}
	}
	return []policy.Limit{
		{
			Name: "tenant", Key: []string{"tenant"}, Default: perSecond(100, 200),
			Overrides: []policy.Rule{{
				Match: []policy.Condition{{Attribute: "tenant", Patterns: []string{hotTenant}}},
				Limit: perSecond(10_000, 20_000), Tolerance: 50_000,
			}},
		},
		{Name: "everyone", Default: perSecond(45_000, 60_000), Tolerance: 10_000},
	}
}

// A simRun is a simulation under way.
type simRun struct {
	Simulation
	store *simStore
	set   *policy.Set
	rand  *rand.Rand
	names []string

	live   []*simInstance
	made   int
	ending sync.WaitGroup // instances that stop

	mu       sync.Mutex
	tenants  map[string][]Admission
	everyone []Admission
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
func (r *simRun) run() {
	r.scale(r.Instances[0])
	time.Sleep(3 * simTTL)
	var traffic sync.WaitGroup
	zipf := rand.NewZipf(r.rand, 1.1, 1, uint64(r.Tenants-1))
	whole := time.Duration(r.Seconds) * time.Second
	began := time.Now()
	hot := time.Duration(0)
	tenth := 0
	for at := time.Duration(0); at < whole; at += time.Duration(r.rand.ExpFloat64() * float64(time.Second) / float64(r.Rate)) {
		time.Sleep(at - time.Since(began))
		if now := int(10 * at / whole); now > tenth {
			tenth = now
			r.scale(r.Instances[min(tenth, len(r.Instances)-1)])
		}
		r.request(&traffic, r.names[zipf.Uint64()])
		for ; r.Hot > 0 && hot < at; hot += time.Second / time.Duration(r.Hot) {
			r.request(&traffic, hotTenant)
		}
	}
	traffic.Wait()
	r.scale(0)
	r.ending.Wait()
}

// scale starts or stops instances until there are n.
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
		r.ending.Go(r.live[0].close)
		r.live = r.live[1:]
	}
}

// request sends one request to any instance and records what it is told.
func (r *simRun) request(traffic *sync.WaitGroup, tenant string) {
	x := r.live[r.rand.IntN(len(r.live))]
	x.requests.Add(1)
	traffic.Go(func() {
		defer x.requests.Done()
		sent := time.Since(r.store.epoch)
		allowed, fallback, err := x.decide(tenant)
		answered := time.Since(r.store.epoch)
		r.record(tenant, Admission{Sent: sent, Answered: answered, N: 1}, allowed, fallback, err)
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
	}
	if fallback {
		r.fallback++
	}
}

// over returns how many admissions break the limits' bounds: those of a token
// bucket, more by the tolerance where a limit has one, and by a burst where the
// store was away.
func (r *simRun) over() int {
	bursts := int64(1)
	if r.Outage.to > 0 {
		bursts = 2
	}
	over := 0
	for i := range r.set.Limits() {
		l := &r.set.Limits()[i]
		if len(l.Key) == 0 {
			over += len(leasedBound(l.Default, l.Tolerance, bursts).Over(r.everyone))
			continue
		}
		for tenant, admissions := range r.tenants {
			b := leasedBound(l.Default, l.Tolerance, bursts)
			if tenant == hotTenant {
				b = leasedBound(l.Overrides[0].Limit, l.Overrides[0].Tolerance, bursts)
			}
			over += len(b.Over(admissions))
		}
	}
	return over
}

// leasedBound is the bound of a limit that may be leased: (1 + t) x burst.
func leasedBound(l sluice.Limit, tolerance, bursts int64) Bound {
	b := BoundOf(l, bursts)
	b.Burst += bursts * l.Capacity() * tolerance / 1_000_000
	return b
}
