package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

const (
	fleetSize = 4 // gateways on one Redis
	exactYAML = "[{name: everyone, key: [], limit: 900000/s}]"
	leaseYAML = "[{name: everyone, key: [], limit: 900000/s, tolerance: 1%}]"
	// leaseWait bounds how long it takes until all lease: each must have been
	// visible to the others for eleven seconds.
	leaseWait = 60 * time.Second
)

// toleranceBenchmarks measure what a tolerance of 1% is worth to gateways that
// have one limit for everyone, which never refuses: four with it, and four without
// on a Redis of their own, by turns.
func toleranceBenchmarks() []benchmark {
	row := func(name, unit string, figure func(s settings, path string) fleetFigure) benchmark {
		return benchmark{name: "gateway/tolerance/" + name, unit: unit, measure: func(s settings) (result, error) {
			return raceFleets(s, figure)
		}}
	}
	return []benchmark{
		row("throughput", "req/s", flatOutFigure(func(u spent) float64 { return u.rate })),
		row("redis-cpu", "us/req", flatOutFigure(func(u spent) float64 { return u.micros })),
		row("redis-commands", "per 1000", flatOutFigure(func(u spent) float64 { return u.commands })),
		row("p50", "ms", pacedFigure(50)),
		row("p99", "ms", pacedFigure(99)),
	}
}

// A fleetFigure measures one round of a fleet. slower is the rate, in requests a
// second, of the slower of both fleets.
type fleetFigure func(f *fleet, slower float64) (float64, error)

// A fleet is gateways that share a limit.
type fleet struct {
	redis *servers.Redis
	sites []*site
}

func startFleet(s settings, upstream, limits string) (*fleet, error) {
	redis, err := servers.StartRedis(context.Background())
	if err != nil {
		return nil, err
	}
	f := &fleet{redis: redis}
	for range fleetSize {
		one, err := serveSluice(s, redis.Addr, upstream, limits)
		if err != nil {
			f.stop()
			return nil, err
		}
		f.sites = append(f.sites, one)
	}
	return f, nil
}

func (f *fleet) stop() {
	for _, one := range f.sites {
		one.stop()
	}
	f.redis.Close()
}

func (f *fleet) check() error {
	var errs []error
	for _, one := range f.sites {
		errs = append(errs, one.check())
	}
	return errors.Join(errs...)
}

// raceFleets compares gateways that lease with those that do not.
func raceFleets(s settings, figure func(s settings, path string) fleetFigure) (result, error) {
	path, err := servers.Find("wrk", "wrk")
	if err != nil {
		return result{}, err
	}
	upstream := httptest.NewServer(http.HandlerFunc(hello))
	defer upstream.Close()
	ours, err := startFleet(s, upstream.URL, leaseYAML)
	if err != nil {
		return result{}, err
	}
	defer ours.stop()
	theirs, err := startFleet(s, upstream.URL, exactYAML)
	if err != nil {
		return result{}, err
	}
	defer theirs.stop()
	slower, err := warmFleets(path, ours, theirs)
	if err != nil {
		return result{}, err
	}
	measure := figure(s, path)
	one := func(f *fleet) side {
		return func() (sample, error) {
			v, err := measure(f, slower)
			return sample{value: v}, err
		}
	}
	res, err := compare(s.pairs, one(ours), one(theirs))
	return res, errors.Join(err, ours.check(), theirs.check())
}

// warmFleets asks both until all of ours lease, and returns the rate of the slower
// when last asked.
func warmFleets(path string, ours, theirs *fleet) (float64, error) {
	for deadline := time.Now().Add(leaseWait); ; {
		a, err := ours.flood(path, time.Second)
		if err != nil {
			return 0, err
		}
		b, err := theirs.flood(path, time.Second)
		if err != nil {
			return 0, err
		}
		err = ours.lease()
		if err == nil {
			return min(a, b), nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("in %v: %w", leaseWait, err)
		}
	}
}

// lease says whether all gateways of the fleet have leased.
func (f *fleet) lease() error {
	for _, one := range f.sites {
		text, err := fetch(one.admin + "/metrics")
		if err != nil {
			return err
		}
		if counted(text, "sluice_lease_claims_total", "") == 0 {
			return errors.New("a gateway has not leased")
		}
	}
	return nil
}

// flood asks all gateways for as much as there is, and returns the requests
// answered in a second.
func (f *fleet) flood(path string, d time.Duration) (float64, error) {
	rates, errs := make([]float64, len(f.sites)), make([]error, len(f.sites))
	var wait sync.WaitGroup
	for i, one := range f.sites {
		wait.Go(func() { rates[i], errs[i] = wrk(path, one.url, connections/fleetSize, d) })
	}
	wait.Wait()
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	return sum, errors.Join(errs...)
}

// A spent is what a fleet answered, and what that cost its Redis.
type spent struct {
	rate     float64 // requests a second
	micros   float64 // of Redis' processor time, a request
	commands float64 // scripts, of a thousand requests
}

func (f *fleet) use(path string, d time.Duration) (spent, error) {
	scripts0, cpu0, err := redisUse(f.redis)
	if err != nil {
		return spent{}, err
	}
	rate, err := f.flood(path, d)
	if err != nil {
		return spent{}, err
	}
	scripts1, cpu1, err := redisUse(f.redis)
	requests := rate * d.Seconds()
	return spent{rate, 1e6 * (cpu1 - cpu0) / requests, 1000 * float64(scripts1-scripts0) / requests}, err
}

// redisUse returns the scripts run and the processor seconds used since a server's
// start.
func redisUse(server *servers.Redis) (run int64, cpu float64, err error) {
	run, err = scripts(server)
	if err != nil {
		return 0, 0, err
	}
	info, err := server.Do("INFO", "cpu")
	if err != nil {
		return 0, 0, err
	}
	cpu, err = cpuSeconds(info)
	return run, cpu, err
}

// cpuSeconds reads an answer to INFO cpu.
func cpuSeconds(info string) (float64, error) {
	total := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %w", err)
		}
		total += v
	}
	if total == 0 {
		return 0, errors.New("INFO cpu: no processor time")
	}
	return total, nil
}

func flatOutFigure(of func(spent) float64) func(settings, string) fleetFigure {
	return func(s settings, path string) fleetFigure {
		return func(f *fleet, _ float64) (float64, error) {
			u, err := f.use(path, seconds(s.round))
			return of(u), err
		}
	}
}

// pacedFigure asks for a percentile of the times at half of the rate that the
// slower of both fleets is able to serve.
func pacedFigure(p float64) func(settings, string) fleetFigure {
	return func(s settings, _ string) fleetFigure {
		return func(f *fleet, slower float64) (float64, error) {
			times, err := f.paced(slower/2, seconds(s.round))
			return percentile(times, p), err
		}
	}
}

// paced asks all gateways at a rate and returns the times of all requests, in
// milliseconds.
func (f *fleet) paced(rate float64, d time.Duration) ([]float64, error) {
	all, errs := make([][]time.Duration, len(f.sites)), make([]error, len(f.sites))
	var wait sync.WaitGroup
	for i, one := range f.sites {
		wait.Go(func() {
			all[i], errs[i] = pacedTimes(one.url, connections/fleetSize, rate/float64(len(f.sites)), d)
		})
	}
	wait.Wait()
	var times []float64
	for _, t := range slices.Concat(all...) {
		times = append(times, float64(t)/1e6)
	}
	return times, errors.Join(errs...)
}
