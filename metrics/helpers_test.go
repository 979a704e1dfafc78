package metrics_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
)

// scrape reads all series as a Prometheus server would, by their name and
// labels.
func scrape(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	code, body := get(m)
	if code != http.StatusOK {
		t.Fatalf("scrape: status %d: %s", code, body)
	}
	series := make(map[string]float64)
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			t.Fatalf("scrape: %q: %v", line, err)
		}
		series[line[:cut]] = value
	}
	return series
}

func get(m *metrics.Metrics) (code int, body string) {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Code, w.Body.String()
}

// only returns the series whose names begin so.
func only(series map[string]float64, prefix string) map[string]float64 {
	found := make(map[string]float64)
	for name, value := range series {
		if strings.HasPrefix(name, prefix) {
			found[name] = value
		}
	}
	return found
}

// nonzero returns the series that begin so and have counted something.
func nonzero(series map[string]float64, prefix string) map[string]float64 {
	found := only(series, prefix)
	for name, value := range found {
		if value == 0 {
			delete(found, name)
		}
	}
	return found
}

// set makes a set of limits, each of one token an hour, by name.
func set(t testing.TB, names ...string) *policy.Set {
	t.Helper()
	limits := make([]policy.Limit, len(names))
	for i, name := range names {
		limits[i] = policy.Limit{Name: name, Default: sluice.Limit{Tokens: 1, Per: time.Hour}}
	}
	return newSet(t, limits)
}

func newSet(t testing.TB, limits []policy.Limit) *policy.Set {
	t.Helper()
	s, err := policy.NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// decide asks the engine and tells the observer.
func decide(engine *policy.Engine, observe func(*http.Request, *policy.Verdict, error), r policy.Request) {
	var v policy.Verdict
	err := engine.Decide(context.Background(), r, &v)
	observe(nil, &v, err)
}

// bare is a store without abilities.
type bare struct{ sluice.Store }

// scripted answers every call alike.
type scripted struct {
	decision sluice.Decision
	err      error
}

func (s scripted) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if s.err != nil {
		return dst, s.err
	}
	for range charges {
		dst = append(dst, s.decision)
	}
	return dst, nil
}
