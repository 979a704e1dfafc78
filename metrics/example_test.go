package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A program with middleware shows what it does.
func Example() {
	m := metrics.New(metrics.Options{Version: "v1.0.0"})
	local := memory.New(memory.Options{})
	m.Watch(metrics.Layers{Memory: func() metrics.Memory {
		s := local.Stats()
		return metrics.Memory{Keys: s.Keys, Evicted: s.Evicted}
	}})
	set, err := policy.NewSet([]policy.Limit{{Name: "everyone", Default: sluice.Limit{Tokens: 1, Per: time.Hour}}})
	if err != nil {
		log.Fatal(err)
	}
	engine := policy.NewEngine(m.Decisions(local), set)
	limit, err := httplimit.New(engine, httplimit.Options{Observe: m.Observer(engine.Set)})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		limit.Admit(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "sluice_decisions_total") || strings.HasPrefix(line, "sluice_memory_keys") {
			fmt.Print(line)
		}
	}
	// Output:
	// sluice_decisions_total{limit="everyone",outcome="allowed",source="store"} 1
	// sluice_decisions_total{limit="everyone",outcome="refused",source="store"} 2
	// sluice_memory_keys 1
}

// A store may be measured by itself, without limits or HTTP.
func ExampleMetrics_Store() {
	m := metrics.New(metrics.Options{})
	limiter, err := sluice.New(m.Store(memory.New(memory.Options{})), sluice.Limit{Tokens: 10, Per: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(context.Background(), "user-1", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Remaining)
	admin := http.NewServeMux()
	admin.Handle("GET /metrics", m.Handler())
	// Output: 7
}
