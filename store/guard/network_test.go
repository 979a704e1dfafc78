package guard_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/servers/proxy"
	"github.com/sluice-limiter/sluice/store/redis"
)

// A server whose answers come after the budget, or never, is there and of no
// use: decisions are made here within their budget, and by the server again once
// the network is well.
func TestBadNetwork(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(*proxy.Proxy)
	}{
		{"answers 6 ms late", func(p *proxy.Proxy) { p.Delay(6 * time.Millisecond) }},
		{"answers swallowed", (*proxy.Proxy).Swallow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, err := servers.StartRedis(t.Context())
			must(t, err)
			t.Cleanup(server.Close)
			p, err := proxy.Start(server.Addr)
			must(t, err)
			t.Cleanup(p.Close)
			store, err := redis.Open(t.Context(), "redis://"+p.Addr, redis.OpenOptions{})
			must(t, err)
			t.Cleanup(store.Close)
			h := harnessOver(t, store)
			h.wait(t, sluice.SourceStore, 5*time.Second)
			tt.fault(p)
			h.wait(t, sluice.SourceFallback, 5*time.Second)
			h.exhaust(t)
			inTime := 0
			const asked = 100
			ticker := time.NewTicker(5 * time.Millisecond)
			defer ticker.Stop()
			for range asked {
				if h.take(t, "busy", 1).Source == sluice.SourceStore {
					inTime++ // this machine ended the budget late
				}
				<-ticker.C
			}
			if inTime > asked/2 {
				t.Errorf("%d of %d decisions are the server's while no answer comes in time", inTime, asked)
			}
			p.Clear()
			start := time.Now()
			h.wait(t, sluice.SourceStore, 5*time.Second)
			back := time.Since(start)
			h.stop()
			slices.Sort(h.took)
			slowest := h.took[len(h.took)-1]
			t.Logf("%d decisions, slowest %v, p99.9 %v, back after %v", len(h.took), slowest, h.took[len(h.took)*999/1000], back)
			if slowest > 250*time.Millisecond {
				t.Errorf("the slowest decision took %v", slowest)
			}
			if back > 2*time.Second {
				t.Errorf("the server decides again after %v, want under 2s", back)
			}
			if d := h.take(t, "exhausted", 0); h.guard.Stats().Lost == 0 && d.Source == sluice.SourceStore && d.Remaining != 0 {
				t.Errorf("what was used up meanwhile: %+v, want nothing left in the server", d)
			}
		})
	}
}
