package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

const benchKeys = 100_000

func benchNames() []string {
	names := make([]string, benchKeys)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%09d", i)
	}
	return names
}

func BenchmarkOneKey(b *testing.B) {
	s := memory.New(memory.Options{})
	charges := []sluice.Charge{{Key: "tenant-000000001", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}}
	var dst [1]sluice.Decision
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(context.Background(), dst[:0], charges); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkZipf(b *testing.B) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, benchKeys-1)
	benchParallel(b, func() int { return int(zipf.Uint64()) }, 1)
}

func BenchmarkUniform(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	benchParallel(b, func() int { return random.IntN(benchKeys) }, 1)
}

// BenchmarkGroup is a request under three limits, one of which all share.
func BenchmarkGroup(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	benchParallel(b, func() int { return random.IntN(benchKeys) }, 3)
}

// benchParallel takes one token each of some keys, the first drawn, in one
// group.
func benchParallel(b *testing.B, draw func() int, size int) {
	s := memory.New(memory.Options{})
	names := benchNames()
	draws := make([]int32, 1<<20)
	for i := range draws {
		draws[i] = int32(draw())
	}
	charge := sluice.Charge{Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}
	for _, charge.Key = range names {
		if _, err := s.Take(context.Background(), nil, []sluice.Charge{charge}); err != nil {
			b.Fatal(err)
		}
	}
	var started atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		charges := make([]sluice.Charge, size)
		for i := range charges {
			charges[i] = charge
			charges[i].Key = "shared"
		}
		dst := make([]sluice.Decision, size)
		i := int(started.Add(77_777))
		for pb.Next() {
			i++
			for j := range max(1, size-1) {
				charges[j].Key = names[(int(draws[i&(1<<20-1)])+j)%benchKeys]
			}
			if _, err := s.Take(context.Background(), dst[:0], charges); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkFreshKeys is the cost of a key never seen before, at the bound.
func BenchmarkFreshKeys(b *testing.B) {
	s := memory.New(memory.Options{MaxKeys: benchKeys})
	charges := []sluice.Charge{{Limit: sluice.Limit{Tokens: 10, Per: time.Hour}, N: 1}}
	var dst [1]sluice.Decision
	key := make([]byte, 0, 32)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		charges[0].Key = string(fmt.Appendf(key[:0], "tenant-%09d", i))
		if _, err := s.Take(context.Background(), dst[:0], charges); err != nil {
			b.Fatal(err)
		}
	}
}
