package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

func TestOutcomes(t *testing.T) {
	s := newSet(t, []policy.Limit{
		{Name: "tight", Default: sluice.Limit{Tokens: 1, Per: time.Hour}},
		{Name: "wide", Default: sluice.Limit{Tokens: 9, Per: time.Hour}},
		{Name: "tried", Default: sluice.Limit{Tokens: 2, Per: time.Hour}, Shadow: true},
		{Name: "free", Unlimited: true, Overrides: []policy.Rule{{
			Match: []policy.Condition{{Attribute: "tenant", Patterns: []string{"shop-a"}}}, Limit: sluice.Limit{Tokens: 1, Per: time.Hour},
		}}},
	})
	engine := policy.NewEngine(memory.New(memory.Options{}), s)
	m := metrics.New(metrics.Options{})
	observe := m.Observer(engine.Set)
	usual := map[string]float64{
		`sluice_decisions_total{limit="tight",outcome="allowed",source="store"}`:        0,
		`sluice_decisions_total{limit="tight",outcome="refused",source="store"}`:        0,
		`sluice_decisions_total{limit="wide",outcome="allowed",source="store"}`:         0,
		`sluice_decisions_total{limit="wide",outcome="refused",source="store"}`:         0,
		`sluice_decisions_total{limit="tried",outcome="allowed",source="store"}`:        0,
		`sluice_decisions_total{limit="tried",outcome="shadow_refused",source="store"}`: 0,
		`sluice_decisions_total{limit="free",outcome="allowed",source="store"}`:         0,
		`sluice_decisions_total{limit="free",outcome="refused",source="store"}`:         0,
	}
	if diff := cmp.Diff(usual, only(scrape(t, m), "sluice_decisions_total")); diff != "" {
		t.Errorf("before the first request (-want +got):\n%s", diff)
	}
	for range 3 {
		decide(engine, observe, policy.Request{N: 1})
	}
	want := map[string]float64{
		`sluice_decisions_total{limit="tight",outcome="allowed",source="store"}`:        1,
		`sluice_decisions_total{limit="tight",outcome="refused",source="store"}`:        2,
		`sluice_decisions_total{limit="wide",outcome="allowed",source="store"}`:         3, // by itself
		`sluice_decisions_total{limit="tried",outcome="allowed",source="store"}`:        2,
		`sluice_decisions_total{limit="tried",outcome="shadow_refused",source="store"}`: 1,
		`sluice_decisions_total{limit="free",outcome="unlimited",source="none"}`:        3,
	}
	series := scrape(t, m)
	if diff := cmp.Diff(want, nonzero(series, "sluice_decisions_total")); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	requests := map[string]float64{
		`sluice_requests_total{outcome="allowed"}`: 1,
		`sluice_requests_total{outcome="refused"}`: 2,
	}
	if diff := cmp.Diff(requests, nonzero(series, "sluice_requests_total")); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSources(t *testing.T) {
	for source, name := range map[sluice.Source]string{
		sluice.SourceStore: "store", sluice.SourceDenied: "denied", sluice.SourceLease: "lease",
		sluice.SourceFallback: "fallback", sluice.SourceFallback + 1: "other", 255: "other",
	} {
		engine := policy.NewEngine(scripted{decision: sluice.Decision{Source: source}}, set(t, "a"))
		m := metrics.New(metrics.Options{})
		decide(engine, m.Observer(engine.Set), policy.Request{N: 1})
		want := map[string]float64{fmt.Sprintf(`sluice_decisions_total{limit="a",outcome="refused",source="%s"}`, name): 1}
		if diff := cmp.Diff(want, nonzero(scrape(t, m), "sluice_decisions_total")); diff != "" {
			t.Errorf("source %d (-want +got):\n%s", source, diff)
		}
	}
	// A source that the root package adds wants a place here.
	if got, want := (sluice.SourceFallback + 1).String(), "source(4)"; got != want {
		t.Errorf("there is a source after fallback, %q: count it by its name", got)
	}
}

func TestUndecided(t *testing.T) {
	m := metrics.New(metrics.Options{})
	cost := newSet(t, []policy.Limit{{
		Name: "a", Default: sluice.Limit{Tokens: 5, Per: time.Hour}, Cost: policy.Cost{Attribute: "header:X-Cost"},
	}})
	engine := policy.NewEngine(scripted{err: context.DeadlineExceeded}, cost)
	observe := m.Observer(engine.Set)
	for _, header := range []string{"many", "6", "1", ""} {
		decide(engine, observe, policy.Request{N: 1, Attributes: func(string) string { return header }})
	}
	series := scrape(t, m)
	want := map[string]float64{
		`sluice_requests_undecided_total{kind="cost"}`:    2,
		`sluice_requests_undecided_total{kind="timeout"}`: 2,
	}
	if diff := cmp.Diff(want, nonzero(series, "sluice_requests_undecided_total")); diff != "" {
		t.Errorf("undecided (-want +got):\n%s", diff)
	}
	want = map[string]float64{`sluice_requests_total{outcome="undecided"}`: 4}
	if diff := cmp.Diff(want, nonzero(series, "sluice_requests_total")); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := nonzero(series, "sluice_decisions_total"); len(got) > 0 {
		t.Errorf("decisions = %v, want none where there was an error", got)
	}
}

// TestReload keeps the counts of limits that stay and drops those of limits
// that go, whether or not a request comes between.
func TestReload(t *testing.T) {
	engine := policy.NewEngine(memory.New(memory.Options{}), set(t, "stays", "goes"))
	m := metrics.New(metrics.Options{})
	observe := m.Observer(engine.Set)
	decide(engine, observe, policy.Request{N: 1})

	var late policy.Verdict
	if err := engine.Decide(t.Context(), policy.Request{N: 1}, &late); err != nil {
		t.Fatal(err)
	}
	engine.Swap(set(t, "comes", "stays"))
	observe(nil, &late, nil) // of the set before
	want := map[string]float64{
		`sluice_decisions_total{limit="stays",outcome="allowed",source="store"}`: 1,
		`sluice_decisions_total{limit="stays",outcome="refused",source="store"}`: 1,
		`sluice_decisions_total{limit="comes",outcome="allowed",source="store"}`: 0,
		`sluice_decisions_total{limit="comes",outcome="refused",source="store"}`: 0,
	}
	if diff := cmp.Diff(want, only(scrape(t, m), "sluice_decisions_total")); diff != "" {
		t.Errorf("after a reload (-want +got):\n%s", diff)
	}
	engine.Swap(nil)
	if got := only(scrape(t, m), "sluice_decisions_total"); len(got) > 0 {
		t.Errorf("without limits: %v, want no decisions", got)
	}
	m.Observer(func() *policy.Set { return nil })
	if got := only(scrape(t, m), "sluice_decisions_total"); len(got) > 0 {
		t.Errorf("without a set: %v, want no decisions", got)
	}
}

// TestReloadsUnderLoad: no decision on a limit that stays is lost while others
// come and go, and no series is left of those.
func TestReloadsUnderLoad(t *testing.T) {
	const callers, each = 4, 500
	engine := policy.NewEngine(scripted{decision: sluice.Decision{Allowed: true}}, set(t, "stays"))
	m := metrics.New(metrics.Options{})
	observe := m.Observer(engine.Set)
	var done atomic.Bool
	var reloading, calling sync.WaitGroup
	reloading.Go(func() {
		for i := 0; !done.Load(); i++ {
			engine.Swap(set(t, "stays", fmt.Sprintf("passing-%d", i)))
			if i%8 == 0 {
				get(m)
			}
		}
	})
	for range callers {
		calling.Go(func() {
			for range each {
				decide(engine, observe, policy.Request{N: 1})
			}
		})
	}
	calling.Wait()
	done.Store(true)
	reloading.Wait()
	decisions := only(scrape(t, m), "sluice_decisions_total")
	const stays = `sluice_decisions_total{limit="stays",outcome="allowed",source="store"}`
	if got := decisions[stays]; got != callers*each {
		t.Errorf("%s = %v, want %d", stays, got, callers*each)
	}
	if len(decisions) > 4 {
		t.Errorf("%d series, want those of two limits: %v", len(decisions), decisions)
	}
}

// TestSeriesStayFlat sends what clients choose, random: hosts, paths, headers,
// costs and addresses. None of it may become a series (linkerd2#1378,
// mcp-gateway-registry#1534).
func TestSeriesStayFlat(t *testing.T) {
	requests := 100_000
	if testing.Short() {
		requests = 10_000
	}
	s := newSet(t, []policy.Limit{
		{Name: "host", Key: []string{"host", "header:X-Client"}, Default: sluice.Limit{Tokens: 1, Per: time.Hour}, Cost: policy.Cost{Attribute: "header:X-Cost"}},
		{Name: "path", Key: []string{"path", "ip", "method"}, Default: sluice.Limit{Tokens: 5, Per: time.Second}, Shadow: true},
	})
	m := metrics.New(metrics.Options{})
	engine := policy.NewEngine(m.Decisions(m.Store(memory.New(memory.Options{MaxKeys: 1000}))), s)
	limit, err := httplimit.New(engine, httplimit.Options{Observe: m.Observer(engine.Set)})
	if err != nil {
		t.Fatal(err)
	}
	send := func(i int) {
		r := &http.Request{
			Method:     fmt.Sprintf("M%d", i%977),
			URL:        &url.URL{Path: fmt.Sprintf("/p%d", i)},
			Host:       fmt.Sprintf("host-%d.example", i/2), // each twice: one is refused
			RemoteAddr: fmt.Sprintf("10.%d.%d.%d:1", i>>16&255, i>>8&255, i&255),
			Header:     http.Header{"X-Client": {fmt.Sprintf("client-%d", i/2)}},
		}
		if i%7 == 0 {
			r.Header.Set("X-Cost", fmt.Sprintf("c%d", i)) // an error that names it
		}
		start := time.Now()
		limit.Admit(httptest.NewRecorder(), r)
		m.Latency()(time.Since(start))
	}
	for i := range 100 {
		send(i)
	}
	before := only(scrape(t, m), "sluice_")
	for i := 100; i < requests; i++ {
		send(i)
	}
	after := only(scrape(t, m), "sluice_")
	if len(after) != len(before) {
		t.Errorf("%d series after %d requests, %d after 100", len(after), requests, len(before))
	}
	var total float64
	for _, outcome := range []string{"allowed", "refused", "undecided"} {
		n := after[fmt.Sprintf("sluice_requests_total{outcome=%q}", outcome)]
		if n < float64(requests)/8 {
			t.Errorf("%v requests were %s: the test wants many of each", n, outcome)
		}
		total += n
	}
	if total != float64(requests) {
		t.Errorf("%v requests counted, want %d", total, requests)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	engine := policy.NewEngine(scripted{}, set(t, "a", "b", "c"))
	m := metrics.New(metrics.Options{})
	observe := m.Observer(engine.Set)
	var v policy.Verdict
	if err := engine.Decide(t.Context(), policy.Request{N: 1}, &v); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { observe(nil, &v, nil) }); n != 0 {
		t.Errorf("the observer allocates %v times, want 0", n)
	}
}
