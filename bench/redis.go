package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// refusing is a limit whose one token is gone after the first call.
var refusing = sluice.Limit{Tokens: 1, Per: time.Hour}

// roomy never refuses in a benchmark and has a state that expires soon.
var roomy = sluice.Limit{Tokens: 1_000_000, Per: time.Second, Burst: 1_000_000}

// redisBenchmarks measure the store on a redis-server that each row starts, with
// 64 callers but for the row of one alone. ours is redis under coalesce, and
// under denied where all is refused; stack is all layers of a server.
func redisBenchmarks() []benchmark {
	var all []benchmark
	add := func(name string, keys draw, limit sluice.Limit, our, their redisSide, target ...bound) {
		all = append(all, benchmark{
			name: "redis/" + name, unit: "ops/s", target: target,
			measure: func(s settings) (result, error) { return redisRace(s, 64, keys, limit, our, their) },
		})
	}
	add("hot-allowed/redis_rate", hotKey, roomy, coalesced, redisRate, atLeast("ratio", 7))
	add("hot-allowed/ulule", hotKey, roomy, coalesced, ululeRedis)
	add("hot-allowed/incr", hotKey, roomy, coalesced, incr)
	add("hot-refused/redis_rate", hotKey, refusing, remembered, redisRate, atLeast("ratio", 100))
	add("hot-refused/ulule", hotKey, refusing, remembered, ululeRedis)
	for _, pattern := range []struct {
		name string
		keys draw
	}{{"uniform", uniformKeys}, {"zipf", zipfKeys}} {
		add(pattern.name+"/incr", pattern.keys, roomy, coalesced, incr, atLeast("ratio", 1))
		add(pattern.name+"/redis_rate", pattern.keys, roomy, coalesced, redisRate, atLeast("ratio", 3))
		add(pattern.name+"/ulule", pattern.keys, roomy, coalesced, ululeRedis)
		add("stack/"+pattern.name, pattern.keys, roomy, stack, coalesced, atLeast("ratio", 0.85), atMost("allocs", 2))
	}
	add("stack/hot-allowed", hotKey, roomy, stack, coalesced, atLeast("ratio", 0.85), atMost("allocs", 2))
	add("stack/hot-refused", hotKey, refusing, stack, remembered, atLeast("ratio", 0.85), atMost("allocs", 2))
	all = append(all, benchmark{
		name: "redis/serial/incr", unit: "us/op", target: []bound{atMost("ratio", 1.25)},
		measure: serialRedis,
	}, benchmark{
		name: "redis/commands-per-decision/hot", unit: "commands", target: []bound{atMost("value", 0.1)},
		measure: commandsPerDecision,
	})
	return append(all, redisMemory()...)
}

// A draw returns the keys that a caller asks for, one after the other.
type draw func(*rand.Rand) func() string

func hotKey(*rand.Rand) func() string { return func() string { return "hot-tenant-00001" } }

func uniformKeys(r *rand.Rand) func() string {
	return func() string { return redisKeys[r.IntN(manyKeys)] }
}

func zipfKeys(r *rand.Rand) func() string {
	zipf := rand.NewZipf(r, 1.1, 1, manyKeys-1)
	return func() string { return redisKeys[zipf.Uint64()] }
}

var redisKeys = func() []string {
	keys := make([]string, manyKeys)
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
}()

// redisRace compares two limiters on one server, by turns.
func redisRace(s settings, callers int, keys draw, limit sluice.Limit, our, their redisSide) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	ours, closeOurs, err := our(server.Addr, limit)
	if err != nil {
		return result{}, err
	}
	defer closeOurs()
	theirs, closeTheirs, err := their(server.Addr, limit)
	if err != nil {
		return result{}, err
	}
	defer closeTheirs()
	a, b := crowd(callers, s.round, keys, ours), crowd(callers, s.round, keys, theirs)
	for _, warm := range []side{a, b} {
		if _, err := warm(); err != nil {
			return result{}, err
		}
	}
	res, err := compare(s.pairs, a, b)
	res.counted = true
	return res, err
}

// serialRedis is the latency of one caller alone.
func serialRedis(s settings) (result, error) {
	res, err := redisRace(s, 1, hotKey, roomy, coalesced, incr)
	if err != nil {
		return res, err
	}
	res.ours, res.theirs, res.ratio = 1e6/res.ours, 1e6/res.theirs, 1/res.ratio
	return res, nil
}

// commandsPerDecision counts at the server what 64 callers of one key cost it.
func commandsPerDecision(s settings) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	take, done, err := coalesced(server.Addr, roomy)
	if err != nil {
		return result{}, err
	}
	defer done()
	var values []float64
	for range s.pairs {
		before, err := calls(server)
		if err != nil {
			return result{}, err
		}
		round, err := crowd(64, s.round, hotKey, take)()
		if err != nil {
			return result{}, err
		}
		after, err := calls(server)
		if err != nil {
			return result{}, err
		}
		values = append(values, (after-before)/(round.value*s.round.Seconds()))
	}
	return result{ours: median(values)}, nil
}

// calls returns how many scripts the server has run.
func calls(server *servers.Redis) (float64, error) {
	info, err := server.Do("INFO", "commandstats")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls=")
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(rest[:strings.IndexByte(rest, ',')], 64)
		if err != nil {
			return 0, fmt.Errorf("commandstats: %w", err)
		}
		total += n
	}
	return total, nil
}
