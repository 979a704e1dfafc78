package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// boundary asks for twice the limit around the moment at which a window ends.
var boundary = Experiment{
	Name:  "boundary",
	Does:  "100 requests just before a window's end and 100 just after it: the most admitted in a second",
	Takes: 10 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runBoundary(ctx, progress, 3)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "sliding_log", Column: "worst_window", Min: 100, Max: 100, Reference: "100"},
		{Row: "sliding_window", Column: "worst_window", Min: 100, Max: 110, Reference: "105"},
		{Row: "token_bucket", Column: "worst_window", Min: 100, Max: 125, Reference: "119"},
		{Row: "fixed_window", Column: "worst_window", Min: 190, Max: 200, Reference: "200"},
	},
	Explains: "A limit of 100 a second is asked for 100 requests in the last 50 ms of a window and for 100 in the first 50 ms of the next. " +
		"A fixed window starts from zero at its edge and lets both bursts pass, twice the limit; the others remember what was just used.",
	Plot: func(t *Table) plot.Plot {
		return t.bars("The most admitted in any sliding second, of a limit of 100 a second", "requests in a second", "worst_window",
			[]float64{100, 105, 119, 200})
	},
}

// A BoundaryRow is what one algorithm admitted, in the worst of the runs.
type BoundaryRow struct {
	Algorithm   string `json:"algorithm"`
	Limit       int64  `json:"limit" unit:"per s"`
	WorstWindow int    `json:"worst_window" unit:"requests"`
}

const (
	boundaryLimit = 100 // per second
	boundaryBurst = 50 * time.Millisecond
)

func runBoundary(ctx context.Context, progress func(string), runs int) ([]BoundaryRow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	worst := make([]int, len(allAlgorithms))
	for run := range runs {
		progress(fmt.Sprintf("run %d of %d", run+1, runs))
		// All algorithms meet the same window.
		edge := time.Now().Truncate(time.Second).Add(2 * time.Second)
		errs := make([]error, len(allAlgorithms))
		var running sync.WaitGroup
		for i, algorithm := range allAlgorithms {
			running.Go(func() {
				limit := sluice.Limit{Tokens: boundaryLimit, Per: time.Second, Algorithm: algorithm}
				admitted, err := meetEdge(ctx, server.store, fmt.Sprint(algorithm, run), limit, edge)
				worst[i], errs[i] = max(worst[i], mostWithin(admitted, time.Second)), err
			})
		}
		running.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
	}
	var rows []BoundaryRow
	for i, algorithm := range allAlgorithms {
		rows = append(rows, BoundaryRow{algorithm.String(), boundaryLimit, worst[i]})
	}
	return rows, nil
}

// meetEdge asks for the limit just before the edge and again just after it,
// evenly, and returns when what passed was answered.
func meetEdge(ctx context.Context, store sluice.Store, key string, limit sluice.Limit, edge time.Time) ([]time.Time, error) {
	var admitted []time.Time
	every := boundaryBurst / time.Duration(limit.Tokens)
	for i := range 2 * limit.Tokens {
		// The server's clock is this machine's; the last call before the edge
		// has a little time to get there.
		due := edge.Add(time.Duration(i-limit.Tokens) * every)
		if i < limit.Tokens {
			due = due.Add(-2 * time.Millisecond)
		}
		if ahead := time.Until(due); ahead > 0 {
			sleep(ctx, ahead)
		}
		allowed, err := take(ctx, store, key, limit)
		if err != nil {
			return nil, err
		}
		if allowed {
			admitted = append(admitted, time.Now())
		}
	}
	return admitted, nil
}

// mostWithin returns the most of some times that lie in any window of a length.
func mostWithin(times []time.Time, length time.Duration) int {
	sorted := slices.SortedFunc(slices.Values(times), time.Time.Compare)
	most, first := 0, 0
	for i, at := range sorted {
		for at.Sub(sorted[first]) >= length {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
