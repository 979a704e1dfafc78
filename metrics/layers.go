package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-limiter/sluice"
)

// Layers reads the layers of a stack at each scrape. A function that is nil is
// of a layer that is not there; its metrics are not shown. They are called from
// the goroutines of scrapes, must not block, and return totals since the start.
type Layers struct {
	Breakers    func() []Breaker
	Fallbacks   func() Fallbacks
	Instances   func() int // that live, this one too
	Settlements func() Settlements
	Lease       func() Lease
	Memory      func() Memory
	Coalesce    func() Coalesce
}

// A BreakerState says whether a node is asked.
type BreakerState uint8

// The states of a breaker; the zero value is closed.
const (
	BreakerClosed   BreakerState = iota // every call goes through
	BreakerHalfOpen                     // single calls probe the node
	BreakerOpen                         // no call goes through
)

var breakerStates = [...]string{"closed", "half_open", "open"}

// A Breaker stands before one node of the store.
type Breaker struct {
	Node  string // its address, by configuration or cluster; never of a client
	State BreakerState
	Opens int64 // times that it opened
}

// Fallbacks counts the decisions made while the store did not answer, by the
// limits' failure modes.
type Fallbacks struct {
	Local, Allow, Deny int64
}

// Settlements counts what was settled into the store after an outage.
type Settlements struct {
	Settled int64 // taken by the store
	Lost    int64 // tried once and failed: the store admits that much more
}

// Lease says what becomes of tokens claimed in advance. All but Claims are
// tokens.
type Lease struct {
	Claims   int64 // calls of the store
	Claimed  int64 // debited there
	Spent    int64 // of them, by requests
	Returned int64 // of them, given back
	Lost     int64 // of them, whose give-back failed
	Held     int64 // now
	Active   bool  // this instance may lease
}

// Memory says how the counters in this process stand: the truth without Redis,
// else those of the fallback.
type Memory struct {
	Keys    int   // counters kept now
	Evicted int64 // counters that made room before they were full again
}

// Coalesce says how much shares a round trip.
type Coalesce struct {
	Calls   int64 // sent to the store
	Charges int64 // asked by callers and answered through these calls
}

// Watch shows these layers in place of those it was given before. It may be
// called from many goroutines.
func (m *Metrics) Watch(l Layers) { m.layers.now.Store(&l) }

// layers collects what Layers reads.
type layers struct {
	now atomic.Pointer[Layers]

	breakerState, breakerOpens   *prometheus.Desc
	fallbacks                    *prometheus.Desc
	instances                    *prometheus.Desc
	settlements                  *prometheus.Desc
	leaseClaims, leaseTokens     *prometheus.Desc
	leaseHeld, leaseActive       *prometheus.Desc
	memoryKeys, memoryEvictions  *prometheus.Desc
	coalesceCalls, coalesceTaken *prometheus.Desc
}

func newLayers() *layers {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	l := &layers{
		breakerState: desc("sluice_breaker_state",
			"1 for the state that the breaker of a store node is in, 0 for the others. closed: all is well. open: the node failed repeatedly and is not asked, limits follow their on_store_failure. half_open: single calls probe it.",
			"node", "state"),
		breakerOpens: desc("sluice_breaker_opens_total",
			"How often the breaker of a store node opened, which means the node failed repeatedly.", "node"),
		fallbacks: desc("sluice_fallback_decisions_total",
			"Decisions made without the store because it did not answer in time, by the limit's on_store_failure: local (counted in this process), allow (passed uncounted), deny (refused with 503). The second figure to watch: it should stay at zero.",
			"mode"),
		instances: desc("sluice_live_instances",
			"Instances of Sluice that this one knows to be alive, itself too. During an outage of the store each gives out its share of a limit, so a wrong number means wrong limits then."),
		settlements: desc("sluice_settlements_total",
			"Local counters brought into the store after an outage: settled, or lost because the one attempt failed (their keys then had that much for free).",
			"result"),
		leaseClaims: desc("sluice_lease_claims_total",
			"Calls of the store that claimed tokens in advance, for limits with a tolerance. Divided by the decisions from leases, what a decision costs."),
		leaseTokens: desc("sluice_lease_tokens_total",
			"What became of tokens claimed in advance: claimed (debited in the store), spent (by requests), returned (unspent, given back), lost (unspent, the one give-back failed: they refill).",
			"event"),
		leaseHeld: desc("sluice_lease_held_tokens",
			"Tokens claimed in advance that this instance holds now. All instances together hold at most the tolerance times the burst of each limit."),
		leaseActive: desc("sluice_lease_active",
			"1 while this instance may lease: it beats, and all others must have heard of it. 0 for some ten seconds after a start, and while its heartbeats fail; decisions are then asked of the store one by one."),
		memoryKeys: desc("sluice_memory_keys",
			"Counters kept in this process now: all of them without Redis, else those of the fallback. The number is bounded."),
		memoryEvictions: desc("sluice_memory_evictions_total",
			"Counters in this process that made room for others before they were full again: their keys got a fresh limit too early. Should stay at zero."),
		coalesceCalls: desc("sluice_coalesce_calls_total",
			"Calls that went to the store after those that can share one were joined."),
		coalesceTaken: desc("sluice_coalesce_charges_total",
			"Charges that callers asked for and that these calls carried; divided by sluice_coalesce_calls_total, how many share a round trip."),
	}
	return l
}

