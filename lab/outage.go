package lab

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// outage breaks real servers in the ways in which they break, under traffic, and
// asks what callers saw: how long the slowest decision took, whether more was
// admitted than may be, and how soon decisions came from Redis again.
var outage = Experiment{
	Name:  "outage",
	Does:  "break Redis under traffic: the slowest decision, admissions over the bound, time to recover",
	Takes: 85 * time.Second,
	Run:   runOutage,
	Claims: []Claim{
		{Column: "over_bound"},
		{Column: "keys_without_ttl"},
		{Column: "p999_excess_ms", Max: mostExcess},
		{Column: "back_after_ms", Max: mostBackAfter},
	},
	Explains: "Three instances ask for tokens 2,000 times a second while their Redis is broken for a second and a half and mended again. " +
		"The slowest decision is the time budget of 5 ms and what this machine's timers are late; the bound is the one stated for outages; the time to recover counts from the mending.",
	Plot: func(t *Table) plot.Plot {
		b := t.bars("How soon decisions came from Redis again, after it was mended", "time (ms)", "back_after_ms", nil)
		b.Values.Log = true
		return b
	},
}

// An OutageRow is what one fault did.
type OutageRow struct {
	Fault      string  `json:"fault"`
	Decisions  int     `json:"decisions"`
	Local      int     `json:"local"`        // of them, by local counters
	Bursts     int64   `json:"bound_bursts"` // the bound: so many bursts + rate x window
	OverBound  int     `json:"over_bound"`
	Slowest    float64 `json:"slowest_ms"`
	Excess     float64 `json:"p999_excess_ms"`
	BackAfter  float64 `json:"back_after_ms"`
	WithoutTTL int     `json:"keys_without_ttl"`
}

// What the rows must show.
const (
	mostExcess    = 1.0  // ms at p99.9 over a bare timer of the budget
	mostBackAfter = 2000 // ms
)

func (r *OutageRow) ok() bool {
	return r.OverBound == 0 && r.WithoutTTL == 0 && r.Excess <= mostExcess && r.BackAfter <= mostBackAfter
}

const (
	before = time.Second             // of traffic before a fault
	broken = 1500 * time.Millisecond // that it lasts
	after  = 3 * time.Second         // of traffic after it
	budget = 5 * time.Millisecond
)

// outageLimit is small against the traffic on each key, so that most of what
// is asked is refused and every token too many shows.
var outageLimit = sluice.Limit{Tokens: 20, Per: time.Second, Burst: 40}

func runOutage(ctx context.Context, progress func(string)) (any, bool, error) {
	var rows []OutageRow
	ok := true
	for _, f := range outageFaults() {
		progress(f.name)
		row, err := f.measure(ctx, progress)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", f.name, err)
		}
		ok = ok && row.ok()
		rows = append(rows, *row)
	}
	return rows, ok, nil
}

// tries is how often a fault may be run.
const tries = 3

// measure runs the fault. The bound holds for one outage: between two of them the
// local counters refill beside the store. Where this machine's own pauses made
// another one, before the fault or once all was well again, and the bound was
// broken, the run says nothing, and is done again.
func (f *fault) measure(ctx context.Context, progress func(string)) (row *OutageRow, err error) {
	for range tries {
		var disturbed bool
		row, disturbed, err = f.run(ctx)
		if err != nil || !disturbed || row.OverBound == 0 {
			break
		}
		progress(f.name + ": again, as this machine paused for longer than the budget")
	}
	return row, err
}

// run lets traffic meet the fault. disturbed says that local counters decided
// also when nothing was broken.
func (f *fault) run(ctx context.Context) (row *OutageRow, disturbed bool, err error) {
	stage, err := f.stage(ctx)
	if err != nil {
		return nil, false, err
	}
	defer stage.close()
	fleet, err := NewFleet(ctx, 3, stage.url)
	if err != nil {
		return nil, false, err
	}
	defer fleet.Close()
	traffic := Traffic{Stores: fleet.Stores(), Callers: 50, Rate: 2000, Keys: 20, Limit: outageLimit, Budget: budget}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan *Record, 1)
	start := time.Now()
	go func() { done <- traffic.Run(ctx, start) }()
	back, err := f.happen(ctx, stage, start)
	cancel()
	record := <-done
	if err != nil {
		return nil, false, err
	}
	row = f.row(record, back)
	row.WithoutTTL, err = stage.withoutTTL()
	return row, record.disturbed(before, back+record.backAfter(back)), err
}

// disturbed says whether local counters decided outside of an outage.
func (r *Record) disturbed(from, to time.Duration) bool {
	return slices.ContainsFunc(r.Fallback, func(at time.Duration) bool { return at < from || at > to })
}

// happen breaks and mends the servers, and returns when they were whole again.
func (f *fault) happen(ctx context.Context, s *stage, start time.Time) (back time.Duration, err error) {
	sleep(ctx, before)
	began := time.Now()
	if err := s.breaks(ctx); err != nil {
		return 0, err
	}
	if !f.heals {
		sleep(ctx, broken-time.Since(began))
	}
	if err := s.mends(ctx); err != nil {
		return 0, err
	}
	back = time.Since(start)
	sleep(ctx, after)
	return back, ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (f *fault) row(r *Record, back time.Duration) *OutageRow {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	row := &OutageRow{
		Fault:     f.name,
		Decisions: len(r.Latencies),
		Local:     len(r.Fallback),
		Bursts:    f.bursts(),
		OverBound: r.Over(BoundOf(outageLimit, f.bursts())),
		Slowest:   ms(Quantile(r.Latencies, 1)),
		Excess:    max(0, ms(Quantile(r.Latencies, 0.999)-Quantile(r.Timer, 0.999))),
	}
	row.BackAfter = ms(r.backAfter(back))
	return row
}

// backAfter returns how long after a time decisions came from the store for
// good: for a tenth of a second at least, without one from local counters.
func (r *Record) backAfter(back time.Duration) time.Duration {
	const lasting = 100 * time.Millisecond
	from := back
	for _, at := range r.Fallback {
		if at >= from && at < from+lasting {
			from = at
		}
	}
	if i := sort.Search(len(r.Store), func(i int) bool { return r.Store[i] >= from }); i < len(r.Store) {
		return r.Store[i] - back
	}
	return time.Hour // never
}
