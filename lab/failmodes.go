package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice/lab/plot"
)

// failModes breaks Redis for longer than anybody can wait, and compares what a
// limit may say of it, with and without what keeps its callers from waiting.
var failModes = Experiment{
	Name:  "failmodes",
	Does:  "take Redis away for 5 s, killed and stopped, from limits that allow, deny or count locally, without a breaker and without a guard",
	Takes: 50 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runFailModes(ctx, progress, failTimes{before: before, fault: 5 * time.Second, after: 2 * time.Second})
		return rows, true, err
	},
	Claims: failClaims(),
	Explains: "Three instances ask for five times the limit while Redis is killed, or stopped, for five seconds. " +
		"A ratio of 1 is what the limit's rate lets through in that time. Local counters begin full, which is a burst a key more.",
	Plot: plotFailModes,
}

// A FailModeRow is what callers met in one mode while one fault lasted;
// OverBound is of the whole run.
type FailModeRow struct {
	Fault     string  `json:"fault"`
	Mode      string  `json:"mode"`
	Ratio     float64 `json:"admitted_ratio"` // of the limit's rate x the time
	Refused   int     `json:"refused"`
	Errors    int     `json:"errors"`
	Slowest   float64 `json:"slowest_ms"`
	P99       float64 `json:"p99_ms"`
	Waited    float64 `json:"waited_percent"` // of the calls, for the budget or longer
	OverBound int     `json:"over_bound"`
}

const (
	failInstances = 3
	failKeys      = 20
	failRate      = 2000 // calls a second: five times what the limit lets through
	mostFailP99   = 10   // ms, twice the budget
)

// failTimes are how long each part of a run lasts.
type failTimes struct{ before, fault, after time.Duration }

// failFaults are a server that is gone, which its clients see at once, and one
// that says nothing, which they do not.
func failFaults() []fault { return []fault{killed("outage"), stopped("stall")} }

func failClaims() []Claim {
	inf := math.Inf(1)
	var claims []Claim
	for _, f := range failFaults() {
		row := func(mode string) string { return f.name + " " + mode }
		claims = append(claims,
			Claim{Row: row(saysAllow), Column: "admitted_ratio", Min: 2, Max: 5.5},
			Claim{Row: row(saysAllow), Column: "refused"},
			Claim{Row: row(saysDeny), Column: "admitted_ratio", Max: 0.01},
			Claim{Row: row(saysLocal), Column: "admitted_ratio", Min: 0.7, Max: 2},
			Claim{Row: row(saysLocal), Column: "over_bound"},
			Claim{Row: row(noBreaker), Column: "admitted_ratio", Min: 0.7, Max: 2},
			Claim{Row: row(saysAllow), Column: "p99_ms", Max: mostFailP99},
			Claim{Row: row(saysDeny), Column: "p99_ms", Max: mostFailP99},
			Claim{Row: row(saysLocal), Column: "p99_ms", Max: mostFailP99},
		)
	}
	// Where the server is gone every call fails at once, breaker or not. The
	// breaker's work is the stall: without it, callers wait until the connection
	// counts as lost, half a second to a second of the five.
	return append(claims,
		Claim{Row: "outage " + noBreaker, Column: "p99_ms", Max: mostFailP99},
		Claim{Row: "stall " + noBreaker, Column: "p99_ms", Min: millis(budget), Max: 2 * mostFailP99},
		Claim{Row: "stall " + saysLocal, Column: "waited_percent", Max: 4},
		Claim{Row: "stall " + noBreaker, Column: "waited_percent", Min: 5, Max: inf},
		Claim{Row: "stall " + noGuard, Column: "slowest_ms", Min: 100, Max: inf},
	)
}

func runFailModes(ctx context.Context, progress func(string), times failTimes) ([]FailModeRow, error) {
	var rows []FailModeRow
	for _, m := range allFailModes() {
		progress(m.name)
		for try := 1; ; try++ {
			found, disturbed, err := m.meetFaults(ctx, times)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			if !disturbed || try == tries {
				rows = append(rows, found...)
				break
			}
			progress(m.name + ": again, as this machine paused for longer than the budget")
		}
	}
	return rows, nil
}

