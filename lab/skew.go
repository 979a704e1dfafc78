package lab

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// skew lets two instances with different clocks share a limit.
var skew = Experiment{
	Name:  "skew",
	Does:  "two instances whose clocks are 0.05 to 30 s apart: the callers' clocks against the store's",
	Takes: 4 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runSkew(ctx, progress, 2*time.Second)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "callers' 0", Column: "admitted", Of: "bound", Min: 90, Max: 101},
		{Row: "callers' 0.05", Column: "admitted", Of: "bound", Min: 200, Max: 700, Reference: "too much"},
		{Row: "callers' 0.5", Column: "admitted", Of: "bound", Min: 200, Max: 700, Reference: "too much"},
		{Row: "callers' 5", Column: "admitted", Of: "bound", Min: 200, Max: 700, Reference: "too much"},
		{Row: "callers' 30", Column: "admitted", Of: "bound", Min: 200, Max: 700, Reference: "too much"},
		{Row: "store's 0", Column: "admitted", Of: "bound", Min: 90, Max: 100},
		{Row: "store's 0.05", Column: "admitted", Of: "bound", Min: 90, Max: 100},
		{Row: "store's 0.5", Column: "admitted", Of: "bound", Min: 90, Max: 100},
		{Row: "store's 5", Column: "admitted", Of: "bound", Min: 90, Max: 100},
		{Row: "store's 30", Column: "admitted", Of: "bound", Min: 90, Max: 100},
	},
	Explains: "Two instances ask for one token bucket in Redis, each 500 times a second. With the usual script each sends its own time: whenever the one whose clock is ahead asks, the bucket seems to have refilled since the other asked. " +
		"Where the store's clock decides, as in Sluice, the clocks of callers do not enter.",
	Plot: plotSkew,
}

// A SkewRow is what two instances were let pass together.
type SkewRow struct {
	Clock    string  `json:"clock"`
	Skew     float64 `json:"skew_s" lab:"label"`
	Bound    float64 `json:"bound" unit:"requests"` // burst + rate x time
	Admitted int     `json:"admitted" unit:"requests"`
	Asked    int     `json:"asked" unit:"requests"`
}

var (
	skewLimit = sluice.Limit{Tokens: 100, Per: time.Second}
	skews     = [...]time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 30 * time.Second}
)

// skewEvery is the time between two calls of an instance.
const skewEvery = 2 * time.Millisecond

// A skewed asks for a token of a key at a time of the caller's.
type skewed func(now time.Time, key string) (bool, error)

func runSkew(ctx context.Context, progress func(string), length time.Duration) ([]SkewRow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	bucket := newUsualBucket(server.client, skewLimit)
	var rows []SkewRow
	for _, clock := range []struct {
		name string
		ask  skewed
	}{
		{"callers'", func(now time.Time, key string) (bool, error) { return bucket.takeAt(ctx, now, key) }},
		{"store's", func(_ time.Time, key string) (bool, error) { return take(ctx, server.store, key, skewLimit) }},
	} {
		progress("the " + clock.name + " clock")
		// All skews at once, each with a bucket of its own.
		found, errs := make([]SkewRow, len(skews)), make([]error, len(skews))
		var running sync.WaitGroup
		for i, apart := range skews {
			running.Go(func() { found[i], errs[i] = askApart(ctx, clock.ask, clock.name+apart.String(), apart, length) })
		}
		running.Wait()
		for i := range skews {
			if errs[i] != nil {
				return nil, errs[i]
			}
			found[i].Clock = clock.name
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// askApart lets two instances ask by turns, the second with a clock that is
// ahead, and counts what passes.
func askApart(ctx context.Context, ask skewed, key string, apart, length time.Duration) (SkewRow, error) {
	row := SkewRow{Skew: apart.Seconds()}
	// The server meets the script before the time counts.
	if _, err := ask(time.Now(), "first "+key); err != nil {
		return row, err
	}
	start := time.Now()
	for due := start; due.Sub(start) < length && ctx.Err() == nil; due = due.Add(skewEvery / 2) {
		if ahead := time.Until(due); ahead > 0 {
			sleep(ctx, ahead)
		}
		now := time.Now()
		if row.Asked%2 == 1 {
			now = now.Add(apart)
		}
		allowed, err := ask(now, key)
		if err != nil {
			return row, err
		}
		row.Asked++
		if allowed {
			row.Admitted++
		}
	}
	row.Bound = float64(skewLimit.Capacity()) + float64(skewLimit.Tokens)/skewLimit.Per.Seconds()*time.Since(start).Seconds()
	return row, ctx.Err()
}

func plotSkew(t *Table) plot.Plot {
	b := &plot.Bars{
		Title:  "What two instances were let pass in 2 s by a limit of 100 a second",
		Values: plot.Axis{Label: "admitted requests"},
		Series: []plot.BarSeries{{Name: "by the callers' clocks"}, {Name: "by the store's clock"}, {Name: "bound: burst + rate x time", Hollow: true}},
	}
	for i, apart := range skews {
		b.Labels = append(b.Labels, "clocks "+apart.String()+" apart")
		for series := range 2 {
			row := series*len(skews) + i
			b.Series[series].Values = append(b.Series[series].Values, t.Number(row, "admitted"))
		}
		b.Series[2].Values = append(b.Series[2].Values, t.Number(i, "bound"))
	}
	return b
}
