package server

import (
	"net/http"
	"sync/atomic"
)

// health answers whether the process lives and whether it should get traffic.
type health struct {
	draining atomic.Bool
	degraded func() []string // nodes of the store that are not asked
	stale    func() bool     // the rules are the last that were known
}

// live answers 200 as long as the process can answer at all.
func (h *health) live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, status{Status: "alive"})
}

// ready answers 503 only while the server drains. With the store or the database
// of the rules away it is ready all the same, and says so: limits go by their
// failure modes and by the last rules, and another instance would have no more
// of either.
func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	if h.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, status{Status: "draining"})
		return
	}
	now := status{Away: h.degraded()}
	if h.stale() {
		now.Rules = "stale"
	}
	if len(now.Away) > 0 || now.Rules != "" {
		now.Status = "degraded"
		writeJSON(w, http.StatusOK, now)
		return
	}
	writeJSON(w, http.StatusOK, status{Status: "ready"})
}

// A status is the body of a health answer.
type status struct {
	Status string   `json:"status"`
	Away   []string `json:"store_away,omitempty"`
	Rules  string   `json:"rules,omitempty"`
}
