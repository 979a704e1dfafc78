package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/metrics/hot"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/redis"
)

// A Server runs a configuration. Its life is New, Listen, Serve. Reload and Addr
// may be called from many goroutines once it listens.
type Server struct {
	log       *slog.Logger
	started   *Config // what listeners, store and transport are made of
	stack     *Stack
	metrics   *metrics.Metrics
	hot       *hot.Keys // nil: nobody can ask
	observe   func(*http.Request, *policy.Verdict, error)
	transport *gateway.Transport
	health    health
	reload    chan struct{}

	putting sync.Mutex // held while a configuration or a set is put in force
	now     atomic.Pointer[state]
	cert    certificate
	rules   *rules.Table    // nil: only the file has rules
	changed *rules.Messages // nil: nobody tells of changed rules
	records *rules.Records  // what the admin API writes to; nil: only the file has rules

	listeners []listener
	requests  atomic.Int64 // under way
	closing   sync.Once
	cut       func() // ends the contexts of all requests
}

// A listener is an address and what answers there.
type listener struct {
	name   string
	net    net.Listener
	server *http.Server
}

// New returns a server that has not begun to listen. It logs the warnings of
// the configuration.
func New(c *Config, log *slog.Logger) (*Server, error) {
	m := metrics.New(metrics.Options{Version: version(), Away: []error{redis.ErrAway, guard.ErrAway, coalesce.ErrClosed}, Logger: log})
	stack, err := NewStack(context.Background(), c, m, log)
	if err != nil {
		return nil, fmt.Errorf("%s: store: %w", c.Path, err)
	}
	s := &Server{
		log:     log,
		started: c,
		stack:   stack,
		metrics: m,
		reload:  make(chan struct{}, 1),
	}
	s.health.degraded, s.health.stale = stack.Degraded, s.staleRules
	s.observe = s.observer()
	if c.Gateway != nil {
		s.transport = gateway.NewTransport(c.Gateway.Transport)
	}
	if err := s.put(c); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.openRules(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// observer returns what is told every verdict: the metrics, and the hot keys if
// anybody can ask for them.
func (s *Server) observer() func(*http.Request, *policy.Verdict, error) {
	inForce := func() *policy.Set { return s.now.Load().config.Set }
	count := s.metrics.Observer(inForce)
	if s.started.Admin.Listen == "" {
		return count
	}
	s.hot = hot.New(inForce)
	return func(r *http.Request, v *policy.Verdict, err error) {
		count(r, v, err)
		s.hot.Observe(r, v, err)
	}
}

// version returns the version of the program, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// Close ends what New began. A server that serves closes itself when it stops.
func (s *Server) Close() {
	s.closing.Do(func() {
		if s.rules != nil {
			s.rules.Close()
		}
		s.stack.Close()
	})
}

// Listen opens all listeners, or none; the error names those that failed.
func (s *Server) Listen() error {
	c := s.started
	if c.Gateway == nil && c.Admin.Listen == "" {
		return fmt.Errorf("%s: nothing to serve: want gateway with a listener and routes", c.Path)
	}
	var errs []error
	if c.Gateway != nil {
		errs = append(errs, s.listen("gateway", c.Gateway.Listen, s.gatewayServer(c.Gateway)))
	}
	if c.Admin.Listen != "" {
		errs = append(errs, s.listenAdmin())
	}
	if err := errors.Join(errs...); err != nil {
		for _, l := range s.listeners {
			l.net.Close()
		}
		s.listeners = nil
		return err
	}
	requests, cut := context.WithCancel(context.Background())
	s.cut = cut
	for _, l := range s.listeners {
		l.server.BaseContext = func(net.Listener) context.Context { return requests }
	}
	return nil
}

func (s *Server) listen(name, addr string, server *http.Server) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s.listen: %w", name, explainListen(err))
	}
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	s.listeners = append(s.listeners, listener{name: name, net: l, server: server})
	return nil
}

// listenAdmin opens the listener for operators. The name of an address may lead
// elsewhere than was thought when the file was read.
func (s *Server) listenAdmin() error {
	c := s.started.Admin
	if err := s.listen("admin", c.Listen, s.adminServer()); err != nil {
		return err
	}
	if addr := s.Addr("admin"); c.TokenFile == "" && !loopback(addr) {
		return fmt.Errorf("admin.listen: %s is reached from other machines, and there is no token: want %s", addr, wantToken)
	}
	return nil
}

// explainListen adds what can be done about an address that cannot be had.
func explainListen(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another program listens there; stop it or choose another port", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: ports below 1024 need a privilege; choose a higher one", err)
	}
	return err
}

// Addr returns the address of a listener, "gateway" or "admin"; "" if there is
// none.
func (s *Server) Addr(name string) string {
	for _, l := range s.listeners {
		if l.name == name {
			return l.net.Addr().String()
		}
	}
	return ""
}

// gatewayServer serves the front that is in force at each request. The time for
// a whole request is not bounded, since bodies stream in both directions; the
// time for its head is.
func (s *Server) gatewayServer(g *GatewayConfig) *http.Server {
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serveFront),
		ReadHeaderTimeout: g.ReadHeaderTimeout,
		IdleTimeout:       g.IdleTimeout,
		MaxHeaderBytes:    int(g.MaxHeader),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	if g.TLS == (TLSConfig{}) {
		server.Protocols.SetUnencryptedHTTP2(true)
	} else {
		server.TLSConfig = s.cert.config()
	}
	return server
}

// serveFront answers by the configuration in force. It counts requests under
// way, also those whose connection another protocol took over, for which
// http.Server does not wait.
func (s *Server) serveFront(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	defer s.finish(r)
	s.now.Load().front.ServeHTTP(w, r)
}

// finish ends a request. A panic is a mistake of ours, which must be seen; the
// server's own log of it would be lost among the complaints about callers.
func (s *Server) finish(r *http.Request) {
	s.requests.Add(-1)
	switch problem := recover(); problem {
	case nil:
	case http.ErrAbortHandler:
		panic(problem) // the proxy's way to break an answer off
	default:
		s.log.Error("request failed", slog.String("method", r.Method), slog.Any("panic", problem),
			slog.String("stack", string(debug.Stack())))
		panic(http.ErrAbortHandler)
	}
}

// Serve answers requests until ctx ends, and then drains: it says that it is
// not ready, goes on for the configured delay, takes no more requests and waits
// for those under way. The error is of a listener that failed, or says that the
// time to drain ran out.
func (s *Server) Serve(ctx context.Context) error {
	watching, stopWatching := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.follow(watching) })
	background.Go(func() { s.followRules(watching) })
	// The store is looked after until the last request has been answered.
	tending, stopTending := context.WithCancel(context.Background())
	background.Go(func() { s.stack.Run(tending) })
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		s.log.Info("listening", slog.String("for", l.name), slog.String("address", l.net.Addr().String()))
		background.Go(func() { failed <- l.serve() })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopWatching()
	err = errors.Join(err, s.drain(err == nil))
	stopTending()
	background.Wait()
	s.Close()
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return err
}

func (l *listener) serve() error {
	var err error
	if l.server.TLSConfig != nil {
		err = l.server.ServeTLS(l.net, "", "")
	} else {
		err = l.server.Serve(l.net)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", l.name, err)
}
