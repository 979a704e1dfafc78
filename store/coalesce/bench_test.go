package coalesce

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A nothing grants everything at once, or after a yield.
type nothing struct {
	calls, charges atomic.Int64
	yield          bool
}

func (n *nothing) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	n.calls.Add(1)
	n.charges.Add(int64(len(charges)))
	if n.yield {
		runtime.Gosched()
	}
	for i := range charges {
		c := &charges[i]
		dst = append(dst, sluice.Decision{Allowed: true, Granted: c.N, Limit: c.Limit.Burst})
	}
	return dst, nil
}

var rate = sluice.Limit{Tokens: 1000, Per: time.Second}

func BenchmarkSerial(b *testing.B) {
	s := New(new(nothing), Options{})
	defer s.Close()
	charges := []sluice.Charge{{Key: "tenant-000000001", Limit: rate, N: 1}}
	dst := make([]sluice.Decision, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(context.Background(), dst, charges); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParallel is 64 callers of one key, of many, and of many that share
// their first key.
func BenchmarkParallel(b *testing.B) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%09d", i)
	}
	one := func(i int) []sluice.Charge { return []sluice.Charge{{Key: names[i%len(names)], Limit: rate, N: 1}} }
	for _, bb := range []struct {
		name string
		call func(i int) []sluice.Charge
	}{
		{"hot", func(int) []sluice.Charge { return one(0) }},
		{"uniform", one},
		{"shared", func(i int) []sluice.Charge { return append(one(0), one(i)...) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			below := &nothing{yield: true}
			s := New(below, Options{})
			defer s.Close()
			var started atomic.Int64
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				calls := make([][]sluice.Charge, 100)
				first := int(started.Add(1)) * len(calls)
				for i := range calls {
					calls[i] = bb.call(first + i)
				}
				dst := make([]sluice.Decision, 0, 2)
				for i := 0; pb.Next(); i++ {
					if _, err := s.Take(context.Background(), dst, calls[i%len(calls)]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(below.calls.Load())/float64(b.N), "calls/op")
		})
	}
}
