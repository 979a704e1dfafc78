package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	slimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A subject is a limiter as its users use it: one limit, any number of keys.
// Bursts are so wide that nothing is refused, and refill so slow that keys stay
// in use: every round measures decisions that pass and are written down.
type subject struct {
	name  string
	start func() (running, error)
}

// A running limiter makes workers, and is stopped in the end.
type running struct {
	worker func() worker
	stop   func()
}

const wideBurst = 1_000_000_000

var (
	// wide is for loads: a key that is asked for often stays in use.
	wide = sluice.Limit{Tokens: 100, Per: time.Second, Burst: wideBurst}
	// idle is for keys that are asked for once: they are not full again, and so
	// cannot be forgotten, while they are weighed.
	idle = sluice.Limit{Tokens: 1, Per: time.Hour, Burst: 100}
)

var errRefused = errors.New("a decision was refused that should pass")

func nothing() {}

// ours is the memory store, with a slice kept for the answers as middleware
// keeps one.
func ours(limit sluice.Limit) subject {
	return subject{"sluice", func() (running, error) {
		store := memory.New(memory.Options{MaxKeys: 1 << 21})
		if err := limit.Validate(); err != nil {
			return running{}, err
		}
		return running{func() worker { return takeEach(store, limit) }, nothing}, nil
	}}
}

func takeEach(store sluice.Store, limit sluice.Limit) worker {
	ctx := context.Background()
	charges := []sluice.Charge{{Limit: limit, N: 1}}
	decisions := make([]sluice.Decision, 0, 1)
	return func(keys []string) error {
		for _, k := range keys {
			charges[0].Key = k
			got, err := store.Take(ctx, decisions[:0], charges)
			if err != nil {
				return err
			}
			if !got[0].Allowed {
				return errRefused
			}
		}
		return nil
	}
}

// front is the memory store behind a [sluice.Limiter], as most programs use it.
func front(limit sluice.Limit) subject {
	return subject{"limiter", func() (running, error) {
		limiter, err := sluice.New(memory.New(memory.Options{MaxKeys: 1 << 21}), limit)
		if err != nil {
			return running{}, err
		}
		ctx := context.Background()
		work := func(keys []string) error {
			for _, k := range keys {
				got, err := limiter.Take(ctx, k, 1)
				if err != nil {
					return err
				}
				if !got.Allowed {
					return errRefused
				}
			}
			return nil
		}
		return running{func() worker { return work }, nothing}, nil
	}}
}

// peers are the other limiters, by the names that rows use.
func peers() []subject {
	return []subject{
		xtime(wide),
		{"ulule", startUlule},
		{"httprate", startHTTPRate},
		{"sethvargo", startSethvargo},
	}
}

// xtime keeps a rate.Limiter for each key in a sync.Map, which is what programs
// write that need one limit for many keys.
func xtime(limit sluice.Limit) subject {
	return subject{"xtime", func() (running, error) {
		perSecond := rate.Limit(float64(limit.Tokens) / limit.Per.Seconds())
		var limiters sync.Map
		work := func(keys []string) error {
			for _, k := range keys {
				limiter, ok := limiters.Load(k)
				if !ok {
					limiter, _ = limiters.LoadOrStore(k, rate.NewLimiter(perSecond, int(limit.Burst)))
				}
				if !limiter.(*rate.Limiter).Allow() {
					return errRefused
				}
			}
			return nil
		}
		return running{func() worker { return work }, nothing}, nil
	}}
}

func startUlule() (running, error) {
	limiter := ulule.New(ululememory.NewStore(), ulule.Rate{Period: time.Hour, Limit: wideBurst})
	ctx := context.Background()
	work := func(keys []string) error {
		for _, k := range keys {
			got, err := limiter.Get(ctx, k)
			if err != nil {
				return err
			}
			if got.Reached {
				return errRefused
			}
		}
		return nil
	}
	return running{func() worker { return work }, nothing}, nil
}

// startHTTPRate uses the counter alone, without the HTTP around it: it reads
// the counts of two windows and adds to one, as a decision does.
func startHTTPRate() (running, error) {
	const window = time.Hour
	counter := httprate.NewLocalLimitCounter(window)
	counter.Config(wideBurst, window)
	work := func(keys []string) error {
		for _, k := range keys {
			now := time.Now().UTC()
			current := now.Truncate(window)
			count, before, err := counter.Get(k, current, current.Add(-window))
			if err != nil {
				return err
			}
			left := float64(window-now.Sub(current)) / float64(window)
			if float64(count)+float64(before)*left >= wideBurst {
				return errRefused
			}
			if err := counter.IncrementBy(k, current, 1); err != nil {
				return err
			}
		}
		return nil
	}
	return running{func() worker { return work }, nothing}, nil
}

func startSethvargo() (running, error) {
	ctx := context.Background()
	store, err := memorystore.New(&memorystore.Config{Tokens: wideBurst, Interval: time.Hour})
	if err != nil {
		return running{}, err
	}
	work := func(keys []string) error { return sethvargoEach(ctx, store, keys) }
	return running{func() worker { return work }, func() { _ = store.Close(ctx) }}, nil
}

func sethvargoEach(ctx context.Context, store slimiter.Store, keys []string) error {
	for _, k := range keys {
		_, _, _, ok, err := store.Take(ctx, k)
		if err != nil {
			return err
		}
		if !ok {
			return errRefused
		}
	}
	return nil
}
