package server

import (
	"context"
	"log/slog"
	"reflect"
	"sync"

	"github.com/sluice-limiter/sluice/rules"
)

// Reload asks for the configuration to be read again, as SIGHUP does. It
// returns at once.
func (s *Server) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // one is asked for already, and will see the file as it is now
	}
}

// follow reads the configuration again whenever a file of it changes or Reload
// asks, until ctx ends.
func (s *Server) follow(ctx context.Context) {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	for _, file := range s.config.Load().files() {
		watchers.Go(func() { _ = rules.Watch(ctx, file, s.Reload) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reload:
			s.readAgain()
		}
	}
}

// files returns the files that the configuration was read from.
func (c *Config) files() []string {
	if c.Path == "" {
		return nil
	}
	files := []string{c.Path}
	for _, a := range c.Identity.Attributes {
		if a.KeysFile != "" {
			files = append(files, a.KeysFile)
		}
	}
	if c.Gateway != nil && c.Gateway.TLS != (TLSConfig{}) {
		files = append(files, c.Gateway.TLS.Cert)
	}
	return files
}

// readAgain puts the file's present content in force, or keeps what is and
// says why.
func (s *Server) readAgain() {
	old := s.config.Load()
	if old.Path == "" {
		return
	}
	c, err := Load(old.Path)
	if err == nil {
		if c.Gateway == nil {
			c.Gateway = old.Gateway
		}
		err = s.put(c)
	}
	if err != nil {
		s.log.Error("configuration not reloaded: the old one stays in force",
			slog.String("file", old.Path), slog.Any("error", err))
		return
	}
	attrs := []any{slog.String("file", c.Path), slog.Int("limits", len(c.Set.Limits()))}
	if fixed := changedFixed(old, c); len(fixed) > 0 {
		attrs = append(attrs, slog.Any("only_after_a_restart", fixed))
	}
	s.log.Info("configuration reloaded", attrs...)
}

// changedFixed names the fields that changed and take effect only when the
// server is started again.
func changedFixed(old, c *Config) []string {
	var names []string
	differ := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			names = append(names, name)
		}
	}
	differ("store", old.Store, c.Store)
	differ("prefix", old.Prefix, c.Prefix)
	differ("max_keys", old.MaxKeys, c.MaxKeys)
	differ("admin", old.Admin, c.Admin)
	if old.Gateway != nil && c.Gateway != nil {
		differ("gateway.listen", old.Gateway.Listen, c.Gateway.Listen)
		differ("gateway timeouts", old.Gateway.Transport, c.Gateway.Transport)
		differ("gateway.tls", old.Gateway.TLS == TLSConfig{}, c.Gateway.TLS == TLSConfig{})
	}
	return names
}
