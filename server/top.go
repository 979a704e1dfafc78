package server

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/sluice-limiter/sluice/metrics/hot"
)

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
	n, err := number(r, "n", topUsual, 1, topMost)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	answer := topAnswer{Limits: s.hot.Top(int(n))}
	if name := r.URL.Query().Get("limit"); name != "" {
		answer.Limits = slices.DeleteFunc(answer.Limits, func(l hot.Limit) bool { return l.Name != name })
		if len(answer.Limits) == 0 {
			writeError(w, http.StatusNotFound, fmt.Sprintf("limit=%s: no limit has this name", strconv.Quote(name)))
			return
		}
	}
	writeJSON(w, http.StatusOK, answer)
}
