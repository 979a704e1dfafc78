package guard_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/redis"
)

// A real server is killed, stopped, and restarted empty under some callers. No
// decision may take long, and the server must decide again soon after it is
// back, with what was admitted meanwhile charged to it.
func TestRealOutages(t *testing.T) {
	for _, tt := range []struct {
		name string
		away func(*testing.T, *servers.Redis)
		back func(*testing.T, *servers.Redis)
	}{
		{
			"killed and restarted empty",
			func(_ *testing.T, r *servers.Redis) { r.Kill() },
			func(t *testing.T, r *servers.Redis) { must(t, r.Restart(t.Context())) },
		},
		{
			"stopped",
			func(t *testing.T, r *servers.Redis) { must(t, r.Pause()) },
			func(t *testing.T, r *servers.Redis) { must(t, r.Resume()) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, err := servers.StartRedis(t.Context())
			must(t, err)
			t.Cleanup(server.Close)
			h := newHarness(t, server)
			h.wait(t, sluice.SourceStore, time.Second)
			tt.away(t, server)
			h.wait(t, sluice.SourceFallback, time.Second)
			h.exhaust(t)
			start := time.Now()
			tt.back(t, server)
			h.wait(t, sluice.SourceStore, 5*time.Second)
			took := time.Since(start)
			h.stop()
			// One budget to see it, another for a decision that was under way,
			// and as much again as this machine may make anybody wait.
			slices.Sort(h.took)
			slowest := h.took[len(h.took)-1]
			t.Logf("%d decisions, slowest %v, p99.9 %v, back after %v", len(h.took), slowest, h.took[len(h.took)*999/1000], took)
			if took > 2*time.Second {
				t.Errorf("the server decides again after %v, want under 2s", took)
			}
			if slowest > 250*time.Millisecond {
				t.Errorf("the slowest decision took %v", slowest)
			}
			stats := h.guard.Stats()
			if stats.Live != 1 || !stats.Known {
				t.Errorf("stats = %+v, want one instance, counted", stats)
			}
			// A machine too busy for the budget cuts settlements off.
			d := h.take(t, "exhausted", 0)
			if stats.Lost == 0 && d.Source == sluice.SourceStore && d.Remaining != 0 {
				t.Errorf("what was used up meanwhile: %+v, want nothing left in the server", d)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A harness runs callers over a guarded server.
type harness struct {
	guard *guard.Store
	stop  func()

	mu   sync.Mutex
	took []time.Duration
}

func newHarness(t *testing.T, process *servers.Redis) *harness {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{process.Addr}, DisableRetry: true, DisableCache: true,
	})
	must(t, err)
	t.Cleanup(client.Close)
	return harnessOver(t, redis.New(client, redis.Options{}))
}

func harnessOver(t *testing.T, server *redis.Store) *harness {
	next := coalesce.New(server, coalesce.Options{})
	t.Cleanup(next.Close)
	h := &harness{guard: guard.New(next, memory.New(memory.Options{}), guard.Options{TTL: time.Second, Registrar: server})}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.guard.Run(ctx) })
	for range 8 {
		running.Go(func() { h.call(ctx, t) })
	}
	h.stop = func() { cancel(); running.Wait() }
	t.Cleanup(h.stop)
	return h
}

// call asks about 200 times a second.
func (h *harness) call(ctx context.Context, t *testing.T) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		start := time.Now()
		h.take(t, "busy", 1)
		took := time.Since(start)
		h.mu.Lock()
		h.took = append(h.took, took)
		h.mu.Unlock()
	}
}

func (h *harness) take(t *testing.T, key string, n int64) sluice.Decision {
	limit := sluice.Limit{Tokens: 50, Per: time.Hour}
	if key == "busy" {
		limit = sluice.Limit{Tokens: 1000, Per: time.Second}
	}
	d, err := h.guard.Take(context.Background(), nil, []sluice.Charge{{Key: key, Limit: limit, N: n}})
	if err != nil {
		t.Error(err)
		return sluice.Decision{}
	}
	return d[0]
}

// exhaust uses a limit up.
func (h *harness) exhaust(t *testing.T) {
	for range 100 {
		h.take(t, "exhausted", 1)
	}
}

// wait polls until decisions come from a source.
func (h *harness) wait(t *testing.T, want sluice.Source, within time.Duration) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(within)
	for streak := 0; streak < 10; {
		d := h.take(t, "busy", 1)
		if streak++; d.Source != want {
			streak = 0
		}
		if time.Now().After(deadline) {
			t.Fatalf("decisions come from %v, want %v within %v: %+v", d.Source, want, within, h.guard.Stats())
		}
		<-ticker.C
	}
}
