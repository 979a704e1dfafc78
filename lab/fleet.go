package lab

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/server"
)

// A Fleet is several instances of the whole stack on one store, as several
// processes would have it.
type Fleet struct {
	stacks []*server.Stack
	stop   context.CancelFunc
	wait   sync.WaitGroup
}

// NewFleet starts n instances and waits until each is answered by its store, at
// most five seconds.
func NewFleet(ctx context.Context, n int, url string) (*Fleet, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &Fleet{stop: stop}
	for range n {
		c := &server.Config{Store: url, Prefix: "rl", Budget: budget, Instances: n}
		s, err := server.NewStack(ctx, c, metrics.New(metrics.Options{}), slog.New(slog.DiscardHandler))
		if err != nil {
			f.Close()
			return nil, err
		}
		f.stacks = append(f.stacks, s)
		f.wait.Go(func() { s.Run(ctx) })
	}
	if err := f.ready(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ready asks each instance for keys all over the store until it answers for all,
// so that no run begins with an outage.
func (f *Fleet) ready(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(5 * time.Second); ; <-ticker.C {
		err := f.answered(ctx)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (f *Fleet) answered(ctx context.Context) error {
	for i, store := range f.Stores() {
		for k := range 30 {
			peek := sluice.Charge{Key: fmt.Sprint("ready", k), Limit: outageLimit}
			d, err := store.Take(ctx, nil, []sluice.Charge{peek})
			if err != nil {
				return err
			}
			if d[0].Source != sluice.SourceStore {
				return fmt.Errorf("instance %d is not answered by its store", i)
			}
		}
	}
	return nil
}

// Stores returns the top of each instance's stack.
func (f *Fleet) Stores() []sluice.Store {
	var stores []sluice.Store
	for _, s := range f.stacks {
		stores = append(stores, s.Top)
	}
	return stores
}

// Close ends all instances.
func (f *Fleet) Close() {
	f.stop()
	f.wait.Wait()
	for _, s := range f.stacks {
		s.Close()
	}
}
