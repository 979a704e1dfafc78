// Package gateway is a reverse proxy that asks a limiter before it passes a
// request on.
package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-limiter/sluice/httplimit"
)

// A Route sends the requests that match a pattern to an upstream.
type Route struct {
	// ID names the route to limits: the value of the attribute "route".
	ID string
	// Match is a pattern of [http.ServeMux], such as "POST /orders" or
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
	// Transport talks to upstreams; nil: [NewTransport]'s.
	Transport *Transport
	// MaxBody bounds a request's body in bytes; 0: no bound. A longer one is
	// answered with 413.
	MaxBody int64
	// Health and Ready are answered under the paths /healthz and /readyz,
	// never limited. A route whose pattern is more specific is asked first.
	Health, Ready http.Handler
	// Errors is told of upstreams that failed; nil: nobody is.
	Errors func(r *http.Request, err error)
}

// New returns the gateway's handler. Patterns that are malformed or in conflict
// are errors that name their routes; all errors are joined. Requests that match
// no route are limited like others, with an empty route, and answered with 404.
func New(routes []Route, o Options) (http.Handler, error) {
	if o.Transport == nil {
		o.Transport = NewTransport(TransportOptions{})
	}
	mux := http.NewServeMux()
	var errs []error
	add := func(name, pattern string, h http.Handler) {
		if err := handle(mux, pattern, h); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	catchAll := false
	for _, route := range routes {
		h := route.Handler
		if h == nil {
			h = newProxy(route.Upstream, &o)
		}
		catchAll = catchAll || route.Match == "/"
		add(fmt.Sprintf("route %q", route.ID), route.Match, o.limited(route.ID, h))
	}
	if o.Health != nil {
		add("health", "GET /healthz", o.Health)
	}
	if o.Ready != nil {
		add("ready", "GET /readyz", o.Ready)
	}
	if !catchAll {
		add("no route", "/", o.limited("", http.HandlerFunc(notFound)))
	}
	return mux, errors.Join(errs...)
}

// handle registers a pattern. ServeMux panics on one that it cannot take, which
// is for programmers; here patterns are configuration, and bad ones are errors.
func handle(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			text, _, _ := strings.Cut(fmt.Sprint(problem), "\n")
			err = fmt.Errorf("pattern %q: %s", pattern, text)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// CheckPattern reports what is wrong with a route's pattern by itself.
func CheckPattern(pattern string) error {
	return handle(http.NewServeMux(), pattern, http.HandlerFunc(notFound))
}

// Routes returns a function that tells which route a method and a path belong
// to, "" for none: what the gateway would choose, for requests that are only
// known from a log. Routes with a host match whatever host is given.
func Routes(routes []Route) (func(method, host, path string) string, error) {
	mux := http.NewServeMux()
	ids := make(map[string]string, len(routes))
	var errs []error
	for _, route := range routes {
		ids[route.Match] = route.ID
		if err := handle(mux, route.Match, http.HandlerFunc(notFound)); err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", route.ID, err))
		}
	}
	find := func(method, host, path string) string {
		r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: path}}
		_, pattern := mux.Handler(r)
		return ids[pattern]
	}
	return find, errors.Join(errs...)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	httplimit.WriteProblem(w, r, httplimit.Problem{
		Status: http.StatusNotFound,
		Title:  "No such route",
		Detail: "No route of this gateway matches the request.",
	})
}
