package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

// The limit that replicas keep together.
const (
	globalRate  = 500 // tokens a second
	globalBurst = 500
	globalYAML  = "[{name: global, key: [], limit: 500/s}]"
	replicas    = 3
)

// accuracyBenchmarks hold what replicas admit together against what their one
// limit says.
func accuracyBenchmarks() []benchmark {
	return []benchmark{{
		// Not below by a tenth of a percent, and never above.
		name: "accuracy/3-replicas", unit: "%",
		target:  []bound{atLeast("value", -0.1), atMost("value", 0)},
		measure: accuracy,
	}}
}

// accuracy asks replicas behind a balancer for more than they may admit, for 25
// rounds at once, and returns by how many percent they admitted more than burst
// + rate x time. Admissions are what callers saw; the time is between the first
// and the last that the store wrote down, on the store's clock.
func accuracy(s settings) (result, error) {
	redis, err := servers.StartRedis(context.Background())
	if err != nil {
		return result{}, err
	}
	defer redis.Close()
	upstream := httptest.NewServer(http.HandlerFunc(hello))
	defer upstream.Close()
	sites := make([]*site, replicas)
	for i := range sites {
		if sites[i], err = serveSluice(s, redis.Addr, upstream.URL, globalYAML); err != nil {
			return result{}, err
		}
		defer sites[i].stop()
	}
	balancer, err := balance(sites)
	if err != nil {
		return result{}, err
	}
	defer balancer.stop()
	// What was asked to see whether they are up must be over.
	if err := poll(func() error { return noStates(redis) }); err != nil {
		return result{}, err
	}
	m, err := monitor(redis.Addr, "global")
	if err != nil {
		return result{}, err
	}
	admitted, err := admit(balancer.url, 25*s.round)
	first, last, merr := m.stop()
	if err = errors.Join(err, merr); err != nil {
		return result{}, err
	}
	for _, one := range sites {
		if err := one.check(); err != nil {
			return result{}, err
		}
	}
	return result{ours: deviation(admitted, last.Sub(first))}, nil
}

// deviation is by how many percent admissions are more than a full bucket
// admits in a time. A row takes less than 0.005 for none, which in ten seconds is
// a quarter of a token: MONITOR's times are microseconds beside the script's.
func deviation(admitted int64, d time.Duration) float64 {
	expected := globalBurst + globalRate*d.Seconds()
	return 100 * (float64(admitted) - expected) / expected
}

// admit asks as much as callers can, each at least once, and returns how many
// requests passed. Any status but 200 and 429 is an error.
func admit(site string, d time.Duration) (int64, error) {
	var admitted atomic.Int64
	start := time.Now()
	err := each(site, connections, func(_ int, c *caller) error {
		for {
			status, err := c.get()
			switch {
			case err != nil:
				return err
			case status == http.StatusOK:
				admitted.Add(1)
			case status != http.StatusTooManyRequests:
				return fmt.Errorf("status %d: want 200 or 429", status)
			}
			if time.Since(start) >= d {
				return nil
			}
		}
	})
	return admitted.Load(), err
}

// noStates says whether the limit is as if never used.
func noStates(redis *servers.Redis) error {
	keys, err := redis.Do("KEYS", "*global*")
	if err == nil && keys != "" {
		err = errors.New("the limit is still in use")
	}
	return err
}

// nginxConf hands requests to each upstream in turn, over connections that stay.
const nginxConf = `daemon off;
worker_processes 1;
pid DIR/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	upstream replicas { SERVERS keepalive 64; keepalive_requests 1000000000; }
	server {
		listen LISTEN;
		keepalive_requests 1000000000;
		location / {
			proxy_pass http://replicas;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_next_upstream off;
		}
	}
}
`

// balance starts nginx in front of sites.
func balance(sites []*site) (*site, error) {
	nginx, err := servers.Find("nginx", "nginx-light")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	for _, one := range sites {
		fmt.Fprintf(&all, "server %s max_fails=0; ", strings.TrimPrefix(one.url, "http://"))
	}
	file := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("DIR", dir, "LISTEN", addr, "SERVERS", all.String()).Replace(nginxConf)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	url := "http://" + addr
	ready := func() error { _, err := fetch(url); return err }
	c, err := startChild(ready, nginx, "-p", dir, "-e", "stderr", "-c", file)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &site{url: url, stop: func() { c.stop(); _ = os.RemoveAll(dir) }}, nil
}
