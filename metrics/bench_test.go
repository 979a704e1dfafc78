package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
)

// BenchmarkStore is what measuring costs, over a store that answers at once.
func BenchmarkStore(b *testing.B) {
	m := metrics.New(metrics.Options{})
	native := metrics.New(metrics.Options{NativeHistograms: true})
	next := scripted{decision: sluice.Decision{Allowed: true}}
	for _, bm := range []struct {
		name  string
		store sluice.Store
	}{
		{"bare", next},
		{"measured", m.Store(next)},
		{"native", native.Store(next)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, charges, dst := context.Background(), []sluice.Charge{{Key: "a"}}, make([]sluice.Decision, 0, 1)
			for b.Loop() {
				_, _ = bm.store.Take(ctx, dst, charges)
			}
		})
		b.Run(bm.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx, charges, dst := context.Background(), []sluice.Charge{{Key: "a"}}, make([]sluice.Decision, 0, 1)
				for pb.Next() {
					_, _ = bm.store.Take(ctx, dst, charges)
				}
			})
		})
	}
}

// BenchmarkObserver counts a verdict of one limit, and of three.
func BenchmarkObserver(b *testing.B) {
	for name, names := range map[string][]string{"1": {"a"}, "3": {"a", "b", "c"}} {
		b.Run(name, func(b *testing.B) {
			engine := policy.NewEngine(scripted{decision: sluice.Decision{Allowed: true}}, set(b, names...))
			observe := metrics.New(metrics.Options{}).Observer(engine.Set)
			var v policy.Verdict
			if err := engine.Decide(b.Context(), policy.Request{N: 1}, &v); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				observe(nil, &v, nil)
			}
		})
	}
}

func BenchmarkLatency(b *testing.B) {
	latency := metrics.New(metrics.Options{}).Latency()
	b.ReportAllocs()
	for b.Loop() {
		latency(time.Millisecond)
	}
}
