package lab

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
)

// wellKnown returns shortcuts that are often recommended for hot keys, as they
// are usually written: fixed windows of a second by the caller's clock.
func wellKnown() []hotVariant {
	all := []struct {
		name     string
		commands []string
		make     func(rueidis.Client, int64) hotTake
	}{
		{"incrby, decrby on overflow", []string{"incrby", "decrby", "pexpire"}, incrDecr},
		{"batches of 100 by script", []string{"eval", "evalsha"}, batches},
		{"10 random shards, summed", []string{"mget", "incr", "pexpire"}, summed},
	}
	var variants []hotVariant
	for _, v := range all {
		variants = append(variants, hotVariant{
			name: v.name, commands: v.commands, warm: time.Second, windows: true,
			open: func(_ context.Context, addr string, limit sluice.Limit) (hotLimiter, error) {
				return openKnown(addr, func(c rueidis.Client) hotTake { return v.make(c, limit.Tokens) })
			},
		})
	}
	return variants
}

// openKnown connects instances.
func openKnown(addr string, instance func(rueidis.Client) hotTake) (hotLimiter, error) {
	var clients []rueidis.Client
	l := hotLimiter{close: func() {
		for _, c := range clients {
			c.Close()
		}
	}}
	for range hotInstances {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true,
			DisableRetry: true, DisableCache: true, PipelineMultiplex: -1, AlwaysPipelining: true,
		})
		if err != nil {
			l.close()
			return hotLimiter{}, err
		}
		clients = append(clients, c)
		l.takes = append(l.takes, instance(c))
	}
	return l, nil
}

func window() string { return "hot:" + strconv.FormatInt(time.Now().Unix(), 10) }

// expire lets a counter that has just begun end by itself.
func expire(ctx context.Context, c rueidis.Client, key string, count int64) error {
	if count != 1 {
		return nil
	}
	return c.Do(ctx, c.B().Pexpire().Key(key).Milliseconds(2000).Build()).Error()
}

// incrDecr counts, and takes back what is too much. Meanwhile others are refused
// what nobody got.
func incrDecr(c rueidis.Client, limit int64) hotTake {
	return func(ctx context.Context) (hotAnswer, error) {
		key := window()
		n, err := c.Do(ctx, c.B().Incrby().Key(key).Increment(1).Build()).AsInt64()
		if err != nil {
			return hotAnswer{}, err
		}
		if n > limit {
			return hotAnswer{}, c.Do(ctx, c.B().Decrby().Key(key).Decrement(1).Build()).Error()
		}
		return hotAnswer{passed: true}, expire(ctx, c, key, n)
	}
}

//go:embed batch.lua
var batchLua string

// batches claims 100 at a time, whatever the limit is, one caller at a time. What
// a window leaves over is spent in the next.
func batches(c rueidis.Client, limit int64) hotTake {
	const size = 100
	script := rueidis.NewLuaScript(batchLua)
	args := []string{strconv.Itoa(size), strconv.FormatInt(limit, 10)}
	var left atomic.Int64
	claiming := make(chan struct{}, 1)
	return func(ctx context.Context) (hotAnswer, error) {
		if left.Add(-1) >= 0 {
			return hotAnswer{passed: true}, nil
		}
		claiming <- struct{}{}
		defer func() { <-claiming }()
		if left.Add(-1) >= 0 {
			return hotAnswer{passed: true}, nil
		}
		n, err := script.Exec(ctx, c, []string{window()}, args).AsInt64()
		if err != nil || n == 0 {
			return hotAnswer{}, err
		}
		left.Store(n - 1)
		return hotAnswer{passed: true}, nil
	}
}

// summed reads all shards, and counts in one of them if their sum is under the
// limit. Those who read at the same time do not see each other.
func summed(c rueidis.Client, limit int64) hotTake {
	const shards = 10
	return func(ctx context.Context) (hotAnswer, error) {
		keys := make([]string, shards)
		for i := range keys {
			keys[i] = fmt.Sprintf("%s:%d", window(), i)
		}
		values, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
		if err != nil {
			return hotAnswer{}, err
		}
		sum := int64(0)
		for _, v := range values {
			if n, err := v.AsInt64(); err == nil { // nil: not counted yet
				sum += n
			}
		}
		if sum >= limit {
			return hotAnswer{}, nil
		}
		key := keys[rand.IntN(shards)]
		n, err := c.Do(ctx, c.B().Incr().Key(key).Build()).AsInt64()
		if err != nil {
			return hotAnswer{}, err
		}
		return hotAnswer{passed: true}, expire(ctx, c, key, n)
	}
}
