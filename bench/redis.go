package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

var (
	// refusing has one token, which is gone after the first call.
	refusing = sluice.Limit{Tokens: 1, Per: time.Hour}
	// lasting is for many keys: none is refused or full again between two
	// calls, so that each call reads a state and writes one.
	lasting = sluice.Limit{Tokens: 1000, Per: time.Hour, Burst: 8_000_000}
)

// A contest is what two limiters on one server are asked.
type contest struct {
	callers int
	keys    draw
	limit   sluice.Limit
	figure  figure
}

// callers is how many ask at once, unless a row says otherwise.
const callers = 64

var (
	hotAllowed = contest{callers, hotKey, wide, perSecond}
	hotRefused = contest{callers, hotKey, refusing, perSecond}
	uniform    = contest{callers, uniformKeys, lasting, perSecond}
	zipf       = contest{callers, zipfKeys, lasting, perSecond}
	serial     = contest{1, hotKey, wide, micros}
)

// redisBenchmarks measure the store on a redis-server that each row starts.
// Ours is redis under coalesce, and under denied where all is refused; stack is
// all layers of a server.
func redisBenchmarks() []benchmark {
	row := func(name string, c contest, our, their redisSide, target ...bound) benchmark {
		return benchmark{
			name: "redis/" + name, unit: "ops/s", target: target,
			measure: func(s settings) (result, error) { return c.race(s, our, their) },
		}
	}
	whole := []bound{atLeast("ratio", 0.85), atMost("allocs", 2)}
	wait := func(name string, their redisSide, target ...bound) benchmark {
		b := row("serial/"+name, serial, coalesced, their, target...)
		b.unit = "us"
		return b
	}
	all := []benchmark{
		row("hot-allowed/redis_rate", hotAllowed, coalesced, redisRate, atLeast("ratio", 7)),
		row("hot-allowed/ulule", hotAllowed, coalesced, ululeRedis),
		row("hot-allowed/incr", hotAllowed, coalesced, incr),
		row("hot-refused/redis_rate", hotRefused, remembered, redisRate, atLeast("ratio", 100)),
		row("hot-refused/ulule", hotRefused, remembered, ululeRedis),
		row("uniform/incr", uniform, coalesced, incr, atLeast("ratio", 1)),
		row("uniform/incr_default", uniform, coalesced, incrDefault),
		row("uniform/redis_rate", uniform, coalesced, redisRate, atLeast("ratio", 3)),
		row("uniform/ulule", uniform, coalesced, ululeRedis),
		row("zipf/incr", zipf, coalesced, incr, atLeast("ratio", 1)),
		row("zipf/incr_default", zipf, coalesced, incrDefault),
		row("zipf/redis_rate", zipf, coalesced, redisRate, atLeast("ratio", 3)),
		row("zipf/ulule", zipf, coalesced, ululeRedis),
		row("stack/hot-allowed", hotAllowed, stack, coalesced, whole...),
		row("stack/uniform", uniform, stack, coalesced, whole...),
		row("stack/zipf", zipf, stack, coalesced, whole...),
		row("stack/hot-refused", hotRefused, stack, remembered, whole...),
		wait("incr", incr, atMost("ratio", 1.25)),
		wait("incr_default", incrDefault),
		{
			name: "redis/commands-per-decision/hot", unit: "commands",
			target: []bound{atMost("value", 0.1)}, measure: commandsPerDecision,
		},
		{
			name: "redis/allocs/stack", unit: "allocs",
			target: []bound{atMost("value", 2)}, measure: stackAllocs,
		},
	}
	return append(all, redisMemory()...)
}

func hotKey(*rand.Rand) func() string {
	hot := key(1)
	return func() string { return hot }
}

func uniformKeys(r *rand.Rand) func() string {
	names := tenants()
	return func() string { return names[r.IntN(manyKeys)] }
}

func zipfKeys(r *rand.Rand) func() string {
	names, zipf := tenants(), rand.NewZipf(r, 1.1, 1, manyKeys-1)
	return func() string { return names[zipf.Uint64()] }
}

// tenants holds the keys of all callers, as making one allocates.
var tenants = sync.OnceValue(func() []string {
	names := make([]string, manyKeys)
	for i := range names {
		names[i] = key(i)
	}
	return names
})

// race compares two limiters on one server, by turns.
func (c contest) race(s settings, our, their redisSide) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	first, err := our(server.Addr, c.limit)
	if err != nil {
		return result{}, err
	}
	defer first.close()
	second, err := their(server.Addr, c.limit)
	if err != nil {
		return result{}, err
	}
	defer second.close()
	ours, err := c.side(s, first)
	if err != nil {
		return result{}, err
	}
	theirs, err := c.side(s, second)
	if err != nil {
		return result{}, err
	}
	res, err := compare(s.pairs, ours, theirs)
	res.counted = true
	return res, err
}

// side warms a limiter up, which meets the keys and uses up what is to be
// refused, and returns what measures it.
func (c contest) side(s settings, l connected) (side, error) {
	if _, err := crowd(c.callers, s.round, c.keys, l.take); err != nil {
		return nil, err
	}
	return func() (sample, error) {
		t, err := crowd(c.callers, s.round, c.keys, l.take)
		if err == nil {
			err = t.passed(c.limit != refusing)
		}
		if err != nil {
			return sample{}, err
		}
		return sample{value: c.figure(t), allocs: t.allocs}, nil
	}, nil
}

// stackAllocs counts what the whole stack allocates for each decision: of one
// key and of many, whichever is more.
func stackAllocs(s settings) (result, error) {
	var most result
	for _, c := range []contest{hotAllowed, uniform} {
		c.figure = perDecision
		res, err := c.alone(s, stack)
		if err != nil {
			return result{}, err
		}
		if res.ours >= most.ours {
			most = res
		}
	}
	return most, nil
}

// alone measures one limiter that is compared with nothing.
func (c contest) alone(s settings, our redisSide) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	l, err := our(server.Addr, c.limit)
	if err != nil {
		return result{}, err
	}
	defer l.close()
	side, err := c.side(s, l)
	if err != nil {
		return result{}, err
	}
	return repeat(s.pairs, side)
}

// commandsPerDecision counts at the server what callers of one key cost it.
func commandsPerDecision(s settings) (result, error) {
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer server.Close()
	l, err := coalesced(server.Addr, wide)
	if err != nil {
		return result{}, err
	}
	defer l.close()
	return repeat(s.pairs, func() (sample, error) {
		before, err := scripts(server)
		if err != nil {
			return sample{}, err
		}
		t, err := crowd(callers, s.round, hotKey, l.take)
		if err != nil {
			return sample{}, err
		}
		after, err := scripts(server)
		return sample{value: float64(after-before) / float64(t.decisions)}, err
	})
}

// scripts returns how many scripts the server was asked to run.
func scripts(server *servers.Redis) (int64, error) {
	info, err := server.Do("INFO", "commandstats")
	if err != nil {
		return 0, err
	}
	return countScripts(info)
}

// countScripts reads an answer to INFO commandstats.
func countScripts(info string) (int64, error) {
	total := int64(0)
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_eval" && name != "cmdstat_evalsha" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("commandstats: %w", err)
		}
		total += n
	}
	return total, nil
}
