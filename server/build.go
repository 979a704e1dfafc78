package server

import (
	"log/slog"
	"net/http"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
)

// A state is a configuration in force and what was made of it. It is immutable,
// so that each request is served by one configuration from its start to its
// end; the counters are in the store, which outlives it.
type state struct {
	config *Config
	engine *policy.Engine
	front  http.Handler // the gateway's; nil: none
}

// build makes a state of a configuration and of the rows in force; s.putting
// must be held.
func (s *Server) build(c *Config) (*state, error) {
	set := c.Set
	if last := s.now.Load(); last != nil {
		set = set.Adopt(last.engine.Set())
	}
	now := &state{config: c, engine: policy.NewEngine(s.stack.Top, set)}
	c.named = func(attribute, value string) bool { return now.engine.Set().Names(attribute, value) }
	if c.Gateway == nil {
		return now, nil
	}
	limit, err := httplimit.New(now.engine, httplimit.Options{
		Addresses:      c.Identity.Addresses,
		Identities:     c.identities,
		Normalize:      c.lower(),
		Hasher:         c.hasher,
		HideXRateLimit: c.Gateway.Headers.HideXRateLimit,
		HideRateLimit:  c.Gateway.Headers.HideRateLimit,
		Jitter:         c.Gateway.Headers.Jitter,
		Logger:         s.log,
		Observe:        s.observe,
		Latency:        s.metrics.Latency(),
	})
	if err != nil {
		return nil, err
	}
	failures := &upstreamLog{log: s.log}
	now.front, err = gateway.New(c.Gateway.Routes, gateway.Options{
		Limit:     limit,
		Transport: s.transport,
		MaxBody:   c.Gateway.MaxBody,
		Health:    http.HandlerFunc(s.health.live),
		Ready:     http.HandlerFunc(s.health.ready),
		Errors:    failures.failed,
	})
	return now, err
}

// put puts a configuration in force, whole or not at all.
func (s *Server) put(c *Config) error {
	s.putting.Lock()
	defer s.putting.Unlock()
	now, err := s.build(c)
	if err != nil {
		return err
	}
	if c.Gateway != nil && c.Gateway.TLS.pair != nil {
		s.cert.now.Store(c.Gateway.TLS.pair)
	}
	s.now.Store(now)
	for _, warning := range c.Warnings {
		s.log.Warn("configuration", slog.String("warning", warning))
	}
	return nil
}
