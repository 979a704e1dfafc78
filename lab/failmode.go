package lab

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/redis"
)

// A failMode is a way to meet a store that does not answer.
type failMode struct {
	name    string
	says    sluice.FailureMode
	bounded bool // the bound must hold
	open    openInstance
}

// openInstance starts one of the instances on a server; end ends it.
type openInstance func(ctx context.Context, server *servers.Redis) (store sluice.Store, end func(), err error)

// The names of the modes.
const (
	saysAllow = "allow"
	saysDeny  = "deny"
	saysLocal = "local"
	noBreaker = "local, no breaker"
	noGuard   = "no guard"
)

func allFailModes() []failMode {
	return []failMode{
		{name: saysLocal, says: sluice.FailLocal, bounded: true, open: guarded(0)},
		{name: saysAllow, says: sluice.FailAllow, open: guarded(0)},
		{name: saysDeny, says: sluice.FailDeny, open: guarded(0)},
		{name: noBreaker, says: sluice.FailLocal, open: guarded(neverInARow)},
		{name: noGuard, open: unguarded},
	}
}

// instances opens all of them and waits until each is answered by its store. end
// ends those that were opened, also after an error.
func (m *failMode) instances(ctx context.Context, server *servers.Redis) (stores []sluice.Store, end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	for range failInstances {
		store, endOne, err := m.open(ctx, server)
		if err != nil {
			return nil, end, err
		}
		stores, ends = append(stores, store), append(ends, endOne)
	}
	for _, store := range stores {
		if err := reaches(ctx, store, outagePeek); err != nil {
			return nil, end, err
		}
	}
	return stores, end, nil
}

// neverInARow is more failures than the calls of a fault.
const neverInARow = 1 << 16

// outagePeek looks at a key to see whether the store answers.
var outagePeek = sluice.Charge{Key: "ready", Limit: outageLimit}

// guarded opens instances that share round trips and are guarded, as those of a
// server are, with breakers that take so many failures; 0: as many as usual.
func guarded(failures int) openInstance {
	return func(ctx context.Context, server *servers.Redis) (sluice.Store, func(), error) {
		ctx, stop := context.WithCancel(ctx)
		store, err := redis.Open(ctx, "redis://"+server.Addr, redis.OpenOptions{Budget: budget})
		if err != nil {
			stop()
			return nil, nil, err
		}
		joined := coalesce.New(store, coalesce.Options{})
		top := guard.New(joined, memory.New(memory.Options{}), guard.Options{
			Budget: budget, Instances: failInstances, Failures: failures,
		})
		var running sync.WaitGroup
		running.Go(func() { top.Run(ctx) })
		return top, func() { stop(); running.Wait(); store.Close(); joined.Close() }, nil
	}
}

// clientTimeout is what clients of Redis are often given.
const clientTimeout = time.Second

// unguarded opens instances as limiters often are: a client, and a time-out.
func unguarded(_ context.Context, server *servers.Redis) (sluice.Store, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: clientTimeout}, ConnWriteTimeout: clientTimeout,
	})
	if err != nil {
		return nil, nil, err
	}
	return patient{redis.New(client, redis.Options{})}, client.Close, nil
}

// patient is a store that is waited for as long as a client waits.
type patient struct{ sluice.Store }

// Take implements [sluice.Store].
func (p patient) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	return p.Store.Take(ctx, dst, charges)
}
