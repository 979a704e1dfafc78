package metrics_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice/metrics"
)

func TestRules(t *testing.T) {
	m := metrics.New(metrics.Options{})
	if series := ruleSeries(t, m); len(series) > 0 {
		t.Errorf("series without rules: %v", series)
	}
	m.WatchRules(func() metrics.Rules {
		return metrics.Rules{Rows: 300, Skipped: 2, Stale: true, Loads: 3, Fetches: 40, Failures: 5}
	})
	want := map[string]float64{
		"sluice_rules": 300, "sluice_rules_skipped": 2, "sluice_rules_stale": 1, "sluice_rules_failures_total": 5,
		`sluice_rules_refreshes_total{what="all"}`: 3, `sluice_rules_refreshes_total{what="some"}`: 40,
	}
	if diff := cmp.Diff(want, ruleSeries(t, m)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func ruleSeries(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for name, v := range scrape(t, m) {
		if strings.HasPrefix(name, "sluice_rules") {
			found[name] = v
		}
	}
	return found
}
