package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// redisMemory weighs the state of one full key.
func redisMemory() []benchmark {
	var all []benchmark
	for _, kind := range []struct {
		name  string
		limit sluice.Limit
		most  float64
	}{
		{"token_bucket", sluice.Limit{Tokens: 100, Per: time.Hour}, 72},
		{"fixed_window", sluice.Limit{Tokens: 100, Per: time.Hour, Algorithm: sluice.FixedWindow}, 72},
		{"sliding_window", sluice.Limit{Tokens: 100, Per: time.Hour, Algorithm: sluice.SlidingWindow}, 104},
		{"sliding_log_100", sluice.Limit{Tokens: 100, Per: time.Hour, Algorithm: sluice.SlidingLog}, 700},
		{"sliding_log_10000", sluice.Limit{Tokens: 10_000, Per: time.Hour, Algorithm: sluice.SlidingLog}, 70_000},
	} {
		all = append(all, benchmark{
			name: "redis/memory/" + kind.name, unit: "B/key", target: []bound{atMost("value", kind.most)},
			measure: func(settings) (result, error) { return weighRedis(kind.limit) },
		})
	}
	return all
}

// weighRedis fills a key token by token and asks the server what it takes.
func weighRedis(limit sluice.Limit) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	take, done, err := coalesced(server.Addr, limit)
	if err != nil {
		return result{}, err
	}
	defer done()
	const name = "tenant-000000001" // 16 bytes
	for range limit.Tokens {
		if err := take(name); err != nil {
			return result{}, err
		}
	}
	keys, err := server.Do("KEYS", "*"+name)
	if err != nil {
		return result{}, err
	}
	if strings.Contains(keys, "\n") || keys == "" {
		return result{}, fmt.Errorf("keys %q: want one", keys)
	}
	answer, err := server.Do("MEMORY", "USAGE", keys)
	if err != nil {
		return result{}, err
	}
	bytes, err := strconv.ParseFloat(answer, 64)
	return result{ours: bytes}, err
}
