package shard

import (
	"context"
	"testing"

	"github.com/sluice-limiter/sluice"
)

// BenchmarkTake shows what shards cost a call beside one that has none.
func BenchmarkTake(b *testing.B) {
	for name, shards := range map[string]int{"without": 0, "with 10": 10} {
		b.Run(name, func(b *testing.B) {
			s := New(still{})
			ctx, charges, dst := context.Background(), []sluice.Charge{in(shards, "everyone", 1)}, make([]sluice.Decision, 0, 1)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Take(ctx, dst, charges)
			}
		})
	}
}
