package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
)

// A follower keeps an engine's rules those of a table.
type follower struct {
	took   time.Duration // the first load
	memory float64       // in MB, the most that it took from the system
	stop   context.CancelFunc
	done   chan struct{}
}

func followRules(ctx context.Context, url string, engine *policy.Engine, poll time.Duration) (*follower, error) {
	table, err := rules.NewTable(rules.TableOptions{URL: url, Poll: poll, Current: engine.Set, Publish: engine.Swap})
	if err != nil {
		return nil, err
	}
	f := &follower{done: make(chan struct{})}
	f.memory = peak(func() {
		began := time.Now()
		table.Load(ctx)
		f.took = time.Since(began)
	})
	if s := table.Status(); s.Stale {
		return nil, errors.New(s.Problem)
	}
	ctx, f.stop = context.WithCancel(ctx)
	go func() {
		defer close(f.done)
		table.Run(ctx)
	}()
	return f, nil
}

// close may be called again.
func (f *follower) close() {
	f.stop()
	<-f.done
}

// peak returns how many MB of memory f took at most, by looking every few
// milliseconds.
func peak(f func()) float64 {
	runtime.GC()
	taken := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	look := func() float64 {
		metrics.Read(taken)
		return float64(taken[0].Value.Uint64()-taken[1].Value.Uint64()) / (1 << 20)
	}
	before := look()
	ended, most := make(chan struct{}), make(chan float64)
	go func() {
		highest := before
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			highest = max(highest, look())
			select {
			case <-ended:
				most <- highest
				return
			case <-ticker.C:
			}
		}
	}()
	f()
	close(ended)
	return <-most - before
}

// rowWatch sees when changed rows come into force.
type rowWatch struct {
	engine *policy.Engine
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	pending map[int64]expected // by the rows' numbers
	stale   []time.Duration
}

type expected struct {
	capacity int64
	since    time.Time
}

func watchRows(ctx context.Context, engine *policy.Engine) *rowWatch {
	w := &rowWatch{engine: engine, done: make(chan struct{}), pending: make(map[int64]expected)}
	ctx, w.cancel = context.WithCancel(ctx)
	go w.run(ctx)
	return w
}

func (w *rowWatch) stop() {
	w.cancel()
	<-w.done
}

// expect waits for a row that has been committed now.
func (w *rowWatch) expect(id, capacity int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.pending[id]; ok {
		// Overtaken before it was seen: what is in force stays stale since the
		// first of both.
		w.stale = append(w.stale, time.Since(old.since))
	}
	w.pending[id] = expected{capacity, time.Now()}
}

func (w *rowWatch) run(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(200 * time.Microsecond)
	defer ticker.Stop()
	var last *policy.Set
	for ctx.Err() == nil {
		<-ticker.C
		set := w.engine.Set()
		w.mu.Lock()
		if set != last || len(w.pending) > 0 {
			w.look(set)
		}
		w.mu.Unlock()
		last = set
	}
}

// look notes the rows that are in force now. mu must be held.
func (w *rowWatch) look(set *policy.Set) {
	now := time.Now()
	for id, e := range w.pending {
		if row, ok := set.Row(id); ok && row.Capacity == e.capacity {
			w.stale = append(w.stale, now.Sub(e.since))
			delete(w.pending, id)
		}
	}
}

// wait returns how long so many changes took to count.
func (w *rowWatch) wait(n int) ([]time.Duration, error) {
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		w.mu.Lock()
		stale := w.stale
		w.mu.Unlock()
		if len(stale) >= n {
			return stale, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return nil, fmt.Errorf("%d of %d changes were not seen in 30 s", n-len(w.stale), n)
}

// disturbance compares the p99 of decisions while rules change about a thousand
// times a second with that of decisions in between, by turns; and returns how
// often they did change.
func disturbance(ctx context.Context, conn *pgx.Conn, engine *policy.Engine, n int) (ratio, perSecond float64, err error) {
	const rounds, lasts = 5, 500 * time.Millisecond
	var ratios []float64
	changes := 0
	for range rounds {
		quiet := decideFor(ctx, engine, n, lasts)
		changing, stop := context.WithTimeout(ctx, lasts)
		made := make(chan error, 1)
		go func() {
			k, err := keepChanging(changing, ctx, conn, n)
			changes += k
			made <- err
		}()
		disturbed := decideFor(ctx, engine, n, lasts)
		stop()
		if err := <-made; err != nil {
			return 0, 0, err
		}
		ratios = append(ratios, Quantile(disturbed, 0.99).Seconds()/Quantile(quiet, 0.99).Seconds())
	}
	return round(median(ratios), 2), round(float64(changes)/(rounds*lasts.Seconds()), 0), nil
}

// keepChanging changes rows, one at a time, until until ends.
func keepChanging(until, ctx context.Context, conn *pgx.Conn, n int) (changes int, err error) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-until.Done():
			return changes, nil
		case <-ticker.C:
		}
		if _, err := conn.Exec(ctx, "UPDATE rate_limit_rule SET capacity = capacity + 1, updated_at = now() WHERE id = $1", 1+rand.Int64N(int64(n))); err != nil {
			return changes, err
		}
		changes++
	}
}

// decideFor lets one caller decide, every so often as a busy server would, and
// returns how long each decision took.
func decideFor(ctx context.Context, engine *policy.Engine, n int, lasts time.Duration) []time.Duration {
	var waits []time.Duration
	var verdict policy.Verdict
	ticker := time.NewTicker(50 * time.Microsecond)
	defer ticker.Stop()
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		<-ticker.C
		tenant := "shop-" + strconv.Itoa(rand.IntN(max(1, n/3)))
		attributes := func(name string) string {
			if name == "tenant" {
				return tenant
			}
			return "create-order"
		}
		began := time.Now()
		if err := engine.Decide(ctx, policy.Request{Attributes: attributes, N: 1}, &verdict); err == nil {
			waits = append(waits, time.Since(began))
		}
	}
	return waits
}
