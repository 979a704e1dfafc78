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

// A commands is how others usually write down what a full key has used: the
// commands that do so, for a key.
type commands func(key string) [][]string

// redisMemory weighs the state of one full key beside the usual one.
func redisMemory() []benchmark {
	var all []benchmark
	for _, kind := range []struct {
		name      string
		algorithm sluice.Algorithm
		tokens    int64
		usual     commands
		most      float64
	}{
		{"token_bucket", sluice.TokenBucket, 100, hash, 72},
		{"fixed_window", sluice.FixedWindow, 100, counters(100), 72},
		{"sliding_window", sluice.SlidingWindow, 100, counters(100, 100), 104},
		{"sliding_log_100", sluice.SlidingLog, 100, sortedSet(100), 700},
		{"sliding_log_10000", sluice.SlidingLog, 10_000, sortedSet(10_000), 70_000},
	} {
		limit := sluice.Limit{Tokens: kind.tokens, Per: time.Hour, Algorithm: kind.algorithm}
		all = append(all, benchmark{
			name: "redis/memory/" + kind.name, unit: "B/key", target: []bound{atMost("value", kind.most)},
			measure: func(settings) (result, error) { return weighRedis(limit, kind.usual) },
		})
	}
	return all
}

const (
	moment = 1_780_000_000.123456 // a time as others write it down, in seconds
	window = 1_780_000_000 / 3600 // the number of its hour
)

// hash holds the tokens and when they were counted.
func hash(key string) [][]string {
	return [][]string{{"HSET", key, "tokens", "0.42718", "ts", fmt.Sprintf("%f", moment)}}
}

// counters are one for each window, named by it.
func counters(counts ...int) commands {
	return func(key string) [][]string {
		var all [][]string
		for i, n := range counts {
			name := fmt.Sprintf("%s:%d", key, window-i)
			all = append(all, []string{"SET", name, strconv.Itoa(n), "EX", "7200"})
		}
		return all
	}
}

// sortedSet has a member for each token, its time in microseconds.
func sortedSet(tokens int) commands {
	return func(key string) [][]string {
		add := []string{"ZADD", key}
		for i := range tokens {
			at := fmt.Sprintf("%.0f", 1e6*moment+float64(i)*1234)
			add = append(add, at, at)
		}
		return [][]string{add}
	}
}

// weighRedis uses up a limit and asks the server what it keeps of that. Each
// round would say the same.
func weighRedis(limit sluice.Limit, usual commands) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	l, err := coalesced(server.Addr, limit)
	if err != nil {
		return result{}, err
	}
	defer l.close()
	name := key(1)
	if err := use(l.take, name, limit.Capacity()); err != nil {
		return result{}, err
	}
	ours, err := weighKeys(server, "*"+name)
	if err != nil {
		return result{}, err
	}
	if answer, err := server.Do("FLUSHALL"); err != nil || answer != "OK" {
		return result{}, fmt.Errorf("FLUSHALL: %s, %w", answer, err)
	}
	for _, words := range usual(name) {
		if answer, err := server.Do(words...); err != nil || strings.HasPrefix(answer, "-") {
			return result{}, fmt.Errorf("%s: %s, %w", words[0], answer, err)
		}
	}
	theirs, err := weighKeys(server, name+"*")
	return result{ours: ours, theirs: theirs, ratio: ours / theirs, paired: true}, err
}

// use takes all tokens of a key, one by one, and sees that no more is there.
func use(take take, key string, tokens int64) error {
	for i := range tokens + 1 {
		allowed, err := take(key)
		if err != nil {
			return err
		}
		if allowed != (i < tokens) {
			return fmt.Errorf("token %d of %d: allowed is %v", i+1, tokens, allowed)
		}
	}
	return nil
}

// weighKeys returns the bytes of all keys that match a pattern.
func weighKeys(server *servers.Redis, pattern string) (float64, error) {
	names, err := server.Do("KEYS", pattern)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for name := range strings.SplitSeq(names, "\n") {
		answer, err := server.Do("MEMORY", "USAGE", name, "SAMPLES", "0")
		if err != nil {
			return 0, err
		}
		bytes, err := strconv.ParseFloat(answer, 64)
		if err != nil {
			return 0, fmt.Errorf("no bytes of %q: %q", name, answer)
		}
		total += bytes
	}
	return total, nil
}
