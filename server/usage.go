package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

// A usageAnswer is the body of /v1/usage.
type usageAnswer struct {
	Attributes map[string]string `json:"attributes"` // as limits see them
	Limits     []usedLimit       `json:"limits"`     // that the request meets
}

// A usedLimit is how a counter stands.
type usedLimit struct {
	Limit      string `json:"limit"`
	Key        string `json:"key,omitempty"`
	Rate       string `json:"rate"`
	Capacity   int64  `json:"capacity"`
	Remaining  int64  `json:"remaining"`
	ResetAfter int64  `json:"reset_after_ms"` // until all is free again
	Source     string `json:"source"`         // who says so: store, denied, lease, fallback; none if unlimited
	Shadow     bool   `json:"shadow,omitempty"`
}

// usageTimeout bounds a question to the store.
const usageTimeout = 5 * time.Second

// usage answers GET /v1/usage?tenant=..&route=..: how the counters of a request
// stand. It takes nothing from them.
func (s *Server) usage(w http.ResponseWriter, r *http.Request) {
	now := s.now.Load()
	caller, err := now.caller(queryAttributes(r))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), usageTimeout)
	defer cancel()
	var v policy.Verdict
	if err := now.engine.Decide(ctx, caller.request(), &v); err != nil {
		writeStoreError(w, err)
		return
	}
	answer := usageAnswer{Attributes: shownAttributes(caller), Limits: []usedLimit{}}
	for i := range v.Results {
		answer.Limits = append(answer.Limits, used(&v.Results[i]))
	}
	for i := range v.Unlimited {
		answer.Limits = append(answer.Limits, usedLimit{Limit: v.Unlimited[i].Limit.Name, Rate: "unlimited", Source: "none", Shadow: v.Unlimited[i].Limit.Shadow})
	}
	writeJSON(w, http.StatusOK, answer)
}

func used(r *policy.Result) usedLimit {
	var rate ruleAnswer
	rate.rate(r.Effective, false)
	d := &r.Decision
	return usedLimit{
		Limit: r.Limit.Name, Key: r.Key, Rate: rate.Rate, Capacity: d.Limit, Remaining: d.Remaining,
		ResetAfter: milliseconds(d.ResetAfter), Source: d.Source.String(), Shadow: r.Limit.Shadow,
	}
}

// milliseconds rounds a wait up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// writeStoreError answers for a call of the store that failed: a cost that makes
// no sense is the caller's, all else is the store's.
func writeStoreError(w http.ResponseWriter, err error) {
	var cost *policy.CostError
	if errors.As(err, &cost) {
		writeError(w, http.StatusBadRequest, cost.Error())
		return
	}
	writeError(w, http.StatusServiceUnavailable, "the store does not answer: "+err.Error())
}

// A resetBody is what /v1/reset is asked.
type resetBody struct {
	// Attributes are those of the request whose counters are meant.
	Attributes map[string]string `json:"attributes"`
	// Limit is the one limit that is meant, or * for all that count by nothing
	// but attributes that are given. One that all requests share is meant only
	// by its name. "" is the one limit that * would mean, if it is one.
	Limit string `json:"limit"`
}

// A resetAnswer is the body of /v1/reset.
type resetAnswer struct {
	Reset []resetKey `json:"reset"`
}

type resetKey struct {
	Limit string `json:"limit"`
	Key   string `json:"key"`
}

// reset answers POST /v1/reset: it makes counters as if never used.
func (s *Server) reset(w http.ResponseWriter, r *http.Request) {
	var body resetBody
	if !readBody(w, r, &body) {
		return
	}
	now := s.now.Load()
	caller, err := now.caller(body.Attributes)
	if err != nil {
		writeError(w, http.StatusBadRequest, "attributes: "+err.Error())
		return
	}
	names := meantLimits(now.engine.Set(), &body, caller)
	switch {
	case len(names) == 0:
		writeError(w, http.StatusNotFound, "no counter is kept by these attributes: want all attributes of a limit's key, or in limit the name of one that the request meets; /v1/explain tells which these are")
		return
	case len(names) > 1 && body.Limit == "":
		writeError(w, http.StatusBadRequest, "limit: several count by these attributes, "+strings.Join(names, ", ")+": want one of them, or * for all")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), usageTimeout)
	defer cancel()
	results, err := now.engine.Forget(ctx, caller.request(), func(l *policy.Limit) bool { return slices.Contains(names, l.Name) })
	if err != nil {
		writeStoreError(w, err)
		return
	}
	answer := resetAnswer{Reset: []resetKey{}}
	for _, result := range results {
		answer.Reset = append(answer.Reset, resetKey{result.Limit.Name, result.Key})
		s.log.Info("counter reset", slog.String("key", result.Key), slog.String("by", actor(r)))
	}
	writeJSON(w, http.StatusOK, answer)
}

// meantLimits returns the names of the limits whose counters are to be reset.
func meantLimits(set *policy.Set, body *resetBody, caller *Caller) []string {
	var names []string
	for _, x := range set.Explain(caller.request()) {
		switch named := body.Limit == x.Limit.Name; {
		case !x.Met || x.Chosen.Unlimited:
		case named, (body.Limit == "" || body.Limit == "*") && countsBy(x.Limit, caller):
			names = append(names, x.Limit.Name)
		}
	}
	return names
}

// countsBy says whether a limit counts by nothing but attributes that a caller
// has, and by some.
func countsBy(l *policy.Limit, caller *Caller) bool {
	for _, name := range l.Key {
		if caller.Attributes[name] == "" {
			return false
		}
	}
	return len(l.Key) > 0
}