// meetFaults lets the mode meet both faults at the same time, each on a server of
// its own. disturbed is as that of a fault's run, where the bound did not hold.
func (m *failMode) meetFaults(ctx context.Context, times failTimes) (rows []FailModeRow, disturbed bool, err error) {
	faults := failFaults()
	rows = make([]FailModeRow, len(faults))
	again, errs := make([]bool, len(faults)), make([]error, len(faults))
	var running sync.WaitGroup
	for i := range faults {
		running.Go(func() { rows[i], again[i], errs[i] = m.meet(ctx, &faults[i], times) })
	}
	running.Wait()
	for i := range rows {
		disturbed = disturbed || m.bounded && again[i] && rows[i].OverBound > 0
	}
	return rows, disturbed, errors.Join(errs...)
}

// meet lets traffic of the mode meet one fault. Each part of the run has a record
// of its own, so that what is told of the fault is of calls made while it lasted.
func (m *failMode) meet(ctx context.Context, f *fault, times failTimes) (row FailModeRow, disturbed bool, err error) {
	stage, err := f.stage(ctx)
	if err != nil {
		return row, false, err
	}
	defer stage.close()
	stores, end, err := m.instances(ctx, stage.nodes[0])
	defer end()
	if err != nil {
		return row, false, err
	}
	traffic := Traffic{
		Stores: stores, Callers: 50, Rate: failRate, Keys: failKeys, Limit: outageLimit, OnFailure: m.says, Budget: budget,
	}
	start := time.Now()
	first := traffic.runFor(ctx, times.before, start)
	if err := stage.breaks(ctx); err != nil {
		return row, false, err
	}
	from := time.Since(start)
	during := traffic.runFor(ctx, times.fault, start)
	to := time.Since(start)
	if err := stage.mends(ctx); err != nil {
		return row, false, err
	}
	back := time.Since(start)
	all := merge([]*Record{first, during, traffic.runFor(ctx, times.after, start)})
	row = failRow(during, to-from)
	row.Fault, row.Mode = f.name, m.name
	row.OverBound = all.Over(BoundOf(outageLimit, f.bursts()))
	return row, all.disturbed(from, back+all.backAfter(back)), ctx.Err()
}

// runFor asks for so long, and returns when all is answered.
func (t *Traffic) runFor(ctx context.Context, length time.Duration, start time.Time) *Record {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	return t.Run(ctx, start)
}

// failRow says what the calls of a fault met that lasted so long.
func failRow(r *Record, lasted time.Duration) FailModeRow {
	admitted := 0
	for _, admissions := range r.Admissions {
		admitted += len(admissions)
	}
	waited := 0
	for _, took := range r.Latencies {
		if took >= budget {
			waited++
		}
	}
	asked, rate := len(r.Latencies), BoundOf(outageLimit, 1).Rate
	return FailModeRow{
		Ratio:   float64(admitted) / (failKeys * rate * lasted.Seconds()),
		Refused: asked - len(r.Errors) - admitted,
		Errors:  len(r.Errors),
		Slowest: millis(Quantile(r.Latencies, 1)),
		P99:     millis(Quantile(r.Latencies, 0.99)),
		Waited:  100 * float64(waited) / max(1, float64(asked)),
	}
}

func plotFailModes(t *Table) plot.Plot {
	draw := func(title, axis, column string) *plot.Bars {
		b := &plot.Bars{Title: title, Values: plot.Axis{Label: axis}}
		faults := failFaults()
		for _, f := range faults {
			b.Series = append(b.Series, plot.BarSeries{Name: f.name + " of 5 s"})
		}
		for row := range t.Cells {
			if row%len(faults) == 0 {
				b.Labels = append(b.Labels, cellText(t.Cells[row][t.column("mode")]))
			}
			s := &b.Series[row%len(faults)]
			s.Values = append(s.Values, t.Number(row, column))
		}
		return b
	}
	ratio := draw("Admitted while Redis was away, 1 being what the limit's rate lets through", "ratio", "admitted_ratio")
	waits := draw("How long the slowest hundredth of the calls took at least", "time (ms)", "p99_ms")
	waits.Values.Log = true
	return plot.Stack{ratio, waits}
}
