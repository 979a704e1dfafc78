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

// A redisSide connects a limiter to a server and returns how it decides.
type redisSide func(addr string, limit sluice.Limit) (take func(key string) error, done func(), err error)

var errFallback = errors.New("a decision was made without the store")

// A pooled call, as middleware keeps one for each request.
type oneCall struct {
	charge   [1]sluice.Charge
	decision [1]sluice.Decision
}

var oneCalls = sync.Pool{New: func() any { return new(oneCall) }}

func takeOn(store sluice.Store, limit sluice.Limit) func(string) error {
	return func(key string) error {
		c := oneCalls.Get().(*oneCall)
		defer oneCalls.Put(c)
		c.charge[0] = sluice.Charge{Key: key, Limit: limit, N: 1}
		got, err := store.Take(context.Background(), c.decision[:0], c.charge[:])
		if err == nil && got[0].Source == sluice.SourceFallback {
			err = errFallback
		}
		return err
	}
}

// coalesced is the Redis store under coalesce.
func coalesced(addr string, limit sluice.Limit) (func(string) error, func(), error) {
	store, err := openRedis(addr, "c")
	if err != nil {
		return nil, nil, err
	}
	shared := coalesce.New(store, coalesce.Options{})
	return takeOn(shared, limit), func() { shared.Close(); store.Close() }, nil
}

// remembered is the same under denied.
func remembered(addr string, limit sluice.Limit) (func(string) error, func(), error) {
	store, err := openRedis(addr, "d")
	if err != nil {
		return nil, nil, err
	}
	shared := coalesce.New(store, coalesce.Options{})
	return takeOn(denied.New(shared, denied.Options{}), limit), func() { shared.Close(); store.Close() }, nil
}

// openRedis waits until the store is connected.
func openRedis(addr, prefix string) (*redis.Store, error) {
	connected := make(chan struct{}, 1)
	store, err := redis.Open(context.Background(), "redis://"+addr, redis.OpenOptions{
		Options: redis.Options{Prefix: prefix},
		Connected: func(redis.Report) {
			select {
			case connected <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-connected:
		return store, nil
	case <-time.After(5 * time.Second):
		store.Close()
		return nil, errors.New("redis did not connect in 5 s")
	}
}

// stack is every layer that a server has. Its budget is wide, so that a slow
// machine measures Redis and not the fallback.
func stack(addr string, limit sluice.Limit) (func(string) error, func(), error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &server.Config{Store: "redis://" + addr, Prefix: "s", Budget: time.Second, Instances: 1}
	s, err := server.NewStack(ctx, c, metrics.New(metrics.Options{}), slog.New(slog.DiscardHandler))
	if err != nil {
		stop()
		return nil, nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	take := takeOn(s.Top, limit)
	deadline := time.Now().Add(5 * time.Second)
	for take("connecting") != nil && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	return take, func() { stop(); running.Wait(); s.Close() }, nil
}

// incr is the least that any limiter on Redis does, over the same client.
func incr(addr string, _ sluice.Limit) (func(string) error, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableRetry: true, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return nil, nil, err
	}
	return func(key string) error {
		return client.Do(context.Background(), client.B().Incr().Key("i:"+key).Build()).Error()
	}, client.Close, nil
}

func redisRate(addr string, limit sluice.Limit) (func(string) error, func(), error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	limiter := redis_rate.NewLimiter(client)
	l := redis_rate.Limit{Rate: int(limit.Tokens), Burst: int(limit.Capacity()), Period: limit.Per}
	return func(key string) error {
		_, err := limiter.Allow(context.Background(), key, l)
		return err
	}, func() { client.Close() }, nil
}

func ululeRedis(addr string, limit sluice.Limit) (func(string) error, func(), error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "u"})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	limiter := ulule.New(store, ulule.Rate{Period: limit.Per, Limit: limit.Tokens})
	return func(key string) error {
		_, err := limiter.Get(context.Background(), key)
		return err
	}, func() { client.Close() }, nil
}
