package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// drain stops the server; patient says whether balancers are given the delay.
func (s *Server) drain(patient bool) error {
	c := s.now.Load().config.Drain
	s.health.draining.Store(true)
	if patient && c.Delay > 0 {
		s.log.Info("draining: not ready, still serving", slog.Duration("for", c.Delay))
		time.Sleep(c.Delay)
	}
	s.log.Info("draining: no more requests, waiting for those under way", slog.Duration("at_most", c.Timeout))
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	err := errors.Join(s.shutdown(ctx), s.idle(ctx))
	s.cut()
	for _, l := range s.listeners {
		l.server.Close()
	}
	if err != nil {
		return fmt.Errorf("drain: requests were still under way after %v and were cut off", c.Timeout)
	}
	s.log.Info("stopped")
	return nil
}

// shutdown lets all listeners take no more requests and waits for those that
// http.Server knows of.
func (s *Server) shutdown(ctx context.Context) error {
	errs := make([]error, len(s.listeners))
	var closing sync.WaitGroup
	for i, l := range s.listeners {
		closing.Go(func() { errs[i] = l.server.Shutdown(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// idle waits for the requests that took their connections over.
func (s *Server) idle(ctx context.Context) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for s.requests.Load() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}
