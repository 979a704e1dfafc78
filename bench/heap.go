package main

import (
	"fmt"
	"runtime"
)

const idleKeys = 1_000_000

// heapBenchmarks weigh what limiters keep.
func heapBenchmarks() []benchmark {
	return []benchmark{{
		name:   "memory/bytes-per-key",
		unit:   "B/key",
		target: []bound{atMost("value", 64)},
		measure: func(s settings) (result, error) {
			return compare(s.pairs, weigh(ours(idle)), weigh(xtime(idle)))
		},
	}}
}

// weigh measures the bytes that a limiter keeps for each of a million keys,
// beyond the bytes of the key itself. Only the limiter holds the keys, so that
// it makes no difference whether it copies them.
func weigh(s subject) side {
	return func() (sample, error) {
		before := liveBytes()
		limiter, err := s.start()
		if err != nil {
			return sample{}, err
		}
		defer limiter.stop()
		work := limiter.worker()
		one := make([]string, 1)
		for i := range idleKeys {
			one[0] = key(i)
			if err := work(one); err != nil {
				return sample{}, err
			}
		}
		one[0] = ""
		kept := float64(liveBytes()) - float64(before)
		// Without this the collector may take the limiter away while it is weighed.
		runtime.KeepAlive(work)
		if kept <= 0 {
			return sample{}, fmt.Errorf("%d keys weigh %g bytes", idleKeys, kept)
		}
		return sample{value: kept/idleKeys - keyBytes}, nil
	}
}

// liveBytes returns the bytes in use; the second collection frees what the
// first one's finalizers let go.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
