package server

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
)

// health answers whether the process lives and whether it should get traffic.
type health struct {
	draining atomic.Bool
}

// live answers 200 as long as the process can answer at all.
func (h *health) live(w http.ResponseWriter, _ *http.Request) {
	writeStatus(w, http.StatusOK, "alive")
}

// ready answers 503 only while the server drains: nothing else that is wrong
// would be better on another instance.
func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	if h.draining.Load() {
		writeStatus(w, http.StatusServiceUnavailable, "draining")
		return
	}
	writeStatus(w, http.StatusOK, "ready")
}

func writeStatus(w http.ResponseWriter, code int, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// A caller that is gone is no error of the server.
	_ = json.NewEncoder(w).Encode(map[string]string{"status": status})
}
