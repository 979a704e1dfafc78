package memory_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/store/memory"
)

// heap returns the bytes in use after all garbage is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A million idle token buckets cost at most 64 bytes each beyond their keys,
// however full their tables happen to be.
func TestBytesPerKey(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("measures a million keys")
	}
	const keyBytes = 16
	s := memory.New(memory.Options{MaxKeys: 2_000_000})
	n := 0
	before := heap()
	for _, keys := range []int{700_000, 1_000_000, 1_400_000} {
		for ; n < keys; n++ {
			take(t, s, fmt.Sprintf("tenant-%09d", n), bucket, 1)
		}
		perKey := float64(heap()-before)/float64(n) - keyBytes
		t.Logf("%d keys: %.1f B a key beyond its bytes", n, perKey)
		if perKey > 64 {
			t.Errorf("%d keys: %.1f B a key beyond its bytes, want at most 64", n, perKey)
		}
	}
	if s.Len() != n || s.Stats().Evicted != 0 {
		t.Errorf("%+v, want %d keys, none evicted", s.Stats(), n)
	}
	start := time.Now()
	runtime.GC()
	t.Logf("a collection with %d keys took %v", n, time.Since(start))
}
