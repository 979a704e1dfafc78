package server

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/httplimit"
)

// handler builds the gateway's handler of a configuration. The engine and the
// transport are the server's: they outlive it.
func (s *Server) handler(c *Config) (http.Handler, error) {
	limit, err := httplimit.New(s.engine, httplimit.Options{
		Addresses:      c.Identity.Addresses,
		Identities:     c.identities,
		Normalize:      c.normalize(),
		Hasher:         c.hasher,
		HideXRateLimit: c.Gateway.Headers.HideXRateLimit,
		HideRateLimit:  c.Gateway.Headers.HideRateLimit,
		Jitter:         c.Gateway.Headers.Jitter,
		Logger:         s.log,
	})
	if err != nil {
		return nil, err
	}
	return gateway.New(c.Gateway.Routes, gateway.Options{
		Limit:     limit,
		Transport: s.transport,
		MaxBody:   c.Gateway.MaxBody,
		Health:    http.HandlerFunc(s.health.live),
		Ready:     http.HandlerFunc(s.health.ready),
		Errors: func(r *http.Request, err error) {
			s.log.Warn("upstream failed", slog.String("route", r.Pattern), slog.Any("error", err))
		},
	})
}

// identify builds what tells requests apart. Which values the rules name is
// looked up later, as the rules are read after the identities.
func (c *Config) identify() error {
	key, err := c.hashKey()
	if err != nil {
		return err
	}
	c.hasher = httplimit.NewHasher(key)
	for _, a := range c.Identity.Attributes {
		i, err := httplimit.NewIdentity(httplimit.IdentityOptions{
			Name:     a.Name,
			Header:   a.Header,
			Required: a.Required,
			Secret:   a.Secret,
			Hasher:   c.hasher,
			Keys:     a.keys,
			Unknown:  a.Unknown,
			Named:    func(value string) bool { return c.namedValues[a.Name][value] },
		})
		if err != nil {
			return err
		}
		c.identities = append(c.identities, i)
	}
	return nil
}

func (c *Config) normalize() map[string]func(string) string {
	functions := make(map[string]func(string) string)
	for _, a := range c.Identity.Attributes {
		if a.Lower {
			functions[a.Name] = strings.ToLower
		}
	}
	return functions
}

// hashKey returns the key with which secrets are hashed: the same on every
// instance. Without a file it is no secret; then the hashes are as safe as the
// secrets are hard to guess.
func (c *Config) hashKey() ([]byte, error) {
	if c.Identity.HashKeyFile == "" {
		key := sha256.Sum256([]byte("sluice secrets under " + c.Prefix))
		return key[:], nil
	}
	key, err := os.ReadFile(c.Identity.HashKeyFile)
	if err != nil {
		return nil, fmt.Errorf("hash_key_file: %w", err)
	}
	if len(strings.TrimSpace(string(key))) < 16 {
		return nil, fmt.Errorf("hash_key_file: %s holds under 16 bytes: want at least 16 random ones, as from openssl rand -hex 32", c.Identity.HashKeyFile)
	}
	return key, nil
}
