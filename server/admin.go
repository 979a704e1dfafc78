package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A route of the admin listener. openapi.json describes them all.
type route struct {
	method, path string
	access       access
	query        []string // the parameters; free: attributes of a request
	handle       func(*Server, http.ResponseWriter, *http.Request)
}

// free stands for parameters that are attributes of a request.
const free = "attributes"

// An access says who may use a route.
type access uint8

const (
	everybody access = iota // whoever reaches the listener
	readers                 // operators
	writers                 // operators with a token
)

// adminRoutes are all routes of the admin listener.
func adminRoutes() []route {
	return []route{
		{"GET", "/healthz", everybody, nil, func(s *Server, w http.ResponseWriter, r *http.Request) { s.health.live(w, r) }},
		{"GET", "/readyz", everybody, nil, func(s *Server, w http.ResponseWriter, r *http.Request) { s.health.ready(w, r) }},
		{"GET", "/metrics", everybody, nil, func(s *Server, w http.ResponseWriter, r *http.Request) { s.metrics.Handler().ServeHTTP(w, r) }},
		{"GET", "/v1/openapi.json", everybody, nil, (*Server).openAPI},
		{"GET", "/v1/top", readers, []string{"limit", "n"}, (*Server).top},
		{"GET", "/v1/rules", readers, []string{"tenant", "route", "limit", "after", "n"}, (*Server).listRules},
		{"PUT", "/v1/rules", writers, nil, (*Server).putRule},
		{"GET", "/v1/rules/{id}", readers, nil, (*Server).getRule},
		{"PUT", "/v1/rules/{id}", writers, nil, (*Server).putRuleByID},
		{"DELETE", "/v1/rules/{id}", writers, nil, (*Server).deleteRule},
		{"GET", "/v1/explain", readers, []string{free}, (*Server).explain},
		{"GET", "/v1/usage", readers, []string{free}, (*Server).usage},
		{"POST", "/v1/reset", writers, nil, (*Server).reset},
	}
}

// adminServer serves operators: whether the process lives, its metrics, and the
// admin API, which tells keys and changes rules.
func (s *Server) adminServer() *http.Server {
	mux := http.NewServeMux()
	for _, route := range adminRoutes() {
		mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) { s.answer(&route, w, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { notFound(mux, w, r) })
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// answer lets a request through to its handler, or says why not. What a query
// holds is not repeated: it may be a key.
func (s *Server) answer(route *route, w http.ResponseWriter, r *http.Request) {
	if route.access == everybody {
		route.handle(s, w, r)
		return
	}
	if no := s.admit(r, route.access == writers); no != nil {
		if no.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="sluice admin"`)
		}
		writeError(w, no.status, no.why)
		return
	}
	if message := checkQuery(route, r); message != "" {
		writeError(w, http.StatusBadRequest, message)
		return
	}
	route.handle(s, w, r)
}

// checkQuery says what is wrong with the parameters of a request.
func checkQuery(route *route, r *http.Request) string {
	for name, values := range r.URL.Query() {
		switch {
		case len(values) > 1:
			return fmt.Sprintf("%.64q stands twice in the query: want it once", name)
		case slices.Contains(route.query, name), slices.Contains(route.query, free):
		case len(route.query) == 0:
			return fmt.Sprintf("unknown parameter %.64q: there are none", name)
		default:
			return fmt.Sprintf("unknown parameter %.64q: there are %s", name, strings.Join(route.query, ", "))
		}
	}
	return ""
}

// notFound answers for what has no route: with the methods that there are for the
// path, if there are any.
func notFound(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	allowed := make(map[string]bool)
	for _, route := range adminRoutes() {
		probe := &http.Request{Method: route.method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(probe); pattern != "/" {
			allowed[route.method] = true
		}
	}
	if len(allowed) == 0 {
		writeError(w, http.StatusNotFound, "there is nothing here: /v1/openapi.json says what there is")
		return
	}
	methods := strings.Join(slices.Sorted(maps.Keys(allowed)), ", ")
	w.Header().Set("Allow", methods)
	writeError(w, http.StatusMethodNotAllowed, fmt.Sprintf("%.16q: want %s", r.Method, methods))
}

// number reads a parameter that is a whole number; the error is for the caller.
func number(r *http.Request, name string, usual, least, most int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s=%.32q: want a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// An errorAnswer is the body of every answer that is an error.
type errorAnswer struct {
	Error string `json:"error"`
}

func writeError(w http.ResponseWriter, code int, message string) {
	writeJSON(w, code, errorAnswer{message})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// A caller that is gone is no error of the server.
	_ = json.NewEncoder(w).Encode(body)
}
