package lab

import (
	"context"
	"log/slog"
	"sync"

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

// NewFleet starts n instances.
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
	return f, nil
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
