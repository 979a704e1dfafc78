package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A Table finds the route of a request. The zero value has no routes. It may be
// asked by many goroutines, but not while routes are added.
type Table struct {
	mux   http.ServeMux
	added []*target
	hosts bool // whether a pattern names a host
}

// A target is what a pattern leads to.
type target struct {
	http.Handler
	id, pattern string
}

// A ConflictError is a pattern that cannot stand beside one added before: a
// request could have either.
type ConflictError struct {
	ID, Pattern string // the route that was not added
	// First is the number of the other route among those added, from 0.
	First                 int
	FirstID, FirstPattern string
	// Why says which requests have both patterns.
	Why string
}

// Error names both patterns and the route that was there before.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("pattern %q is in conflict with %q of route %q: %s", e.Pattern, e.FirstPattern, e.FirstID, e.Why)
}

// Add adds a route: an ID and a pattern of [http.ServeMux], whose host is
// matched without regard to case. The error says what is wrong with the pattern
// or is a [*ConflictError]; the table is then as it was.
func (t *Table) Add(id, pattern string) error {
	return t.add(id, pattern, http.NotFoundHandler())
}

func (t *Table) add(id, pattern string, h http.Handler) error {
	pattern, err := checkPattern(pattern)
	if err != nil {
		return err
	}
	added := &target{Handler: h, id: id, pattern: pattern}
	if err := register(&t.mux, added); err != nil {
		return t.conflict(added, err)
	}
	t.added = append(t.added, added)
	t.hosts = t.hosts || host(pattern) != ""
	return nil
}

// conflict says with which route a new one is in conflict.
func (t *Table) conflict(added *target, cause error) error {
	for i, other := range t.added {
		var pair http.ServeMux
		if register(&pair, other) != nil {
			continue
		}
		if err := register(&pair, added); err != nil {
			_, why, _ := strings.Cut(err.Error(), "\n")
			return &ConflictError{
				ID: added.id, Pattern: added.pattern, First: i, FirstID: other.id, FirstPattern: other.pattern,
				Why: strings.ReplaceAll(why, "\n", " "),
			}
		}
	}
	return fmt.Errorf("pattern %q: %w", added.pattern, cause)
}

// Find returns the ID of the route that requests with a method, a host and a
// path have, "" for none: what a gateway would choose for a request that is only
// known from a log. The path is as in the request, encoded and without a query.
func (t *Table) Find(method, host, path string) string {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	id, _, _ := t.lookup(&http.Request{Method: method, Host: host, URL: u})
	return id
}

// lookup returns the route of a request and its handler. Where the path is not
// written as the route has it, found is false, the ID that of the route which is
// meant, and the handler redirects; where there is no route, it answers an error.
func (t *Table) lookup(r *http.Request) (id string, h http.Handler, found bool) {
	if host := strings.TrimSuffix(strings.ToLower(r.Host), "."); t.hosts && host != r.Host {
		asWritten := *r
		asWritten.Host = host
		r = &asWritten
	}
	h, pattern := t.mux.Handler(r)
	if to, ok := h.(*target); ok {
		return to.id, to.Handler, true
	}
	for _, to := range t.added {
		if to.pattern == pattern {
			return to.id, h, false
		}
	}
	return "", h, false
}

// register registers a pattern. ServeMux panics on one that it cannot take,
// which is for programmers; here patterns are configuration, and bad ones are
// errors.
func register(mux *http.ServeMux, to *target) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	mux.Handle(to.pattern, to)
	return nil
}

// checkPattern says what is wrong with a pattern by itself, also where ServeMux
// takes it and it could never match, and returns it with its host in lower case.
func checkPattern(pattern string) (string, error) {
	if pattern == "" {
		return "", errors.New("the pattern is empty: want one such as POST /orders")
	}
	method, rest := cutMethod(pattern)
	if method != strings.ToUpper(method) {
		return "", fmt.Errorf("pattern %q: methods are written in capitals: want %s", pattern, strings.ToUpper(method))
	}
	name := host(pattern)
	if strings.Contains(name, ":") {
		return "", fmt.Errorf("pattern %q: want the host without a port", pattern)
	}
	if err := register(new(http.ServeMux), &target{pattern: pattern, Handler: http.NotFoundHandler()}); err != nil {
		text := strings.TrimPrefix(err.Error(), fmt.Sprintf("parsing %q: ", pattern))
		return "", fmt.Errorf("pattern %q: %s: want one such as /orders, POST /orders/{id} or example.org/files/", pattern, text)
	}
	path := rest[len(name):]
	if (path == HealthPath || path == ReadyPath) && (method == "" || method == http.MethodGet || method == http.MethodHead) {
		return "", fmt.Errorf("pattern %q: the gateway answers %s itself, for health checks", pattern, path)
	}
	if lower := strings.ToLower(name); lower != name {
		pattern = strings.Replace(pattern, name, lower, 1)
	}
	return pattern, nil
}

// cutMethod parts a pattern into its method, "" for any, and the rest.
func cutMethod(pattern string) (method, rest string) {
	if at := strings.IndexAny(pattern, " \t"); at >= 0 {
		return pattern[:at], strings.TrimLeft(pattern[at:], " \t")
	}
	return "", pattern
}

// host returns the host of a pattern, "" for any.
func host(pattern string) string {
	_, rest := cutMethod(pattern)
	name, _, _ := strings.Cut(rest, "/")
	return name
}
