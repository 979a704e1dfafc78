package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// drain stops the server; patient says whether callers are given the delay.
func (s *Server) drain(patient bool) error {
	c := s.config.Load().Drain
	s.health.draining.Store(true)
	if patient && c.Delay > 0 {
		s.log.Info("draining: not ready, still serving", slog.Duration("for", c.Delay))
		time.Sleep(c.Delay)
	}
	s.log.Info("draining: no more requests, waiting for those under way", slog.Duration("at_most", c.Timeout))
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	errs := make([]error, len(s.listeners))
	var closing sync.WaitGroup
	for i, l := range s.listeners {
		closing.Go(func() { errs[i] = l.server.Shutdown(ctx) })
	}
	closing.Wait()
	if !s.idle(ctx) {
		errs = append(errs, ctx.Err())
	}
	for _, l := range s.listeners {
		l.server.Close()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drain: requests were still under way after %v and were cut off: %w", c.Timeout, err)
	}
	s.log.Info("stopped")
	return nil
}

// idle waits for the requests that took their connections over.
func (s *Server) idle(ctx context.Context) bool {
	done := make(chan struct{})
	go func() {
		s.requests.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
