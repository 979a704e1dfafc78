// Package metrics shows what a stack of stores does: Prometheus metrics of how
// long decisions take, how they end and who made them, in a registry of their
// own. docs/metrics.md lists all of them and what to alert on.
//
// Labels come from the configuration and from this code, never from a request:
// whoever calls, the number of series stays as it is.
package metrics

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options describe the program. The zero value is ready to use.
type Options struct {
	// Version and Revision say what is running, in sluice_build_info; "":
	// unknown.
	Version, Revision string
	// NativeHistograms adds to the classic buckets of all latencies those of
	// native histograms, for servers that ask for them.
	NativeHistograms bool
	// Away are the errors, found by errors.Is, by which the stores below say
	// that they are not connected, such as redis.ErrAway: they count as
	// connection_lost unless what they wrap says more.
	Away []error
	// Logger is told of metrics that could not be served; nil: nobody is.
	Logger *slog.Logger
}

// Metrics is a registry and what fills it. It may be used from many goroutines.
// Make one with [New].
type Metrics struct {
	o         Options
	registry  *prometheus.Registry
	start     time.Time // of the clock that latencies are read from
	decisions *decisions
	layers    *layers
	rules     *rules

	mu        sync.Mutex                      // held while an instrument is made
	calls     map[string]*instruments         // by their part of the name
	latencies map[string]prometheus.Histogram // the same
}

// New returns metrics that show the program and its process, and what is
// hooked into them later.
func New(o Options) *Metrics {
	m := &Metrics{
		o:         o,
		registry:  prometheus.NewRegistry(),
		start:     time.Now(),
		decisions: newDecisions(classifier{o.Away}),
		layers:    newLayers(),
		rules:     newRules(),
		calls:     make(map[string]*instruments),
		latencies: make(map[string]prometheus.Histogram),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info",
		Help: "Always 1. The labels say which version runs: after a rollout all instances should show the same.",
		ConstLabels: prometheus.Labels{
			"version":   known(o.Version),
			"revision":  known(o.Revision),
			"goversion": runtime.Version(),
		},
	})
	build.Set(1)
	m.registry.MustRegister(
		build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.decisions, m.decisions.requests, m.decisions.undecided,
		m.layers, m.rules,
	)
	return m
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Registry returns the registry, so that a program can show metrics of its own
// beside these.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics as Prometheus reads them. Should one of them fail,
// the others are served all the same.
func (m *Metrics) Handler() http.Handler {
	o := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	if m.o.Logger != nil {
		o.ErrorLog = slog.NewLogLogger(m.o.Logger.Handler(), slog.LevelError)
	}
	return promhttp.HandlerFor(m.registry, o)
}

// Latency returns a function that an edge tells how long it took to admit or to
// refuse a request, as sluice_decision_duration_seconds: reading who asks, the
// decision, and writing its headers. It allocates nothing and may be called from
// many goroutines.
func (m *Metrics) Latency() func(time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	latency := m.histogram("decision")
	return func(d time.Duration) { latency.Observe(d.Seconds()) }
}

// bounds of latencies, in seconds. A store nearby answers in 0.1 to 2 ms, and
// the usual time budget is 5 ms: there they lie close together.
var bounds = []float64{
	50e-6, 100e-6, 200e-6, 350e-6, 500e-6, 750e-6,
	1e-3, 1.25e-3, 1.5e-3, 2e-3, 2.5e-3, 3e-3, 4e-3, 5e-3, 6e-3, 8e-3,
	10e-3, 20e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1,
}

var latencyHelp = map[string]string{
	"decision": "How long requests waited for their decision: what Sluice adds to each of them. Errors are included.",
	"store":    "How long round trips to the store (Redis) took. Errors are included. Its p99 is the first figure to watch: near the time budget, decisions begin to fall back.",
}

// histogram returns the latencies of a part, which several may observe. mu must
// be held.
func (m *Metrics) histogram(part string) prometheus.Histogram {
	if made := m.latencies[part]; made != nil {
		return made
	}
	o := prometheus.HistogramOpts{Name: "sluice_" + part + "_duration_seconds", Help: latencyHelp[part], Buckets: bounds}
	if m.o.NativeHistograms {
		o.NativeHistogramBucketFactor = 1.1
		o.NativeHistogramMaxBucketNumber = 160
		o.NativeHistogramMinResetDuration = time.Hour
	}
	m.latencies[part] = prometheus.NewHistogram(o)
	m.registry.MustRegister(m.latencies[part])
	return m.latencies[part]
}
