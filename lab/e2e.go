package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-limiter/sluice/lab/plot"
)

// e2e lets three gateways keep one limit together.
var e2e = Experiment{
	Name:  "e2e",
	Does:  "three sluice serve behind a balancer, 500/s for all, flooded for 10 s: counted in Redis and in memory",
	Takes: 25 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		program, err := os.Executable()
		if err != nil {
			return nil, false, err
		}
		rows, err := runE2E(ctx, progress, program, 10*time.Second)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "redis", Column: "allowed", Of: "expected", Min: 99.8, Max: 100.01, Reference: "99.9 (5,493 of 5,500)"},
		{Row: "memory", Column: "allowed", Of: "expected", Min: 280, Max: 301, Reference: "300"},
	},
	Explains: "Twenty callers ask three gateways, by turns, for as much as they can of one limit. Expected is burst + rate x the time between the first and the last request that passed, by the store's clock. " +
		"Counted in Redis the three admit together what one would; each counting in its own memory admits the whole limit, three times as much in all.",
	Plot: func(t *Table) plot.Plot {
		b := t.bars("What three gateways admitted together in 10 s, of a limit of 500 a second", "requests", "allowed", nil)
		b.Labels = []string{"counted in Redis", "counted in each gateway's memory"}
		b.Series[0].Name = "admitted"
		expected := t.bars("", "", "expected", nil).Series[0]
		expected.Name, expected.Hollow = "expected: burst + rate x time", true
		b.Series = append(b.Series, expected)
		return b
	},
}

// An E2ERow is what three gateways admitted together.
type E2ERow struct {
	Store    string  `json:"store"`
	Expected float64 `json:"expected" unit:"requests"`
	Allowed  int     `json:"allowed" unit:"requests"`
	Refused  int     `json:"refused" unit:"requests"`
}

const (
	e2eRate    = 500 // a second, and the burst
	e2eLimits  = "[{name: global, key: [], limit: 500/s}]"
	e2eSites   = 3
	e2eCallers = 20
)

// runE2E measures gateways that are processes of the program.
func runE2E(ctx context.Context, progress func(string), program string, length time.Duration) ([]E2ERow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	upstream := startUpstream()
	defer upstream.Close()
	var rows []E2ERow
	for _, store := range []struct{ name, url string }{{"redis", "redis://" + server.Addr}, {"memory", "memory"}} {
		progress("counted in " + store.name)
		row, err := floodSites(ctx, server, program, store.url, upstream.URL, length)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", store.name, err)
		}
		row.Store = store.name
		rows = append(rows, *row)
	}
	return rows, nil
}

// floodSites starts gateways and a balancer and asks for as much as there is.
func floodSites(ctx context.Context, server *local, program, store, upstream string, length time.Duration) (*E2ERow, error) {
	sites, stop, err := startSites(ctx, program, store, upstream)
	defer stop()
	if err != nil {
		return nil, err
	}
	balancer := startBalancer(sites)
	defer balancer.Close()
	// What was asked to see whether they are up must have been refilled.
	sleep(ctx, time.Second)
	before, err := fallbacks(ctx, sites)
	if err != nil {
		return nil, err
	}
	seen := func() (first, last time.Time, err error) { return }
	if store != "memory" {
		w, err := startWatch(ctx, server.Addr, "global")
		if err != nil {
			return nil, err
		}
		seen = w.stop
	}
	found, err := flood(ctx, balancer.Listener.Addr().String(), e2eCallers, length)
	first, last, werr := seen()
	if err = errors.Join(err, werr, stayed(ctx, sites, before)); err != nil {
		return nil, err
	}
	if first.IsZero() { // in memory no one but the callers sees the times
		first, last = found.first, found.last
	}
	return &E2ERow{Expected: e2eRate + e2eRate*last.Sub(first).Seconds(), Allowed: found.allowed, Refused: found.refused}, nil
}

// startSites starts the gateways; stop ends those that were started.
func startSites(ctx context.Context, program, store, upstream string) (sites []*site, stop func(), err error) {
	stop = func() {
		for _, s := range sites {
			s.Close()
		}
	}
	for range e2eSites {
		s, err := startSite(ctx, program, store, e2eLimits, upstream)
		if err != nil {
			return sites, stop, err
		}
		sites = append(sites, s)
	}
	return sites, stop, nil
}

// fallbacks adds up the decisions that were made without the store.
func fallbacks(ctx context.Context, sites []*site) (float64, error) {
	total := 0.0
	for _, s := range sites {
		n, err := s.fallbacks(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// stayed reports decisions made without the store since there were so many: what
// was measured is not what was meant.
func stayed(ctx context.Context, sites []*site, before float64) error {
	after, err := fallbacks(ctx, sites)
	if err == nil && after > before {
		err = fmt.Errorf("%g decisions were made without the store: the machine is too busy", after-before)
	}
	return err
}
