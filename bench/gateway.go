package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

// connections is how many callers a gateway has.
const connections = 20

// gatewayBenchmarks measure what limiting costs a gateway: the same gateway
// with a limit that never refuses, counted in Redis, and without limits. Both
// stand before one upstream and are asked by turns.
func gatewayBenchmarks() []benchmark {
	return []benchmark{
		{
			name: "gateway/throughput", unit: "req/s", target: []bound{atLeast("ratio", 0.75)},
			measure: func(s settings) (result, error) { return raceSites(s, limited, unlimited, flatOut) },
		},
		{
			name: "gateway/p50", unit: "ms", target: []bound{atMost("difference", 0.15)},
			measure: func(s settings) (result, error) { return raceSites(s, limited, unlimited, halfOfCapacity) },
		},
		{
			name: "gateway/bare", unit: "req/s",
			measure: func(s settings) (result, error) { return raceSites(s, unlimited, bare, flatOut) },
		},
	}
}

// raceSites compares two sites, on one server and before one upstream, by the
// way in which they are asked.
func raceSites(s settings, our, their opener, way func(s settings, ours, theirs string) (a, b side, err error)) (result, error) {
	redis, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer redis.Close()
	upstream := httptest.NewServer(http.HandlerFunc(hello))
	defer upstream.Close()
	first, err := our(s, redis.Addr, upstream.URL)
	if err != nil {
		return result{}, err
	}
	defer first.stop()
	second, err := their(s, redis.Addr, upstream.URL)
	if err != nil {
		return result{}, err
	}
	defer second.stop()
	ours, theirs, err := way(s, first.url, second.url)
	if err != nil {
		return result{}, err
	}
	res, err := compare(s.pairs, ours, theirs)
	return res, errors.Join(err, first.check(), second.check())
}

// hello is all that the upstream does.
func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") }

// flatOut asks for as much as there is.
func flatOut(s settings, ours, theirs string) (a, b side, err error) {
	path, err := servers.Find("wrk", "wrk")
	if err != nil {
		return nil, nil, err
	}
	full := func(url string) side {
		return func() (sample, error) {
			rate, err := wrk(path, url, connections, seconds(s.round))
			return sample{value: rate}, err
		}
	}
	return full(ours), full(theirs), nil
}

// seconds is how long one round of a gateway takes, in the whole seconds that
// wrk knows: five times as long as of a limiter, since connections have to warm
// up.
func seconds(round time.Duration) time.Duration {
	return time.Duration(max(1, math.Round(5*round.Seconds()))) * time.Second
}

// halfOfCapacity asks both at half of the rate that ours is able to serve to the
// same callers: these share the machine, and would have another half if they
// were others.
func halfOfCapacity(s settings, ours, theirs string) (a, b side, err error) {
	capacity, err := flood(ours, connections, seconds(s.round))
	if err != nil {
		return nil, nil, err
	}
	half := func(url string) side {
		return func() (sample, error) {
			p50, err := paced(url, connections, capacity/2, seconds(s.round))
			return sample{value: float64(p50) / 1e6}, err
		}
	}
	return half(ours), half(theirs), nil
}
