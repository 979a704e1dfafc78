package lab

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/lease"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/redis"
)

const (
	// hotTTL of heartbeats is short, so that instances lease soon.
	hotTTL  = time.Second
	hotTime = time.Second // of a lease
	hotWarm = hotTTL + hotTime + 1500*time.Millisecond
	// hotBudget is wide, so that a slow machine measures Redis and not the
	// fallback.
	hotBudget = time.Second
)

// A hotInstance is the layers of one instance, with a connection of its own.
type hotInstance struct {
	redis    *redis.Store
	coalesce *coalesce.Store
	lease    *lease.Store
	top      sluice.Store
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func openHotInstance(ctx context.Context, addr string) (*hotInstance, error) {
	there := make(chan struct{})
	once := sync.OnceFunc(func() { close(there) })
	store, err := redis.Open(ctx, "redis://"+addr, redis.OpenOptions{
		Options:   redis.Options{Prefix: "rl"},
		Budget:    hotBudget,
		Connected: func(redis.Report) { once() },
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-there:
	case <-time.After(10 * time.Second):
		store.Close()
		return nil, errors.New("redis: not connected in 10 s")
	}
	i := &hotInstance{redis: store, coalesce: coalesce.New(store, coalesce.Options{})}
	g := guard.New(i.coalesce, memory.New(memory.Options{}), guard.Options{Budget: hotBudget, Instances: hotInstances, TTL: hotTTL})
	i.lease = lease.New(g, lease.Options{Time: hotTime, TTL: hotTTL, Fleet: g.Fleet})
	i.top = denied.New(i.lease, denied.Options{})
	ctx, i.stop = context.WithCancel(ctx)
	i.running.Go(func() {
		// It says that it is gone once it holds nothing any more.
		beating, stop := context.WithCancel(context.WithoutCancel(ctx))
		var guarded sync.WaitGroup
		guarded.Go(func() { g.Run(beating) })
		i.lease.Run(ctx)
		stop()
		guarded.Wait()
	})
	return i, nil
}

func (i *hotInstance) close() {
	i.stop()
	i.running.Wait()
	i.redis.Close()
	i.coalesce.Close()
}

// openHotFleet starts instances. Its first call takes the whole burst, so that
// the rate is what passes from then on.
func openHotFleet(ctx context.Context, addr string, c sluice.Charge) (hotLimiter, error) {
	var all []*hotInstance
	l := hotLimiter{close: func() {
		for _, i := range all {
			i.close()
		}
	}}
	for range hotInstances {
		i, err := openHotInstance(ctx, addr)
		if err != nil {
			l.close()
			return hotLimiter{}, err
		}
		all = append(all, i)
		l.takes = append(l.takes, takeHot(i.top, c))
	}
	burst := c
	burst.N = c.Limit.Capacity()
	l.first = takeHot(all[0].top, burst)
	return l, nil
}

// A hotCall is what middleware keeps for each request.
type hotCall struct {
	charge   [1]sluice.Charge
	decision [1]sluice.Decision
}

func takeHot(store sluice.Store, c sluice.Charge) hotTake {
	calls := &sync.Pool{New: func() any { return new(hotCall) }}
	return func(ctx context.Context) (hotAnswer, error) {
		q := calls.Get().(*hotCall)
		defer calls.Put(q)
		q.charge[0] = c
		got, err := store.Take(context.WithoutCancel(ctx), q.decision[:0], q.charge[:])
		if err != nil {
			return hotAnswer{}, err
		}
		d := &got[0]
		return hotAnswer{passed: d.Granted > 0, local: d.Source == sluice.SourceFallback, tokens: d.Granted, at: d.At}, nil
	}
}
