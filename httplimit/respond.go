package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// retryUndecided is when a caller may ask again after nothing could be decided:
// a store that is away is usually back, or replaced, within moments.
const retryUndecided = time.Second

// refuse answers for limits that refused: 429, or 503 where the refusal stands
// for a store that does not answer.
func (h *Handler) refuse(w http.ResponseWriter, q *request, jitter time.Duration) {
	p := Problem{
		Type:   TypeQuotaExceeded,
		Title:  "Too many requests",
		Status: http.StatusTooManyRequests,
		Error:  "rate_limited",
	}
	var names [4]string
	p.Violated = violated(names[:0], &q.verdict)
	d := q.verdict.Describing()
	if d == nil {
		WriteProblem(w, q.r, p)
		return
	}
	if d.Decision.RetryAfter > 0 {
		p.RetryAfter = d.Decision.RetryAfter + jitter
	}
	if d.Decision.Source == sluice.SourceFallback && d.Limit.OnFailure == policy.FailDeny {
		p.Type, p.Title = TypeReducedCapacity, "Service unavailable"
		p.Status, p.Error = http.StatusServiceUnavailable, "unavailable"
		p.Detail = "The limit " + d.Limit.Name + " cannot be checked at the moment."
	} else {
		p.Detail = "The request is over the limit " + d.Limit.Name + ", " + d.Effective.String() + "."
	}
	WriteProblem(w, q.r, p)
}

// violated appends the names of the limits that refused.
func violated(names []string, v *policy.Verdict) []string {
	for i := range v.Results {
		if r := &v.Results[i]; !r.Limit.Shadow && !r.Decision.Allowed {
			names = append(names, r.Limit.Name)
		}
	}
	return names
}

// undecided answers for an error, or returns true where the request may pass.
func (h *Handler) undecided(w http.ResponseWriter, r *http.Request, err error) bool {
	var cost *policy.CostError
	switch {
	case errors.As(err, &cost) || errors.Is(err, sluice.ErrCost):
		badCost(w, r, cost)
		return false
	case r.Context().Err() != nil:
		// The caller has given up; nobody reads an answer, and it is not the
		// store's fault.
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	h.errors.log(err, h.o.OnError)
	if h.o.OnError == ErrorAllow {
		return true
	}
	WriteProblem(w, r, Problem{
		Type:       TypeReducedCapacity,
		Title:      "Service unavailable",
		Status:     http.StatusServiceUnavailable,
		Detail:     "The limits of this service cannot be checked at the moment.",
		Error:      "unavailable",
		RetryAfter: retryUndecided + h.jitter(false),
	})
	return false
}

// badCost answers a request that no wait could help.
func badCost(w http.ResponseWriter, r *http.Request, cost *policy.CostError) {
	p := Problem{
		Title:  "Request cost cannot be met",
		Status: http.StatusBadRequest,
		Detail: "The request costs more than a limit ever lets pass at once.",
		Error:  "cost",
	}
	if cost != nil {
		p.Detail = cost.Error()
		p.Violated = []string{cost.Limit}
	}
	WriteProblem(w, r, p)
}

// unidentified answers a request without an identity.
func unidentified(w http.ResponseWriter, r *http.Request, i *Identity, why denial) {
	p := Problem{Status: http.StatusUnauthorized, Title: "Not identified", Error: "unidentified"}
	switch why {
	case missing:
		p.Detail = fmt.Sprintf("The header %s is required and missing.", i.o.Header)
	case rejected:
		p.Detail = fmt.Sprintf("The value of the header %s is not known.", i.o.Header)
	case repeated:
		p.Status, p.Title, p.Error = http.StatusBadRequest, "Identified more than once", "identity"
		p.Detail = fmt.Sprintf("The header %s came more than once: send it once.", i.o.Header)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = []string{i.o.Challenge}
	}
	WriteProblem(w, r, p)
}
