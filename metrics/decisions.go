package metrics

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// An outcome is what one limit said.
type outcome uint8

const (
	allowed outcome = iota
	refused
	shadowRefused
	outcomes
)

var outcomeNames = [outcomes]string{"allowed", "refused", "shadow_refused"}

// sources is the number of sources known; one that is not counts as other.
const sources = int(sluice.SourceFallback) + 1

func sourceName(s int) string {
	if s == sources {
		return "other"
	}
	return sluice.Source(s).String()
}

// counts are the decisions of one limit.
type counts struct {
	decisions [outcomes][sources + 1]atomic.Int64
	unlimited atomic.Int64
}

// A roster holds the counts of the limits in force. It is immutable but for
// them. Counts go by a limit's name from one roster to the next.
type roster struct {
	set     *policy.Set
	byLimit map[*policy.Limit]*counts
	byName  map[string]*counts
}

// succeed returns the roster of another set; limits that are not in it are
// forgotten.
func (r *roster) succeed(set *policy.Set) *roster {
	next := &roster{set: set, byLimit: make(map[*policy.Limit]*counts), byName: make(map[string]*counts)}
	if set == nil {
		return next
	}
	limits := set.Limits()
	for i := range limits {
		l := &limits[i]
		c := r.byName[l.Name]
		if c == nil {
			c = new(counts)
		}
		next.byLimit[l], next.byName[l.Name] = c, c
	}
	return next
}

// counts returns those of a limit, or nil if it is no longer in force. A verdict
// that was reached just before a reload names a limit of the set before.
func (r *roster) counts(l *policy.Limit) *counts {
	if c := r.byLimit[l]; c != nil {
		return c
	}
	return r.byName[l.Name]
}

// decisions counts verdicts. It is a collector of the counts by limit, since
// the series of limits come and go with the configuration.
type decisions struct {
	classifier
	desc    *prometheus.Desc
	current atomic.Pointer[func() *policy.Set]
	roster  atomic.Pointer[roster]

	requests, undecided  *prometheus.CounterVec
	passed, turned, none prometheus.Counter // of requests
	reasons              [kinds]prometheus.Counter
}

func newDecisions(c classifier) *decisions {
	d := &decisions{
		classifier: c,
		desc: prometheus.NewDesc("sluice_decisions_total",
			"What each limit said, by its name, its outcome (allowed, refused, shadow_refused, or unlimited by rule) and who said it: "+
				"store (the truth), denied (a refusal remembered), lease (tokens claimed in advance), fallback (the store did not answer), "+
				"none (nobody needed to). A request counts once for each limit that it meets.",
			[]string{"limit", "outcome", "source"}, nil),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_requests_total",
			Help: "Requests by what all their limits together said: allowed, refused, or undecided because of an error.",
		}, []string{"outcome"}),
		undecided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_requests_undecided_total",
			Help: "Requests that got an error in place of a verdict. But for the kinds cost and canceled, which are the callers' doing, this should stay at zero: the failure rules answer while the store is away. " + kindsHelp,
		}, []string{"kind"}),
	}
	d.roster.Store(new(roster))
	d.passed = d.requests.WithLabelValues("allowed")
	d.turned = d.requests.WithLabelValues("refused")
	d.none = d.requests.WithLabelValues("undecided")
	for k := range d.reasons {
		d.reasons[k] = d.undecided.WithLabelValues(kindNames[k])
	}
	return d
}

// Observer returns a function to be told every verdict, or the error in place
// of one, such as httplimit's Observe: it counts requests, and decisions by
// limit. The limits are those of the set that current returns, such as an
// engine's Set: it is called for each verdict and each scrape, from many
// goroutines, so it must be cheap, and it must not go back to a set from before.
// When it returns another set, limits that have gone lose their series and
// those that stay keep their counts.
//
// There is one current: a second call of Observer replaces it for all. The
// function allocates nothing, keeps neither the request nor the verdict, and
// may be called from many goroutines.
func (m *Metrics) Observer(current func() *policy.Set) func(*http.Request, *policy.Verdict, error) {
	m.decisions.current.Store(&current)
	return m.decisions.observe
}

func (d *decisions) observe(_ *http.Request, v *policy.Verdict, err error) {
	if err != nil {
		d.none.Inc()
		d.reasons[d.kindOf(err)].Inc()
		return
	}
	if v.Allowed {
		d.passed.Inc()
	} else {
		d.turned.Inc()
	}
	r := d.inForce()
	for i := range v.Results {
		result := &v.Results[i]
		if c := r.counts(result.Limit); c != nil {
			source := min(int(result.Decision.Source), sources)
			c.decisions[outcomeOf(result)][source].Add(1)
		}
	}
	for i := range v.Unlimited {
		if c := r.counts(v.Unlimited[i].Limit); c != nil {
			c.unlimited.Add(1)
		}
	}
}

func outcomeOf(r *policy.Result) outcome {
	switch {
	case r.Decision.Allowed:
		return allowed
	case r.Limit.Shadow:
		return shadowRefused
	}
	return refused
}

// inForce returns the roster of the current set. The roster is read before the
// set, so that one that is put in its place is never of an older set.
func (d *decisions) inForce() *roster {
	for {
		r := d.roster.Load()
		current := d.current.Load()
		if current == nil {
			return r
		}
		set := (*current)()
		if r.set == set {
			return r
		}
		if next := r.succeed(set); d.roster.CompareAndSwap(r, next) {
			return next
		}
	}
}

// Describe implements [prometheus.Collector].
func (d *decisions) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect implements [prometheus.Collector].
func (d *decisions) Collect(ch chan<- prometheus.Metric) {
	for l, c := range d.inForce().byLimit {
		refusal := refused
		if l.Shadow {
			refusal = shadowRefused
		}
		for o := range outcomes {
			for s := range c.decisions[o] {
				// The usual series are there from the start, the others once
				// there is something to count.
				usual := s == int(sluice.SourceStore) && (o == allowed || o == refusal)
				if n := c.decisions[o][s].Load(); n > 0 || usual {
					send(ch, d.desc, prometheus.CounterValue, float64(n), l.Name, outcomeNames[o], sourceName(s))
				}
			}
		}
		if n := c.unlimited.Load(); n > 0 {
			send(ch, d.desc, prometheus.CounterValue, float64(n), l.Name, "unlimited", "none")
		}
	}
}

// send hands on one value, or what keeps it from being shown.
func send(ch chan<- prometheus.Metric, desc *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
	metric, err := prometheus.NewConstMetric(desc, t, v, labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	ch <- metric
}
