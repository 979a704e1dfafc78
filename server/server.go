package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A Server runs a configuration. Its life is New, Listen, Serve.
type Server struct {
	log       *slog.Logger
	engine    *policy.Engine
	transport *gateway.Transport
	health    health
	reload    chan struct{}

	// config and front are replaced together, by reload alone.
	config atomic.Pointer[Config]
	front  atomic.Pointer[http.Handler]
	cert   certificate

	listeners []listener
	requests  sync.WaitGroup
}

// A listener is an address and what answers there.
type listener struct {
	name   string
	net    net.Listener
	server *http.Server
}

// New returns a server that has not begun to listen.
func New(c *Config, log *slog.Logger) (*Server, error) {
	s := &Server{
		log:    log,
		engine: policy.NewEngine(memory.New(memory.Options{MaxKeys: c.MaxKeys}), c.Set),
		reload: make(chan struct{}, 1),
	}
	if c.Gateway != nil {
		s.transport = gateway.NewTransport(c.Gateway.Transport)
	}
	if err := s.put(c); err != nil {
		return nil, err
	}
	return s, nil
}

// put puts a configuration in force, whole or not at all.
func (s *Server) put(c *Config) error {
	if c.Gateway != nil {
		h, err := s.handler(c)
		if err != nil {
			return err
		}
		if c.Gateway.TLS != (TLSConfig{}) {
			cert, err := loadCertificate(c.Gateway.TLS)
			if err != nil {
				return err
			}
			s.cert.now.Store(cert)
		}
		s.front.Store(&h)
	}
	s.engine.Swap(c.Set)
	s.config.Store(c)
	return nil
}

// Listen opens all listeners, or none.
func (s *Server) Listen() error {
	c := s.config.Load()
	if c.Gateway == nil && c.Admin.Listen == "" {
		return errors.New("nothing to serve: the configuration has no gateway and no admin listener")
	}
	var errs []error
	if c.Gateway != nil {
		errs = append(errs, s.listen("gateway", c.Gateway.Listen, s.gatewayServer(c.Gateway)))
	}
	if c.Admin.Listen != "" {
		errs = append(errs, s.listen("admin", c.Admin.Listen, s.adminServer()))
	}
	err := errors.Join(errs...)
	if err != nil {
		for _, l := range s.listeners {
			l.net.Close()
		}
		s.listeners = nil
	}
	return err
}

func (s *Server) listen(name, addr string, server *http.Server) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	s.listeners = append(s.listeners, listener{name: name, net: l, server: server})
	return nil
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

// serveFront counts requests under way, also those whose connection was taken
// over by another protocol, which http.Server does not wait for.
func (s *Server) serveFront(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	defer s.requests.Done()
	(*s.front.Load()).ServeHTTP(w, r)
}

func (s *Server) adminServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health.live)
	mux.HandleFunc("GET /readyz", s.health.ready)
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
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
	background.Wait()
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
