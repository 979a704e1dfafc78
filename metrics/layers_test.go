package metrics_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice/metrics"
)

// everyLayer is a stack with all layers.
func everyLayer() metrics.Layers {
	return metrics.Layers{
		Breakers: func() []metrics.Breaker {
			return []metrics.Breaker{
				{Node: "10.0.0.1:6379"},
				{Node: "10.0.0.2:6379", State: metrics.BreakerOpen, Opens: 3},
				{Node: "10.0.0.3:6379", State: metrics.BreakerHalfOpen, Opens: 1},
				{Node: "10.0.0.1:6379", Opens: 99}, // a node that stands twice
			}
		},
		Fallbacks:   func() metrics.Fallbacks { return metrics.Fallbacks{Local: 5, Allow: 6, Deny: 7} },
		Instances:   func() int { return 4 },
		Settlements: func() metrics.Settlements { return metrics.Settlements{Settled: 8, Lost: 9} },
		Lease: func() metrics.Lease {
			return metrics.Lease{Claims: 16, Claimed: 17, Spent: 18, Returned: 19, Lost: 20, Held: 21, Active: true}
		},
		Memory:   func() metrics.Memory { return metrics.Memory{Keys: 12, Evicted: 13} },
		Coalesce: func() metrics.Coalesce { return metrics.Coalesce{Calls: 14, Charges: 15} },
	}
}

// layerNames begin the names of what Layers reads.
var layerNames = []string{
	"sluice_breaker", "sluice_fallback", "sluice_live", "sluice_settlements", "sluice_lease", "sluice_memory", "sluice_coalesce",
}

func layerSeries(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	all, found := scrape(t, m), make(map[string]float64)
	for _, prefix := range layerNames {
		maps.Copy(found, only(all, prefix))
	}
	return found
}

func TestLayers(t *testing.T) {
	m := metrics.New(metrics.Options{})
	if got := layerSeries(t, m); len(got) > 0 {
		t.Errorf("without layers: %v, want nothing of them", got)
	}
	m.Watch(everyLayer())
	want := map[string]float64{
		`sluice_breaker_state{node="10.0.0.1:6379",state="closed"}`:    1,
		`sluice_breaker_state{node="10.0.0.1:6379",state="half_open"}`: 0,
		`sluice_breaker_state{node="10.0.0.1:6379",state="open"}`:      0,
		`sluice_breaker_state{node="10.0.0.2:6379",state="closed"}`:    0,
		`sluice_breaker_state{node="10.0.0.2:6379",state="half_open"}`: 0,
		`sluice_breaker_state{node="10.0.0.2:6379",state="open"}`:      1,
		`sluice_breaker_state{node="10.0.0.3:6379",state="closed"}`:    0,
		`sluice_breaker_state{node="10.0.0.3:6379",state="half_open"}`: 1,
		`sluice_breaker_state{node="10.0.0.3:6379",state="open"}`:      0,
		`sluice_breaker_opens_total{node="10.0.0.1:6379"}`:             0,
		`sluice_breaker_opens_total{node="10.0.0.2:6379"}`:             3,
		`sluice_breaker_opens_total{node="10.0.0.3:6379"}`:             1,
		`sluice_fallback_decisions_total{mode="local"}`:                5,
		`sluice_fallback_decisions_total{mode="allow"}`:                6,
		`sluice_fallback_decisions_total{mode="deny"}`:                 7,
		`sluice_live_instances`:                                        4,
		`sluice_settlements_total{result="settled"}`:                   8,
		`sluice_settlements_total{result="lost"}`:                      9,
		`sluice_lease_claims_total`:                                    16,
		`sluice_lease_tokens_total{event="claimed"}`:                   17,
		`sluice_lease_tokens_total{event="spent"}`:                     18,
		`sluice_lease_tokens_total{event="returned"}`:                  19,
		`sluice_lease_tokens_total{event="lost"}`:                      20,
		`sluice_lease_held_tokens`:                                     21,
		`sluice_lease_active`:                                          1,
		`sluice_memory_keys`:                                           12,
		`sluice_memory_evictions_total`:                                13,
		`sluice_coalesce_calls_total`:                                  14,
		`sluice_coalesce_charges_total`:                                15,
	}
	if diff := cmp.Diff(want, layerSeries(t, m)); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	m.Watch(metrics.Layers{Instances: func() int { return 2 }})
	if diff := cmp.Diff(map[string]float64{"sluice_live_instances": 2}, layerSeries(t, m)); diff != "" {
		t.Errorf("other layers (-want +got):\n%s", diff)
	}
}

// TestBadSeries: one series that cannot be shown hides no other.
func TestBadSeries(t *testing.T) {
	var log bytes.Buffer
	m := metrics.New(metrics.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	m.Watch(metrics.Layers{
		Breakers:  func() []metrics.Breaker { return []metrics.Breaker{{Node: "\xff"}} },
		Instances: func() int { return 1 },
	})
	if got := layerSeries(t, m)["sluice_live_instances"]; got != 1 {
		t.Errorf("sluice_live_instances = %v, want 1", got)
	}
	if !strings.Contains(log.String(), "sluice_breaker") {
		t.Errorf("log = %q, want the metric that could not be shown", log.String())
	}
}

func TestBuildInfo(t *testing.T) {
	for _, tt := range []struct {
		o    metrics.Options
		want string
	}{
		{metrics.Options{}, `revision="unknown",version="unknown"`},
		{metrics.Options{Version: "v1.2.3", Revision: "abc"}, `revision="abc",version="v1.2.3"`},
	} {
		series := scrape(t, metrics.New(tt.o))
		for name, value := range only(series, "sluice_build_info") {
			if value != 1 || !strings.Contains(name, tt.want) {
				t.Errorf("%s %v, want %s and 1", name, value, tt.want)
			}
		}
		for _, name := range []string{"go_goroutines", "process_open_fds", "process_start_time_seconds"} {
			if series[name] == 0 {
				t.Errorf("%s is missing", name)
			}
		}
	}
}
