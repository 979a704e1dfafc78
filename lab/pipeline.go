package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
	"github.com/sluice-limiter/sluice/servers/proxy"
	"github.com/sluice-limiter/sluice/store/redis"
)

// pipeline asks three limits for each request, in the ways in which that is
// done.
var pipeline = Experiment{
	Name:  "pipeline",
	Does:  "three limits for each request: three round trips, one pipeline, one script",
	Takes: 15 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runPipeline(ctx, progress, 5000, 500)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "one pipeline, at 1 ms", Column: "saved_percent", Min: 55, Max: 70, Reference: "67"},
		{Row: "one script, at 1 ms", Column: "saved_percent", Min: 60, Max: 70, Reference: "67"},
		{Row: "Sluice, at 1 ms", Column: "saved_percent", Min: 60, Max: 72, Reference: "67"},
		{Row: "one pipeline, on this machine", Column: "saved_percent", Min: 10, Max: 70},
		{Row: "one script, on this machine", Column: "saved_percent", Min: 30, Max: 75},
		{Row: "Sluice, on this machine", Column: "saved_percent", Min: 30, Max: 75},
	},
	Explains: "A request that three limits apply to needs an answer of each. Asked one after the other, it waits for three round trips; in one pipeline or in one script for one, which saves two thirds. " +
		"Only a script also takes all three or none: a pipeline has charged two limits when the third refuses.",
	Plot: func(t *Table) plot.Plot {
		b := t.bars("Latency of a request with three limits, one caller at a time", "latency (ms)", "p50_ms", nil)
		b.Series[0].Name = "median (p50)"
		p99 := t.bars("", "", "p99_ms", nil).Series[0]
		p99.Name = "99th percentile (p99)"
		b.Series = append(b.Series, p99)
		return b
	},
}

// A PipelineRow is the latency of one way to ask.
type PipelineRow struct {
	Way   string  `json:"way"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Saved float64 `json:"saved_percent"` // of the median of three round trips
}

// pipelineLimit refuses nothing.
var pipelineLimit = sluice.Limit{Tokens: 1000, Per: time.Second, Burst: 10_000}

// runPipeline makes so many calls on this machine and across a network.
func runPipeline(ctx context.Context, progress func(string), here, away int) ([]PipelineRow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	progress("on this machine")
	rows, err := pipelineRows(ctx, server.Addr, "on this machine", here)
	if err != nil {
		return nil, err
	}
	network, err := proxy.Start(server.Addr)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	network.Delay(time.Millisecond)
	progress("a network of 1 ms between")
	more, err := pipelineRows(ctx, network.Addr, "at 1 ms", away)
	return append(rows, more...), err
}

func pipelineRows(ctx context.Context, addr, where string, calls int) ([]PipelineRow, error) {
	client, err := dialRedis(addr)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ways := pipelineWays(ctx, client)
	var asks []func(string) error
	for _, way := range ways {
		asks = append(asks, func(user string) error {
			allowed, err := way.ask([]string{"tenant:" + user, "route:" + user, "tenant-route:" + user})
			if err == nil && !allowed {
				err = errRefused(user)
			}
			return err
		})
	}
	times, err := byTurns(calls, asks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var rows []PipelineRow
	slowest := millis(Quantile(times[0], 0.5))
	for i, way := range ways {
		p50, p99 := millis(Quantile(times[i], 0.5)), millis(Quantile(times[i], 0.99))
		rows = append(rows, PipelineRow{way.name + ", " + where, p50, p99, 100 * (1 - p50/slowest)})
	}
	return rows, nil
}

// A pipelineWay takes a token of each key and says whether all were there.
type pipelineWay struct {
	name string
	ask  func(keys []string) (bool, error)
}

// pipelineWays returns the ways to ask; the first makes the server know the
// script.
func pipelineWays(ctx context.Context, client rueidis.Client) []pipelineWay {
	bucket, store := newUsualBucket(client, pipelineLimit), redis.New(client, redis.Options{})
	return []pipelineWay{
		{"three round trips", func(keys []string) (bool, error) {
			for _, key := range keys {
				if allowed, err := bucket.take(ctx, key); err != nil || !allowed {
					return false, err
				}
			}
			return true, nil
		}},
		{"one pipeline", func(keys []string) (bool, error) { return bucket.pipeline(ctx, keys...) }},
		{"one script", func(keys []string) (bool, error) { return bucket.take(ctx, keys...) }},
		{"Sluice", func(keys []string) (bool, error) { return takeAll(ctx, store, keys) }},
	}
}

// takeAll takes a token of each key, or none.
func takeAll(ctx context.Context, store sluice.Store, keys []string) (bool, error) {
	var charges []sluice.Charge
	for _, key := range keys {
		charges = append(charges, sluice.Charge{Key: key, Limit: pipelineLimit, N: 1})
	}
	decisions, err := store.Take(ctx, nil, charges)
	if err != nil {
		return false, err
	}
	return decisions[0].Granted > 0, nil // of a group, each or none
}
