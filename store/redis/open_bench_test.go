package redis

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// BenchmarkFlushDelay shows what holding calls back for a moment costs and
// saves: rates, and the CPU of this program a decision.
func BenchmarkFlushDelay(b *testing.B) {
	server, err := servers.StartRedis(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	for _, delay := range []time.Duration{0, 20 * time.Microsecond} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/%d callers", delay, callers), func(b *testing.B) {
				s, err := Open(b.Context(), "redis://"+server.Addr, OpenOptions{FlushDelay: delay})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				for take(s, "up") != nil {
				}
				b.ReportAllocs()
				b.SetParallelism(max(1, callers/2))
				before := cpu()
				if callers == 1 {
					for b.Loop() {
						take(s, "key")
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						charges := []sluice.Charge{{Key: "key", Limit: perHour, N: 1}}
						var dst []sluice.Decision
						for pb.Next() {
							dst, _ = s.Take(context.Background(), dst[:0], charges)
						}
					})
				}
				b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func cpu() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
