// Package gateway is a reverse proxy that asks a limiter before it passes a
// request on.
package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sluice-limiter/sluice/httplimit"
)

// The paths of health checks. The gateway answers GET and HEAD of them itself,
// whatever the host, and never limits them.
const (
	HealthPath = "/healthz"
	ReadyPath  = "/readyz"
)

// A Route sends the requests that match a pattern to an upstream.
type Route struct {
	// ID names the route to limits: the value of the attribute "route".
	ID string
	// Match is a pattern as [Table.Add] takes it, such as "POST /orders" or
	// "example.org/files/{name...}".
	Match string
	// Upstream is where requests go: http, https or, for HTTP/2 without TLS,
	// h2c. Its path is put before the request's.
	Upstream *url.URL
	// Handler answers in place of an upstream, if it is not nil.
	Handler http.Handler
}

// Options say how a gateway works. The zero value limits nothing and bounds
// nothing.
type Options struct {
	// Limit decides which requests pass; nil: all.
	Limit *httplimit.Handler
	// Transport talks to upstreams; nil: one with [NewTransport]'s defaults.
	Transport *Transport
	// MaxBody bounds a request's body in bytes; 0: no bound. A longer one is
	// answered with 413.
	MaxBody int64
	// Health and Ready answer at [HealthPath] and [ReadyPath]; nil: 404.
	Health, Ready http.Handler
	// Errors is told of upstreams that failed, with the ID of the route, from
	// many goroutines; nil: nobody is. Callers that went away are no failure.
	Errors func(route string, err error)
}

// A proxy is the handler that [New] returns.
type proxy struct {
	o     Options
	table Table
}

// New returns the gateway's handler. Routes that are malformed or in conflict
// are errors that name them; all errors are joined. Requests that match no route
// are limited like others, with an empty route, and answered with 404, or 405
// if only the method does not match.
func New(routes []Route, o Options) (http.Handler, error) {
	if o.Transport == nil {
		o.Transport = NewTransport(TransportOptions{})
	}
	g := &proxy{o: o}
	var errs []error
	for _, route := range routes {
		h, err := g.handler(route)
		if err == nil {
			err = g.table.add(route.ID, route.Match, h)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", route.ID, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return g, nil
}

func (g *proxy) handler(route Route) (http.Handler, error) {
	switch {
	case route.Handler != nil:
		return route.Handler, nil
	case route.Upstream == nil:
		return nil, errors.New("neither an upstream nor a handler")
	case route.Upstream.Host == "" || !knownScheme(route.Upstream.Scheme):
		return nil, fmt.Errorf("upstream %q: want a URL such as http://127.0.0.1:9001, its scheme http, https or h2c", route.Upstream.Redacted())
	}
	return g.forward(route.ID, route.Upstream), nil
}

// ServeHTTP asks the limiter before anything else is done for a request.
func (g *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := g.health(r); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	id, h, found := g.table.lookup(r)
	if g.o.Limit != nil && !g.o.Limit.AdmitRoute(w, r, id) {
		return
	}
	if !found {
		answerUnrouted(w, r, h)
		return
	}
	if !boundBody(w, r, g.o.MaxBody) {
		return
	}
	if k := keep(w); k != nil {
		defer k.release()
		w = k
	}
	h.ServeHTTP(w, r)
}

// health returns what answers a health check; nil if the request is none.
func (g *proxy) health(r *http.Request) http.Handler {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	switch r.URL.Path {
	case HealthPath:
		return g.o.Health
	case ReadyPath:
		return g.o.Ready
	}
	return nil
}

// answerUnrouted answers a request that has no route. h is what ServeMux would
// do about it: redirect to the path as it should be written, or an error.
func answerUnrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	var status statusOnly
	status.header = w.Header()
	h.ServeHTTP(&status, r)
	w.Header().Del("Content-Type") // of the body that is not sent
	switch status.code {
	case http.StatusNotFound:
		httplimit.WriteProblem(w, r, httplimit.Problem{
			Status: http.StatusNotFound,
			Title:  "No such route",
			Detail: "No route of this gateway matches the request.",
		})
	case http.StatusMethodNotAllowed:
		httplimit.WriteProblem(w, r, httplimit.Problem{
			Status: http.StatusMethodNotAllowed,
			Detail: "The route does not take this method; the header Allow lists those that it takes.",
		})
	default:
		w.WriteHeader(status.code)
	}
}

// A statusOnly notes the status of an answer, lets its header through and
// forgets its body.
type statusOnly struct {
	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (s *statusOnly) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *statusOnly) WriteHeader(code int) { s.code = code }

// Write implements http.ResponseWriter.
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
