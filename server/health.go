package server

import (
	"net/http"
	"sync/atomic"
)

// health answers whether the process lives and whether it should get traffic.
type health struct {
	draining atomic.Bool
	degraded func() []string // nodes of the store that are not asked
}

// live answers 200 as long as the process can answer at all.
func (h *health) live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, status{Status: "alive"})
}

// ready answers 503 only while the server drains. With the store away it is
// ready all the same, and says so: limits go by their failure modes, and another
// instance would have no more of the store.
func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	if h.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, status{Status: "draining"})
		return
	}
	if away := h.degraded(); len(away) > 0 {
		writeJSON(w, http.StatusOK, status{Status: "degraded", Away: away})
		return
	}
	writeJSON(w, http.StatusOK, status{Status: "ready"})
}

// A status is the body of a health answer.
type status struct {
	Status string   `json:"status"`
	Away   []string `json:"store_away,omitempty"`
}
