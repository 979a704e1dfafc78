package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// outage breaks a real Redis in the ways in which it breaks, under traffic, and
// asks what callers saw: how long the slowest decision took, whether more was
// admitted than may be, and how soon decisions came from Redis again.
var outage = Experiment{
	Name:  "outage",
	Does:  "break Redis under traffic: the slowest decision, admissions over the bound, time to recover",
	Takes: 45 * time.Second,
	Run:   runOutage,
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
	mostExcess    = 1.0    // ms at p99.9 over a bare timer of the budget
	mostBackAfter = 2000.0 // ms
)

func (r *OutageRow) ok() bool {
	return r.OverBound == 0 && r.WithoutTTL == 0 && r.Excess <= mostExcess && r.BackAfter <= mostBackAfter
}

// A Fault is a way to break a server.
type Fault struct {
	Name string
	// Break breaks the server, or begins to; Mend mends it.
	Break, Mend func(context.Context, *servers.Redis) error
	// Forgets says that the server loses what was used: its data, or by a clock
	// that jumps forward the time in which it would have been owed. That is worth
	// a burst a key, beside the one of the outage (a failover may
	// forget as much).
	Forgets bool
	// Args are added to the server's command line.
	Args []string
	// Clock, if the server is to run under one, is moved by the fault.
	Clock *servers.Clock
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
	faults, cleanup, err := outageFaults()
	if err != nil {
		return nil, false, err
	}
	defer cleanup()
	var rows []OutageRow
	ok := true
	for _, f := range faults {
		progress(f.Name)
		row, err := f.run(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", f.Name, err)
		}
		ok = ok && row.ok()
		rows = append(rows, *row)
	}
	return rows, ok, nil
}

// outageFaults returns what can happen to a single server.
func outageFaults() ([]Fault, func(), error) {
	do := func(words ...string) func(context.Context, *servers.Redis) error {
		return func(_ context.Context, r *servers.Redis) error { return command(r, words...) }
	}
	kill := func(_ context.Context, r *servers.Redis) error { r.Kill(); return nil }
	restart := func(ctx context.Context, r *servers.Redis) error { return r.Restart(ctx) }
	faults := []Fault{
		{Name: "none", Break: do("PING"), Mend: do("PING")},
		{Name: "kill -9, back empty", Break: kill, Mend: restart, Forgets: true},
		{
			Name:  "SIGSTOP: accepts, never answers",
			Break: func(_ context.Context, r *servers.Redis) error { return r.Pause() },
			Mend:  func(_ context.Context, r *servers.Redis) error { return r.Resume() },
		},
		{
			Name:    "restarted at once, empty",
			Forgets: true,
			Break: func(ctx context.Context, r *servers.Redis) error {
				r.Kill()
				return r.Restart(ctx)
			},
			Mend: do("PING"),
		},
		{Name: "scripts flushed in a loop", Break: flushScripts, Mend: do("PING")},
		{Name: "memory full, noeviction", Break: do("CONFIG", "SET", "maxmemory", "1mb"), Mend: do("CONFIG", "SET", "maxmemory", "0")},
		{Name: "master turned replica", Break: do("REPLICAOF", "127.0.0.1", "1"), Mend: do("REPLICAOF", "NO", "ONE")},
	}
	dir, err := os.MkdirTemp("", "sluice-lab-")
	if err != nil {
		return nil, nil, err
	}
	clock, err := servers.NewClock(dir)
	if err == nil {
		// Without faketime the rest is still worth measuring.
		faults = append(faults, Fault{
			Name:    "clock an hour forward, then back",
			Forgets: true,
			Clock:   clock,
			Break:   func(context.Context, *servers.Redis) error { return clock.Move(time.Hour) },
			Mend:    func(context.Context, *servers.Redis) error { return clock.Move(0) },
		})
	}
	return faults, func() { os.RemoveAll(dir) }, nil
}

func command(r *servers.Redis, words ...string) error {
	answer, err := r.Do(words...)
	if err == nil && strings.HasPrefix(answer, "-") {
		err = errors.New(answer[1:])
	}
	return err
}

// flushScripts makes the server forget its scripts for as long as the fault
// lasts.
func flushScripts(ctx context.Context, r *servers.Redis) error {
	ctx, cancel := context.WithTimeout(ctx, broken)
	defer cancel()
	for ctx.Err() == nil {
		if err := command(r, "SCRIPT", "FLUSH"); err != nil {
			return err
		}
	}
	return nil
}

// run lets traffic meet the fault.
func (f *Fault) run(ctx context.Context) (*OutageRow, error) {
	server, err := f.start(ctx)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	fleet, err := NewFleet(ctx, 3, "redis://"+server.Addr)
	if err != nil {
		return nil, err
	}
	defer fleet.Close()
	traffic := Traffic{Stores: fleet.Stores(), Callers: 50, Rate: 2000, Keys: 20, Limit: outageLimit, Budget: budget}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan *Record, 1)
	start := time.Now()
	go func() { done <- traffic.Run(ctx, start) }()
	back, err := f.happen(ctx, server, start)
	cancel()
	record := <-done
	if err != nil {
		return nil, err
	}
	row := f.row(record, back)
	row.WithoutTTL, err = withoutTTL(server)
	return row, err
}

func (f *Fault) start(ctx context.Context) (*servers.Redis, error) {
	if f.Clock != nil {
		return f.Clock.StartRedis(ctx, f.Args...)
	}
	return servers.StartRedis(ctx, f.Args...)
}

// happen breaks and mends the server, and returns when it was whole again.
func (f *Fault) happen(ctx context.Context, server *servers.Redis, start time.Time) (back time.Duration, err error) {
	sleep(ctx, before)
	began := time.Now()
	if err := f.Break(ctx, server); err != nil {
		return 0, err
	}
	sleep(ctx, broken-time.Since(began))
	if err := f.Mend(ctx, server); err != nil {
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

// bursts returns how many bursts a key may have beside its rate: its own, one of
// the outage, and one that the server forgot.
func (f *Fault) bursts() int64 {
	if f.Forgets {
		return 3
	}
	return 2
}

func (f *Fault) row(r *Record, back time.Duration) *OutageRow {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	row := &OutageRow{
		Fault:     f.Name,
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

// withoutTTL counts the keys that would stay for ever.
func withoutTTL(server *servers.Redis) (int, error) {
	keys, err := server.Do("KEYS", "*")
	if err != nil {
		return 0, err
	}
	n := 0
	for key := range strings.FieldsSeq(keys) {
		ttl, err := server.Do("PTTL", key)
		if err != nil {
			return 0, err
		}
		if ttl == "-1" {
			n++
		}
	}
	return n, nil
}
