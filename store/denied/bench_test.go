package denied

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

var daily = sluice.Limit{Tokens: 1, Per: 24 * time.Hour}

// BenchmarkRefused is a hot key under its limit, refused by all callers.
func BenchmarkRefused(b *testing.B) {
	for _, limit := range []sluice.Limit{daily, {Tokens: 1, Per: 24 * time.Hour, Algorithm: sluice.SlidingWindow}} {
		b.Run(limit.Algorithm.String(), func(b *testing.B) {
			benchCall(b, sluice.Charge{Key: "tenant-000000001", Limit: limit, N: 1})
		})
	}
}

// BenchmarkRefusedGroup is a request under two limits of which one refuses.
func BenchmarkRefusedGroup(b *testing.B) {
	other := daily
	other.Tokens = 1000
	benchCall(b,
		sluice.Charge{Key: "tenant-000000001", Limit: daily, N: 1},
		sluice.Charge{Key: "user-000000001", Limit: other, N: 1},
	)
}

// BenchmarkRefusedShadow is a refused request whose shadow limit is counted.
func BenchmarkRefusedShadow(b *testing.B) {
	benchCall(b,
		sluice.Charge{Key: "tenant-000000001", Limit: daily, N: 1},
		sluice.Charge{Key: "shadow-000000001", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1, Group: 1},
	)
}

func benchCall(b *testing.B, charges ...sluice.Charge) {
	s := New(memory.New(memory.Options{}), Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		dst := make([]sluice.Decision, 0, len(charges))
		for pb.Next() {
			if _, err := s.Take(context.Background(), dst, charges); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAllowed is what the store costs where nothing is refused, over one
// whose cost is reported beside it.
func BenchmarkAllowed(b *testing.B) {
	below := memory.New(memory.Options{})
	for _, bb := range []struct {
		name  string
		store sluice.Store
	}{{"below", below}, {"denied", New(below, Options{})}} {
		b.Run(bb.name, func(b *testing.B) {
			charges := make([][]sluice.Charge, 10_000)
			for i := range charges {
				charges[i] = []sluice.Charge{{Key: fmt.Sprintf("tenant-%09d", i), Limit: sluice.Limit{Tokens: 1_000_000, Per: time.Second}, N: 1}}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				dst := make([]sluice.Decision, 0, 1)
				for i := 0; pb.Next(); i++ {
					if _, err := bb.store.Take(context.Background(), dst, charges[i%len(charges)]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
