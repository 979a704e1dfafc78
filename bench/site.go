package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-limiter/sluice/servers"
)

// A site is a proxy that runs as a program of its own.
type site struct {
	url   string
	admin string       // of a sluice
	check func() error // whether it measured what it should; nil: it did
	stop  func()
}

// An opener starts a site before an upstream.
type opener func(s settings, redis, upstream string) (*site, error)

const (
	limitedYAML = "[{name: clients, key: [ip], limit: 900000/s}]"
	noLimits    = "[]"
)

// limited is a gateway with one limit that never refuses.
func limited(s settings, redis, upstream string) (*site, error) {
	return serveSluice(s, redis, upstream, limitedYAML)
}

// unlimited is the same gateway without limits.
func unlimited(s settings, redis, upstream string) (*site, error) {
	return serveSluice(s, redis, upstream, noLimits)
}

// bare is a proxy of the standard library alone: this program, started again.
func bare(_ settings, _, upstream string) (*site, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	c, err := startChild(func() error { _, err := fetch("http://" + addr); return err }, self, "-proxy", upstream, "-listen", addr)
	if err != nil {
		return nil, err
	}
	return &site{url: "http://" + addr, check: func() error { return nil }, stop: c.stop}, nil
}

// serveBare is what the started program does, until it is ended.
func serveBare(listen, upstream string) error {
	proxy, err := bareProxy(upstream)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, ReadHeaderTimeout: patience, Handler: proxy}
	return server.ListenAndServe()
}

func bareProxy(upstream string) (http.Handler, error) {
	target, err := url.Parse(upstream)
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	}, err
}

func freeAddr() (string, error) {
	port, err := servers.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// siteYAML has a wide budget, so that a slow machine measures Redis and not the
// fallback.
const siteYAML = `store: "redis://%s"
budget: 1s
limits: %s
gateway:
  listen: %s
  routes:
    - {id: all, match: /, upstream: "%s"}
admin: {listen: %s}
drain: {timeout: 1s}
`

// serveSluice starts sluice serve.
func serveSluice(s settings, redis, upstream, limits string) (*site, error) {
	program, err := s.programs.sluice()
	if err != nil {
		return nil, err
	}
	gateway, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf(siteYAML, redis, limits, gateway, upstream, admin)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	one := &site{url: "http://" + gateway, admin: "http://" + admin}
	ready := func() error { return decides(one.url, "http://"+admin, limits != noLimits) }
	c, err := startChild(ready, program, "serve", "-c", file, "-level", "warn")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	one.stop = func() { c.stop(); _ = os.RemoveAll(dir) }
	// What was decided before the server had connected does not count.
	before, err := fallbacks("http://" + admin)
	if err != nil {
		one.stop()
		return nil, err
	}
	one.check = func() error {
		after, err := fallbacks("http://" + admin)
		if err == nil && after > before {
			err = fmt.Errorf("%g times: %w", after-before, errFallback)
		}
		return err
	}
	return one, nil
}

// decides says whether a gateway answers and, if it has limits, has asked its
// store.
func decides(gateway, admin string, limits bool) error {
	if _, err := fetch(gateway); err != nil || !limits {
		return err
	}
	text, err := fetch(admin + "/metrics")
	if err == nil && counted(text, "sluice_decisions_total", `source="store"`) == 0 {
		err = errors.New("no decision of the store yet")
	}
	return err
}

// fallbacks returns how many decisions were made without the store.
func fallbacks(admin string) (float64, error) {
	text, err := fetch(admin + "/metrics")
	return counted(text, "sluice_fallback_decisions_total", ""), err
}

// counted adds up the series of a metric whose labels hold a text.
func counted(metrics, name, label string) float64 {
	total := 0.0
	for line := range strings.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, labels, _ := strings.Cut(series, "{")
		if metric != name || !strings.Contains(labels, label) {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			total += n
		}
	}
	return total
}
