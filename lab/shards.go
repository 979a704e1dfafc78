package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/servers"
)

// shards asks a cluster for one global limit, and counts what each of its masters
// has to do for it: with one counter, with ten, and with leases beside.
var shards = Experiment{
	Name:  "shards",
	Does:  "let 8 instances ask a cluster of 3 masters for one global limit: commands a second on each, with 1 counter and with 10",
	Takes: 40 * time.Second,
	Run:   runShards,
	Claims: []Claim{
		{Row: "10 0", Column: "busiest_share", Max: mostOnOne},
		{Row: "10 0.01", Column: "busiest_share", Max: mostOnOne},
		{Column: "local"},
		{Column: "refused"},
	},
	Explains: "Eight instances ask a cluster of three masters for one global limit that they never reach. " +
		"One counter lies on one master, which bears everything; ten counters lie on all of them, and leases ask less often besides.",
	Plot: plotShards,
}

// A ShardsRow is what one way of counting a global limit cost each master.
type ShardsRow struct {
	Shards           int     `json:"shards" lab:"label"`
	Tolerance        float64 `json:"tolerance" lab:"label"`
	Node1            float64 `json:"commands_per_s_1"`
	Node2            float64 `json:"commands_per_s_2"`
	Node3            float64 `json:"commands_per_s_3"`
	Busiest          float64 `json:"busiest_share"` // of all commands
	CallsPerDecision float64 `json:"calls_per_decision"`
	Decisions        float64 `json:"decisions_per_s"`
	Local            int64   `json:"local"`
	Refused          int64   `json:"refused"`
}

const (
	// shardsInstances ask 2,500 decisions a second each, as each of 20 gateways
	// does at 50,000 a second: instances with more share more round trips.
	shardsInstances = 8
	shardsRate      = shardsInstances * 2_500
	shardsMeasured  = 4 * time.Second
	// mostOnOne is the part of all commands that one of three masters may have to
	// bear with ten shards: five of them lie there at most, and a little more is
	// noise.
	mostOnOne = 0.6
)

// shardsLimit is never reached.
var shardsLimit = sluice.Limit{Tokens: 50_000, Per: time.Second}

func (r *ShardsRow) ok() bool {
	return r.Local == 0 && r.Refused == 0 && (r.Shards == 1 || r.Busiest <= mostOnOne)
}

func plotShards(t *Table) plot.Plot {
	b := &plot.Bars{Title: "Commands for one global limit on each master of a cluster", Values: plot.Axis{Label: "commands a second"}}
	for row := range t.Cells {
		label := "counters: " + cellText(t.Cells[row][t.column("shards")])
		if tolerance := t.Number(row, "tolerance"); tolerance > 0 {
			label += ", tolerance " + plot.Number(100*tolerance) + "%"
		}
		b.Labels = append(b.Labels, label)
	}
	for i, column := range [...]string{"commands_per_s_1", "commands_per_s_2", "commands_per_s_3"} {
		s := t.bars("", "", column, nil).Series[0]
		s.Name = fmt.Sprintf("master %d", i+1)
		b.Series = append(b.Series, s)
	}
	return b
}

func runShards(ctx context.Context, progress func(string)) (any, bool, error) {
	progress("starting a cluster")
	cluster, err := servers.StartCluster(ctx)
	if err != nil {
		return nil, false, err
	}
	defer cluster.Close()
	var rows []ShardsRow
	ok := true
	for _, r := range []ShardsRow{{Shards: 1}, {Shards: 10}, {Shards: 10, Tolerance: 0.01}} {
		progress(fmt.Sprintf("%d shards, tolerance %g%%", r.Shards, 100*r.Tolerance))
		if err := r.measure(ctx, cluster); err != nil {
			return nil, false, fmt.Errorf("%d shards: %w", r.Shards, err)
		}
		ok = ok && r.ok()
		rows = append(rows, r)
	}
	return rows, ok, nil
}

// measure lets the instances ask, and fills the row in.
func (r *ShardsRow) measure(ctx context.Context, cluster *servers.Cluster) error {
	load := hotLoad{rate: shardsRate, warm: time.Second, measured: shardsMeasured}
	if r.Tolerance > 0 {
		load.warm = 14 * time.Second // instances lease once all have seen them
	}
	c := sluice.Charge{Key: "everyone", Limit: shardsLimit, N: 1, Shards: r.Shards, Tolerance: int64(r.Tolerance * 1e6)}
	for range shardsInstances {
		top, end, err := openStack(ctx, cluster.URL(), shardsInstances)
		if err != nil {
			return err
		}
		defer end()
		if err := reaches(ctx, top, c); err != nil {
			return err
		}
		load.takes = append(load.takes, takeHot(top, c))
	}
	done := make(chan *hotTally, 1)
	start := time.Now()
	go func() { done <- load.run(ctx, start) }()
	sleep(ctx, load.warm-time.Since(start))
	before, err := clusterCalls(cluster)
	sleep(ctx, load.warm+load.measured-time.Since(start))
	after, err2 := clusterCalls(cluster)
	tally := <-done
	if err = errors.Join(err, err2, tally.err, ctx.Err()); err != nil {
		return err
	}
	r.fill(before, after, tally)
	return nil
}

func (r *ShardsRow) fill(before, after []int64, tally *hotTally) {
	calls := make([]float64, len(after))
	total := 0.0
	for i := range after {
		calls[i] = float64(after[i]-before[i]) / shardsMeasured.Seconds()
		total += calls[i]
	}
	r.Node1, r.Node2, r.Node3 = calls[0], calls[1], calls[2]
	r.Busiest = slices.Max(calls) / max(total, 1)
	r.Decisions = float64(tally.decisions) / shardsMeasured.Seconds()
	r.CallsPerDecision = total / max(r.Decisions, 1)
	r.Local = tally.local
	r.Refused = tally.refused
}

// clusterCalls returns how many scripts each master has run.
func clusterCalls(cluster *servers.Cluster) ([]int64, error) {
	var calls []int64
	for _, master := range cluster.Nodes[:3] {
		use, err := serverLoad(master, []string{"eval", "evalsha"})
		if err != nil {
			return nil, err
		}
		calls = append(calls, use.calls)
	}
	return calls, nil
}

// openStack starts one of several instances of the whole stack, with a budget
// that a slow machine keeps.
func openStack(ctx context.Context, url string, instances int) (top sluice.Store, end func(), err error) {
	ctx, stop := context.WithCancel(ctx)
	c := &server.Config{Store: url, Prefix: "rl", Budget: hotBudget, Instances: instances}
	s, err := server.NewStack(ctx, c, metrics.New(metrics.Options{}), slog.New(slog.DiscardHandler))
	if err != nil {
		stop()
		return nil, nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return s.Top, func() { stop(); running.Wait(); s.Close() }, nil
}

// reaches waits until decisions on a charge, on all its counters, come from the
// store.
func reaches(ctx context.Context, top sluice.Store, c sluice.Charge) error {
	c.Tolerance = 0
	row := 0
	for deadline := time.Now().Add(10 * time.Second); row < 100; {
		got, err := top.Take(ctx, nil, []sluice.Charge{c})
		switch {
		case err == nil && got[0].Source == sluice.SourceStore:
			row++
			continue
		case time.Now().After(deadline) || ctx.Err() != nil:
			return errors.Join(errors.New("the store does not answer in 10 s"), err, ctx.Err())
		}
		row = 0
		sleep(ctx, 5*time.Millisecond)
	}
	return nil
}
