package lab

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/sluice-limiter/sluice/lab/plot"
)

// overhead asks one endpoint through a gateway with a limit and through one
// without.
var overhead = Experiment{
	Name:  "overhead",
	Does:  "the same endpoint with and without the limiter, 20 connections, no refusals, four pairs",
	Takes: 30 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		program, err := os.Executable()
		if err != nil {
			return nil, false, err
		}
		rows, err := runOverhead(ctx, progress, program, 4, 3*time.Second)
		return rows, true, err
	},
	Claims: []Claim{
		{Column: "p50_on_ms", Less: "p50_off_ms", Median: true, Min: -0.1, Max: 0.25, Reference: "+0.04"},
		{Column: "p95_on_ms", Less: "p95_off_ms", Median: true, Min: math.Inf(-1), Max: 3, Reference: "slightly lower"},
		{Column: "p99_on_ms", Less: "p99_off_ms", Median: true, Min: math.Inf(-1), Max: 10, Reference: "slightly lower"},
	},
	Explains: "Two gateways stand before one endpoint, one with a limit that is counted in Redis and never refuses, one without; they are asked by turns, at a quarter of what the first is able to serve. Each row is one pair. " +
		"The difference of the medians is what the limiter costs; the tails are mostly the machine's: what else it has to do.",
	Plot: plotOverhead,
}

// An OverheadRow is one pair of rounds: the limiter off and on.
type OverheadRow struct {
	P50Off float64 `json:"p50_off_ms"`
	P50On  float64 `json:"p50_on_ms"`
	P95Off float64 `json:"p95_off_ms"`
	P95On  float64 `json:"p95_on_ms"`
	P99Off float64 `json:"p99_off_ms"`
	P99On  float64 `json:"p99_on_ms"`
}

const (
	overheadLimits  = "[{name: clients, key: [ip], limit: 900000/s}]"
	overheadCallers = 20
)

func runOverhead(ctx context.Context, progress func(string), program string, pairs int, round time.Duration) ([]OverheadRow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	upstream := startUpstream()
	defer upstream.Close()
	var sites [2]*site // off, on
	for i, limits := range [...]string{"[]", overheadLimits} {
		if sites[i], err = startSite(ctx, program, "redis://"+server.Addr, limits, upstream.URL); err != nil {
			return nil, err
		}
		defer sites[i].Close()
	}
	before, err := fallbacks(ctx, sites[1:]) // before the store was connected
	if err != nil {
		return nil, err
	}
	progress("how much it is able to serve")
	found, err := flood(ctx, sites[1].Addr, overheadCallers, round)
	if err != nil {
		return nil, err
	}
	rate := float64(found.allowed) / round.Seconds() / 4
	var rows []OverheadRow
	for pair := range pairs {
		progress(fmt.Sprintf("pair %d of %d, %.0f requests a second", pair+1, pairs, rate))
		times, err := askBoth(ctx, sites, rate, round)
		if err != nil {
			return nil, err
		}
		at := func(i int, share float64) float64 { return millis(Quantile(times[i], share)) }
		rows = append(rows, OverheadRow{at(0, 0.5), at(1, 0.5), at(0, 0.95), at(1, 0.95), at(0, 0.99), at(1, 0.99)})
	}
	return rows, stayed(ctx, sites[1:], before)
}

// parts is in how many parts a round is cut, so that what else the machine does
// meets both gateways.
const parts = 8

// askBoth asks both gateways by turns, for the time of a round each. A rate that
// cannot be kept is an error: the figures would be those of another load.
func askBoth(ctx context.Context, sites [2]*site, rate float64, round time.Duration) (times [2][]time.Duration, err error) {
	for part := range parts {
		for j := range sites {
			i := (part + j) % 2 // whoever is first changes
			more, err := paced(ctx, sites[i].Addr, overheadCallers, rate, round/parts)
			if err != nil {
				return times, err
			}
			times[i] = append(times[i], more...)
		}
	}
	for i := range times {
		if want := rate * round.Seconds(); float64(len(times[i])) < 0.7*want {
			return times, fmt.Errorf("%d requests in %v, want %.0f: the machine is too busy", len(times[i]), round, want)
		}
	}
	return times, nil
}

func plotOverhead(t *Table) plot.Plot {
	b := &plot.Bars{
		Title:  "Latency of one endpoint through a gateway, median of four pairs",
		Values: plot.Axis{Label: "latency (ms)"},
		Labels: []string{"median (p50)", "95th percentile (p95)", "99th percentile (p99)"},
		Series: []plot.BarSeries{{Name: "without the limiter"}, {Name: "with the limiter"}},
	}
	for _, p := range [...]string{"p50", "p95", "p99"} {
		for i, state := range [...]string{"off", "on"} {
			c := Claim{Column: p + "_" + state + "_ms", Median: true}
			b.Series[i].Values = append(b.Series[i].Values, c.figures(t)[0])
		}
	}
	return b
}
