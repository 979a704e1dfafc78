package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/redis"
)

// A redisSide connects a limiter to a server. Its keys are its own.
type redisSide func(addr string, limit sluice.Limit) (connected, error)

// A connected limiter decides until it is closed.
type connected struct {
	take  take
	close func()
}

var errFallback = errors.New("a decision was made without the store")

// A oneCall is what middleware keeps for each request.
type oneCall struct {
	charge   [1]sluice.Charge
	decision [1]sluice.Decision
}

// takeOn asks a store, whose layers may not answer for it.
func takeOn(store sluice.Store, limit sluice.Limit) take {
	calls := &sync.Pool{New: func() any { return new(oneCall) }}
	return func(key string) (bool, error) {
		c := calls.Get().(*oneCall)
		defer calls.Put(c)
		c.charge[0] = sluice.Charge{Key: key, Limit: limit, N: 1}
		got, err := store.Take(context.Background(), c.decision[:0], c.charge[:])
		if err != nil {
			return false, err
		}
		if got[0].Source == sluice.SourceFallback {
			return false, errFallback
		}
		return got[0].Allowed, nil
	}
}

// coalesced is the Redis store under coalesce.
func coalesced(addr string, limit sluice.Limit) (connected, error) {
	store, err := openRedis(addr, "c")
	if err != nil {
		return connected{}, err
	}
	shared := coalesce.New(store, coalesce.Options{})
	return connected{takeOn(shared, limit), func() { shared.Close(); store.Close() }}, nil
}

// remembered is the same under denied.
func remembered(addr string, limit sluice.Limit) (connected, error) {
	store, err := openRedis(addr, "d")
	if err != nil {
		return connected{}, err
	}
	shared := coalesce.New(store, coalesce.Options{})
	top := denied.New(shared, denied.Options{})
	return connected{takeOn(top, limit), func() { shared.Close(); store.Close() }}, nil
}

// openRedis waits until the store is connected.
func openRedis(addr, prefix string) (*redis.Store, error) {
	there := make(chan struct{})
	once := sync.OnceFunc(func() { close(there) })
	store, err := redis.Open(context.Background(), "redis://"+addr, redis.OpenOptions{
		Options:   redis.Options{Prefix: prefix},
		Connected: func(redis.Report) { once() },
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-there:
		return store, nil
	case <-time.After(patience):
		store.Close()
		return nil, errors.New("redis: not connected in time")
	}
}

// stack is every layer that a server has. Its budget is wide, so that a slow
// machine measures Redis and not the fallback.
func stack(addr string, limit sluice.Limit) (connected, error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &server.Config{Store: "redis://" + addr, Prefix: "s", Budget: time.Second, Instances: 1}
	s, err := server.NewStack(ctx, c, metrics.New(metrics.Options{}), slog.New(slog.DiscardHandler))
	if err != nil {
		stop()
		return connected{}, err
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	top := connected{takeOn(s.Top, limit), func() { stop(); running.Wait(); s.Close() }}
	if err := poll(func() error { _, err := top.take("connecting"); return err }); err != nil {
		top.close()
		return connected{}, err
	}
	return top, nil
}

// incr is the least that any limiter on Redis does, through a client as
// [redis.Open] makes it: one connection, on which calls travel together.
func incr(addr string, _ sluice.Limit) (connected, error) {
	return incrThrough(rueidis.ClientOption{InitAddress: []string{addr}, PipelineMultiplex: -1, AlwaysPipelining: true})
}

// incrDefault is the same through a client as it comes: four connections on two
// cores, and one caller alone has no goroutine between itself and the wire.
func incrDefault(addr string, _ sluice.Limit) (connected, error) {
	return incrThrough(rueidis.ClientOption{InitAddress: []string{addr}})
}

func incrThrough(o rueidis.ClientOption) (connected, error) {
	o.DisableRetry, o.DisableCache, o.ForceSingleClient = true, true, true
	client, err := rueidis.NewClient(o)
	if err != nil {
		return connected{}, err
	}
	return connected{func(key string) (bool, error) {
		err := client.Do(context.Background(), client.B().Incr().Key(key).Build()).Error()
		return err == nil, err
	}, client.Close}, nil
}

func redisRate(addr string, limit sluice.Limit) (connected, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	limiter := redis_rate.NewLimiter(client)
	l := redis_rate.Limit{Rate: int(limit.Tokens), Burst: int(limit.Capacity()), Period: limit.Per}
	return connected{func(key string) (bool, error) {
		res, err := limiter.Allow(context.Background(), key, l)
		return err == nil && res.Allowed > 0, err
	}, func() { _ = client.Close() }}, nil
}

func ululeRedis(addr string, limit sluice.Limit) (connected, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	stop := func() { _ = client.Close() }
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "u"})
	if err != nil {
		stop()
		return connected{}, err
	}
	// Its windows have no burst: the whole capacity in each hour.
	limiter := ulule.New(store, ulule.Rate{Period: time.Hour, Limit: limit.Capacity()})
	return connected{func(key string) (bool, error) {
		res, err := limiter.Get(context.Background(), key)
		return err == nil && !res.Reached, err
	}, stop}, nil
}
