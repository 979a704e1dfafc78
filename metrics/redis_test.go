package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/redis"
)

// TestRedisKinds meets the faults of a real server: each is of the kind that
// tells an operator where to look.
func TestRedisKinds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server, err := servers.StartRedis(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	m := metrics.New(metrics.Options{Away: []error{redis.ErrAway}})
	below, err := redis.Open(ctx, "redis://"+server.Addr, redis.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	store := m.Store(below)
	ask := func() error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := store.Take(ctx, nil, []sluice.Charge{{Key: "a", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}})
		return err
	}
	awaitAnswer(ctx, t, ask)
	before := nonzero(scrape(t, m), "sluice_store_errors_total") // while it connected

	do := func(words ...string) {
		t.Helper()
		if _, err := server.Do(words...); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	expect := func(fault string, kinds ...string) {
		t.Helper()
		if ask() == nil {
			t.Fatalf("%s: the store answered", fault)
		}
		after := nonzero(scrape(t, m), "sluice_store_errors_total")
		for _, kind := range kinds {
			name := `sluice_store_errors_total{kind="` + kind + `",operation="take"}`
			if after[name] == before[name]+1 {
				before = after
				return
			}
		}
		t.Errorf("%s: %s, want one more of %v", fault, cmp.Diff(before, after), kinds)
		before = after
	}
	do("CONFIG", "SET", "maxmemory", "1")
	expect("out of memory", "script")
	do("CONFIG", "SET", "maxmemory", "0")

	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	expect("hanging", "timeout")
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(ctx, t, ask)
	before = nonzero(scrape(t, m), "sluice_store_errors_total")

	server.Kill()
	expect("killed", "connection_lost", "connection_refused")
	expect("away", "connection_lost", "connection_refused")
}

// awaitAnswer polls until the store answers.
func awaitAnswer(ctx context.Context, t *testing.T, ask func() error) {
	t.Helper()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the store never answered: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
