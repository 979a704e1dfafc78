package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// crowd lets callers ask, each as soon as it is answered, for the time of a
// round, and measures decisions a second.
func crowd(callers int, round time.Duration, keys draw, take func(key string) error) side {
	return func() (sample, error) {
		var total atomic.Int64
		errs := make(chan error, callers)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		var wg sync.WaitGroup
		for n := range callers {
			wg.Go(func() {
				next := keys(source(n))
				count := int64(0)
				defer func() { total.Add(count) }()
				for ; count%16 != 0 || time.Since(start) < round; count++ {
					if err := take(next()); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		elapsed := time.Since(start)
		runtime.ReadMemStats(&after)
		select {
		case err := <-errs:
			return sample{}, err
		default:
		}
		n := float64(total.Load())
		return sample{value: n / elapsed.Seconds(), allocs: float64(after.Mallocs-before.Mallocs) / n}, nil
	}
}
