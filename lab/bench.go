package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// bench asks for a decision at a time and compares with the least that a server
// can be asked.
var bench = Experiment{
	Name:  "bench",
	Does:  "20,000 decisions of each algorithm on Redis, one after the other, against an empty GET",
	Takes: 15 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runBench(ctx, progress, 20_000)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "GET", Column: "p50_ms", Max: 0.5, Reference: "0.073"},
		{Row: "sliding_log", Column: "p50_ms", Max: 0.75, Reference: "about 0.08"},
		{Row: "sliding_window", Column: "p50_ms", Max: 0.75, Reference: "about 0.08"},
		{Row: "token_bucket", Column: "p50_ms", Max: 0.75, Reference: "about 0.08"},
		{Row: "fixed_window", Column: "p50_ms", Max: 0.75, Reference: "about 0.08"},
		{Row: "sliding_log", Column: "p50_over_get", Min: 0.8, Max: 2, Reference: "about 1.1"},
		{Row: "sliding_window", Column: "p50_over_get", Min: 0.8, Max: 2, Reference: "about 1.1"},
		{Row: "token_bucket", Column: "p50_over_get", Min: 0.8, Max: 1.75, Reference: "about 1.1"},
		{Row: "fixed_window", Column: "p50_over_get", Min: 0.8, Max: 1.75, Reference: "about 1.1"},
	},
	Explains: "A caller asks Redis on this machine, waits for the answer and asks again, each algorithm and the empty GET by turns. " +
		"Nearly all of a decision's time is the round trip; what the algorithm computes hardly shows.",
	Plot: func(t *Table) plot.Plot {
		b := t.bars("Latency of one decision on Redis, one caller at a time", "latency (ms)", "p50_ms", nil)
		b.Series[0].Name = "median (p50)"
		p99 := t.bars("", "", "p99_ms", nil).Series[0]
		p99.Name = "99th percentile (p99)"
		b.Series = append(b.Series, p99)
		return b
	},
}

// A BenchRow is the latency of one kind of call.
type BenchRow struct {
	Call    string  `json:"algorithm"`
	Calls   int     `json:"calls"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	OverGet float64 `json:"p50_over_get" unit:"times"`
}

// benchLimit refuses nothing: each user asks fewer times.
const benchLimit = 100

func runBench(ctx context.Context, progress func(string), calls int) ([]BenchRow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	names := []string{"GET"}
	asks := []func(user string) error{func(string) error {
		return server.client.Do(ctx, server.client.B().Get().Key("nothing").Build()).NonRedisError()
	}}
	for _, algorithm := range allAlgorithms {
		limit := sluice.Limit{Tokens: benchLimit, Per: time.Hour, Algorithm: algorithm}
		names = append(names, algorithm.String())
		asks = append(asks, func(user string) error {
			allowed, err := take(ctx, server.store, user, limit)
			if err == nil && !allowed {
				err = errRefused(user)
			}
			return err
		})
	}
	progress(fmt.Sprintf("%d calls of each", calls))
	times, err := byTurns(calls, asks)
	if err != nil {
		return nil, err
	}
	get := millis(Quantile(times[0], 0.5))
	var rows []BenchRow
	for i, name := range names {
		p50, p99 := millis(Quantile(times[i], 0.5)), millis(Quantile(times[i], 0.99))
		rows = append(rows, BenchRow{name, calls, p50, p99, p50 / get})
	}
	return rows, nil
}

// byTurns does each thing a number of times, so that whatever slows the machine
// down slows all of them, and returns how long each took. A first part is not
// counted: it meets connections and scripts that are new.
func byTurns(calls int, asks []func(user string) error) ([][]time.Duration, error) {
	times := make([][]time.Duration, len(asks))
	warm := min(200, calls)
	for n := range warm + calls {
		user := fmt.Sprintf("user-%05d", n/20)
		for i, ask := range asks {
			began := time.Now()
			if err := ask(user); err != nil {
				return nil, err
			}
			if n >= warm {
				times[i] = append(times[i], time.Since(began))
			}
		}
	}
	return times, nil
}
