package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A worker decides once on each of the keys. It is used by one goroutine.
type worker func(keys []string) error

// A load says what the workers ask for: one goroutine for each order, which
// goes through its keys again and again. Orders are drawn beforehand.
type load struct {
	orders [][]string
}

const (
	manyKeys    = 100_000
	orderLength = 1 << 20
	keyBytes    = 16
)

// key returns the i-th key.
func key(i int) string { return fmt.Sprintf("tenant-%09d", i) }

// serialLoad is one goroutine with one key.
func serialLoad() load { return load{[][]string{order(key, func() int { return 0 })}} }

// uniformLoad is a goroutine for each core, with many keys equally likely.
func uniformLoad() load {
	return parallel(func(r *rand.Rand) func() int {
		return func() int { return r.IntN(manyKeys) }
	})
}

// zipfLoad is like uniformLoad, but a few keys are asked for most of the time.
func zipfLoad() load {
	return parallel(func(r *rand.Rand) func() int {
		zipf := rand.NewZipf(r, 1.1, 1, manyKeys-1)
		return func() int { return int(zipf.Uint64()) }
	})
}

func parallel(distribution func(*rand.Rand) func() int) load {
	var l load
	for n := range runtime.GOMAXPROCS(0) {
		l.orders = append(l.orders, order(key, distribution(source(n))))
	}
	return l
}

// source returns the random numbers of a worker: the same in every run.
func source(worker int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(worker))) }

// order draws the keys of one worker. Each is a copy of its own, one behind the
// other: the key of a real request has just been read, so it is near at hand,
// and it is never the very string that a limiter keeps.
func order(key func(int) string, draw func() int) []string {
	known := map[int]string{}
	var text strings.Builder
	text.Grow(orderLength * keyBytes)
	for range orderLength {
		i := draw()
		if _, ok := known[i]; !ok {
			known[i] = key(i)
		}
		text.WriteString(known[i])
	}
	keys := make([]string, orderLength)
	for i := range keys {
		keys[i] = text.String()[i*keyBytes : (i+1)*keyBytes]
	}
	return keys
}

// side makes workers, warms them up and returns a side that measures
// nanoseconds a decision: time passed, not processor time, over the decisions
// of all workers.
func (l load) side(round time.Duration, make func() worker) (side, error) {
	runners := l.runners(make)
	// The first pass meets new keys, the second tells how much fits a round.
	if _, err := timed(runners, orderLength); err != nil {
		return nil, err
	}
	warm, err := timed(runners, orderLength)
	if err != nil {
		return nil, err
	}
	n := max(1, int(float64(orderLength)*float64(round)/float64(warm)))
	return func() (sample, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		elapsed, err := timed(runners, n)
		runtime.ReadMemStats(&after)
		total := float64(n * len(runners))
		return sample{
			value:  float64(elapsed) / total,
			allocs: float64(after.Mallocs-before.Mallocs) / total,
		}, err
	}, nil
}

// A runner takes one worker through its order and goes on where it stopped.
type runner struct {
	work  worker
	order []string
	next  int
}

func (l load) runners(make func() worker) []*runner {
	var runners []*runner
	for _, order := range l.orders {
		runners = append(runners, &runner{work: make(), order: order})
	}
	return runners
}

// run decides n times.
func (r *runner) run(n int) error {
	for n > 0 {
		part := r.order[r.next:min(r.next+n, len(r.order))]
		if err := r.work(part); err != nil {
			return err
		}
		n -= len(part)
		r.next = (r.next + len(part)) % len(r.order)
	}
	return nil
}

// timed lets every runner decide n times, all at once, and returns the time
// that passed.
func timed(runners []*runner, n int) (time.Duration, error) {
	errs := make(chan error, len(runners))
	var wg sync.WaitGroup
	start := time.Now()
	for _, r := range runners {
		wg.Go(func() { errs <- r.run(n) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return elapsed, nil
}
