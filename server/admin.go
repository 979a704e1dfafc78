package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-limiter/sluice/metrics/hot"
)

// adminServer serves operators: whether the process lives, its metrics, and the
// admin API, which tells keys.
func (s *Server) adminServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health.live)
	mux.HandleFunc("GET /readyz", s.health.ready)
	mux.Handle("GET /metrics", s.metrics.Handler())
	mux.Handle("GET /v1/top", s.operator(s.top))
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// operator lets only operators reach a handler of the admin API. Without a token
// they are those on this machine: the listener must be on a loopback address, and
// the request must name one, so that no web page can have a browser here read what
// it has no business with.
func (s *Server) operator(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loopback(s.Addr("admin")):
			writeError(w, http.StatusForbidden, "the admin API answers on a loopback address only: want admin.listen on one, such as 127.0.0.1:9090")
		case !local(r.Host):
			writeError(w, http.StatusForbidden, "the admin API answers requests to this machine only: want the host 127.0.0.1, ::1 or localhost")
		default:
			next(w, r)
		}
	})
}

// local says whether a Host field names this machine.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// The bounds of how many keys are told of each limit.
const (
	topUsual = 10
	topMost  = 1000
)

// A topAnswer is the body of /v1/top.
type topAnswer struct {
	Limits []hot.Limit `json:"limits"`
}

// top answers GET /v1/top?limit=NAME&n=10: the busiest and the most refused keys
// of all limits, or of one.
func (s *Server) top(w http.ResponseWriter, r *http.Request) {
	q, n := r.URL.Query(), topUsual
	if text := q.Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > topMost {
			writeError(w, http.StatusBadRequest, fmt.Sprintf("n=%s: want a whole number from 1 to %d", strconv.Quote(text), topMost))
			return
		}
	}
	answer := topAnswer{Limits: s.hot.Top(n)}
	if name := q.Get("limit"); name != "" {
		answer.Limits = slices.DeleteFunc(answer.Limits, func(l hot.Limit) bool { return l.Name != name })
		if len(answer.Limits) == 0 {
			writeError(w, http.StatusNotFound, fmt.Sprintf("limit=%s: no limit has this name", strconv.Quote(name)))
			return
		}
	}
	writeJSON(w, http.StatusOK, answer)
}

func writeError(w http.ResponseWriter, code int, message string) {
	writeJSON(w, code, struct {
		Error string `json:"error"`
	}{message})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// A caller that is gone is no error of the server.
	_ = json.NewEncoder(w).Encode(body)
}