// Describe implements [prometheus.Collector].
func (l *layers) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		l.breakerState, l.breakerOpens, l.fallbacks, l.instances, l.settlements,
		l.leaseClaims, l.leaseTokens, l.leaseHeld, l.leaseActive, l.memoryKeys, l.memoryEvictions, l.coalesceCalls, l.coalesceTaken,
	} {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector].
func (l *layers) Collect(ch chan<- prometheus.Metric) {
	now := l.now.Load()
	if now == nil {
		return
	}
	count := func(desc *prometheus.Desc, n int64, labels ...string) {
		send(ch, desc, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(desc *prometheus.Desc, n int) {
		send(ch, desc, prometheus.GaugeValue, float64(n))
	}
	if now.Breakers != nil {
		l.collectBreakers(ch, now.Breakers())
	}
	if now.Fallbacks != nil {
		n := now.Fallbacks()
		count(l.fallbacks, n.Local, sluice.FailLocal.String())
		count(l.fallbacks, n.Allow, sluice.FailAllow.String())
		count(l.fallbacks, n.Deny, sluice.FailDeny.String())
	}
	if now.Instances != nil {
		gauge(l.instances, now.Instances())
	}
	if now.Settlements != nil {
		n := now.Settlements()
		count(l.settlements, n.Settled, "settled")
		count(l.settlements, n.Lost, "lost")
	}
	if now.Lease != nil {
		l.collectLease(ch, now.Lease())
	}
	if now.Memory != nil {
		n := now.Memory()
		count(l.memoryEvictions, n.Evicted)
		gauge(l.memoryKeys, n.Keys)
	}
	if now.Coalesce != nil {
		n := now.Coalesce()
		count(l.coalesceCalls, n.Calls)
		count(l.coalesceTaken, n.Charges)
	}
}

func (l *layers) collectLease(ch chan<- prometheus.Metric, n Lease) {
	send(ch, l.leaseClaims, prometheus.CounterValue, float64(n.Claims))
	send(ch, l.leaseHeld, prometheus.GaugeValue, float64(n.Held))
	active := 0.0
	if n.Active {
		active = 1
	}
	send(ch, l.leaseActive, prometheus.GaugeValue, active)
	for event, tokens := range map[string]int64{"claimed": n.Claimed, "spent": n.Spent, "returned": n.Returned, "lost": n.Lost} {
		send(ch, l.leaseTokens, prometheus.CounterValue, float64(tokens), event)
	}
}

// collectBreakers shows each node once: a second breaker of one node would spoil
// the whole family.
func (l *layers) collectBreakers(ch chan<- prometheus.Metric, breakers []Breaker) {
	seen := make(map[string]bool, len(breakers))
	for _, b := range breakers {
		if seen[b.Node] {
			continue
		}
		seen[b.Node] = true
		send(ch, l.breakerOpens, prometheus.CounterValue, float64(b.Opens), b.Node)
		for state, name := range breakerStates {
			in := 0.0
			if BreakerState(state) == b.State {
				in = 1
			}
			send(ch, l.breakerState, prometheus.GaugeValue, in, b.Node, name)
		}
	}
}
