package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
)

// everything returns metrics with all there is hooked in.
func everything(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New(metrics.Options{})
	engine := policy.NewEngine(m.Decisions(m.Store(scripted{decision: sluice.Decision{Allowed: true}})), set(t, "a"))
	decide(engine, m.Observer(engine.Set), policy.Request{N: 1})
	m.Watch(everyLayer())
	m.WatchRules(func() metrics.Rules { return metrics.Rules{} })
	m.Latency()(time.Millisecond)
	return m
}

// registered returns "type labels" of our metrics, by name.
func registered(t *testing.T, m *metrics.Metrics) map[string]string {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "sluice_") {
			continue
		}
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		slices.Sort(labels)
		found[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ",")
	}
	return found
}

// TestDocs holds the table in docs/metrics.md to what is registered.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)` \\| ([a-z]+) \\| ([a-z_`, ]*)\\|")
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		labels := regexp.MustCompile(`[a-z_]+`).FindAllString(match[3], -1)
		slices.Sort(labels)
		documented[match[1]] = match[2] + " " + strings.Join(labels, ",")
	}
	have := registered(t, everything(t))
	if diff := cmp.Diff(have, documented); diff != "" {
		t.Errorf("docs/metrics.md differs from the registry (-registry +docs):\n%s", diff)
	}
	for _, name := range regexp.MustCompile(`sluice_[a-z_]*[a-z]`).FindAllString(string(text), -1) {
		family := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			family = strings.TrimSuffix(family, suffix)
		}
		if _, ok := have[family]; !ok {
			t.Errorf("docs/metrics.md speaks of %s, which does not exist", name)
		}
	}
}

// TestConventions: names say their units and what they count, and every metric
// explains itself.
func TestConventions(t *testing.T) {
	families, err := everything(t).Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name, kind := f.GetName(), f.GetType().String()
		if !strings.HasPrefix(name, "sluice_") {
			continue
		}
		if counts := strings.HasSuffix(name, "_total"); counts != (kind == "COUNTER") {
			t.Errorf("%s is a %s: _total is for counters and only for them", name, kind)
		}
		if measures := strings.HasSuffix(name, "_seconds"); measures != (kind == "HISTOGRAM") {
			t.Errorf("%s is a %s: want latencies in _seconds", name, kind)
		}
		if len(f.GetHelp()) < 40 || !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: help is %q, want a sentence", name, f.GetHelp())
		}
	}
}
