package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Rules says how the rules of a table stand that change while the program runs.
// The counts are totals since the start.
type Rules struct {
	Rows     int   // known now, those that are skipped too
	Skipped  int   // that make no sense, or name a limit that does not exist
	Stale    bool  // the database does not answer: these are the last that were known
	Loads    int64 // times that all rows were fetched
	Fetches  int64 // times that changed rows were fetched
	Failures int64 // attempts to read the database that came to nothing
}

// WatchRules shows the rules that a function returns at each scrape, in place of
// the one before. The function is called from the goroutines of scrapes and must
// not block. WatchRules may be called from many goroutines.
func (m *Metrics) WatchRules(read func() Rules) { m.rules.read.Store(&read) }

// rules collects what WatchRules was given.
type rules struct {
	read atomic.Pointer[func() Rules]

	rows, skipped, stale, refreshes, failures *prometheus.Desc
}

func newRules() *rules {
	return &rules{
		rows: prometheus.NewDesc("sluice_rules",
			"Rules of the table that this instance knows, those that it skips too. All instances should show the same.", nil, nil),
		skipped: prometheus.NewDesc("sluice_rules_skipped",
			"Rules of the table that are skipped because they make no sense or name a limit that does not exist; the log says which. Should stay at zero.", nil, nil),
		stale: prometheus.NewDesc("sluice_rules_stale",
			"1 while the database of the rules does not answer, so that the last ones stay in force; else 0.", nil, nil),
		refreshes: prometheus.NewDesc("sluice_rules_refreshes_total",
			"How often rules were fetched: some, those that changed, or all, after a start and where nothing told what changed.", []string{"what"}, nil),
		failures: prometheus.NewDesc("sluice_rules_failures_total",
			"Attempts to read the rules from the database that came to nothing.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (r *rules) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.rows, r.skipped, r.stale, r.refreshes, r.failures} {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector].
func (r *rules) Collect(ch chan<- prometheus.Metric) {
	read := r.read.Load()
	if read == nil {
		return
	}
	now := (*read)()
	stale := 0.0
	if now.Stale {
		stale = 1
	}
	send(ch, r.rows, prometheus.GaugeValue, float64(now.Rows))
	send(ch, r.skipped, prometheus.GaugeValue, float64(now.Skipped))
	send(ch, r.stale, prometheus.GaugeValue, stale)
	send(ch, r.refreshes, prometheus.CounterValue, float64(now.Fetches), "some")
	send(ch, r.refreshes, prometheus.CounterValue, float64(now.Loads), "all")
	send(ch, r.failures, prometheus.CounterValue, float64(now.Failures))
}
