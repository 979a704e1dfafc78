package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
)

// A ruleBody is a rule as it is put.
type ruleBody struct {
	placeBody
	rateBody
}

// A placeBody says whom a rule is for.
type placeBody struct {
	Tenant string `json:"tenant"` // "*": any
	Route  string `json:"route"`
	Limit  string `json:"limit"` // "": the one whose key is tenant and route
}

// A rateBody says how much a rule lets pass, and for how long.
type rateBody struct {
	Rate      string `json:"rate"`
	Burst     int64  `json:"burst"`
	Algorithm string `json:"algorithm"`
	Expires   string `json:"expires_at"` // RFC 3339; "": never
	For       string `json:"for"`        // in place of expires_at: "2h"
}

// A writeAnswer says what became of a rule.
type writeAnswer struct {
	// Rule is as it is now or, if it was deleted, as it was.
	Rule ruleAnswer `json:"rule"`
	// Before is as it was before a change.
	Before *ruleAnswer `json:"before,omitempty"`
	// InForce says that this instance goes by it already.
	InForce bool `json:"in_force"`
}

// The bounds of a write: of the whole, and of waiting until it is in force.
const (
	writeTimeout = 15 * time.Second
	forceTimeout = 2 * time.Second
)

// putRule answers PUT /v1/rules: it makes a rule for a tenant and a route, or
// changes the one that is there.
func (s *Server) putRule(w http.ResponseWriter, r *http.Request) {
	var body ruleBody
	if !s.writable(w) || !readBody(w, r, &body) {
		return
	}
	expect, err := expectation(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	blind := expect == rules.Expectation{}
	expect.Absent = expect.Absent || blind
	s.write(w, r, &body, rules.Write{Expect: expect}, blind)
}

// putRuleByID answers PUT /v1/rules/{id}: it changes what a rule says.
func (s *Server) putRuleByID(w http.ResponseWriter, r *http.Request) {
	var body ruleBody
	if !s.writable(w) || !readBody(w, r, &body.rateBody) {
		return
	}
	id, expect, ok := s.existing(w, r)
	if !ok {
		return
	}
	row, ok := s.now.Load().engine.Set().Row(id)
	if !ok {
		writeError(w, http.StatusNotFound, fmt.Sprintf("there is no rule %d, or this instance does not know it yet", id))
		return
	}
	body.placeBody = placeBody{row.Tenant, row.Route, row.Limit}
	s.write(w, r, &body, rules.Write{Row: policy.Row{ID: id}, Expect: expect}, false)
}

// existing reads which rule is to be changed, and which version of it.
func (s *Server) existing(w http.ResponseWriter, r *http.Request) (id int64, expect rules.Expectation, ok bool) {
	if id, ok = s.idOf(w, r); !ok {
		return 0, expect, false
	}
	expect, err := expectation(r)
	switch {
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
	case expect.Absent:
		writeError(w, http.StatusBadRequest, "If-None-Match: it is for PUT /v1/rules, which makes rules")
	case expect.Version == "":
		writeError(w, http.StatusPreconditionRequired, "want the header If-Match with the version of the rule, so that nobody's change is overwritten unseen; * is any version")
	default:
		return id, expect, true
	}
	return 0, expect, false
}

// writable answers if rules cannot be changed here.
func (s *Server) writable(w http.ResponseWriter) bool {
	if s.records != nil {
		return true
	}
	writeError(w, http.StatusConflict, "rules stand in "+s.truth()+" alone: change the overrides of its limits, or name a database in rules.url")
	return false
}

// write writes a rule and answers. blind says that the caller expects nothing.
func (s *Server) write(w http.ResponseWriter, r *http.Request, body *ruleBody, write rules.Write, blind bool) {
	now := s.now.Load()
	row, term, err := body.row(now.engine.Set())
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	if row.ID = write.Row.ID; row.ID == 0 {
		row.ID = now.known(&row)
	}
	write.Row, write.For, write.Actor = row, term, actor(r)
	ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
	defer cancel()
	before, written, err := s.records.Put(ctx, write)
	if err != nil {
		writeFailure(w, err, blind)
		return
	}
	s.log.Info("rule written", slog.Int64("id", written.ID), slog.String("by", write.Actor))
	answer := writeAnswer{InForce: s.awaitRow(ctx, written.ID, rules.Version(&written))}
	answer.Rule = now.config.shownRow(&written)
	status := http.StatusOK
	if before == nil {
		status = http.StatusCreated
		w.Header().Set("Location", fmt.Sprintf("/v1/rules/%d", written.ID))
	} else {
		shown := now.config.shownRow(before)
		answer.Before = &shown
	}
	w.Header().Set("ETag", strconv.Quote(answer.Rule.Version))
	writeJSON(w, status, answer)
}

// known returns the number of the row for the same where tenants are secret, which
// the table may have as a key while it is put as a hash; 0: none.
func (s *state) known(row *policy.Row) int64 {
	if s.config.identity("tenant") == nil || row.Tenant == policy.AnyValue {
		return 0
	}
	tenant, temporary, last := s.config.Value("tenant", row.Tenant), !row.Expires.IsZero(), int64(0)
	for r := range s.engine.Set().Rows() {
		if r.Tenant == tenant && r.Route == row.Route && r.Limit == row.Limit && !r.Expires.IsZero() == temporary {
			last = max(last, r.ID)
		}
	}
	return last
}

// row reads a body as a row for the limits of a set.
func (b *ruleBody) row(set *policy.Set) (policy.Row, time.Duration, error) {
	rule := rules.Rule{Tenant: b.Tenant, Route: b.Route, Limit: b.Limit, Rate: b.Rate, Burst: b.Burst, Algorithm: b.Algorithm}
	if b.Rate == "" {
		return policy.Row{}, 0, errors.New("rate: missing: want one such as 100/s")
	}
	var term time.Duration
	var err error
	if rule.Expires, term, err = b.end(time.Now()); err != nil {
		return policy.Row{}, 0, err
	}
	row, err := rule.Row(set)
	return row, term, err
}

// end says when the rule ends; term, if not 0, says it by the clock of the database.
func (b *rateBody) end(now time.Time) (at time.Time, term time.Duration, err error) {
	switch {
	case b.For != "" && b.Expires != "":
		return at, 0, errors.New("for and expires_at both say when the rule ends: want one of them")
	case b.For != "":
		if term, err = rules.ParseTerm(b.For); err != nil {
			return at, 0, fmt.Errorf("for: %w", err)
		}
		return now.Add(term), term, nil
	case b.Expires != "":
		if at, err = time.Parse(time.RFC3339, b.Expires); err != nil {
			return at, 0, fmt.Errorf("expires_at: %.40q: want a time such as 2026-01-02T15:04:05Z", b.Expires)
		}
		if !at.After(now) {
			return at, 0, errors.New("expires_at: it is over: want a time to come, or none")
		}
	}
	return at, 0, nil
}

// deleteRule answers DELETE /v1/rules/{id}.
func (s *Server) deleteRule(w http.ResponseWriter, r *http.Request) {
	if !s.writable(w) {
		return
	}
	id, expect, ok := s.existing(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
	defer cancel()
	gone, err := s.records.Delete(ctx, id, expect, actor(r))
	if err != nil {
		writeFailure(w, err, false)
		return
	}
	s.log.Info("rule deleted", slog.Int64("id", id), slog.String("by", actor(r)))
	writeJSON(w, http.StatusOK, writeAnswer{Rule: s.now.Load().config.shownRow(&gone), InForce: s.awaitRow(ctx, id, "")})
}

// awaitRow has this instance look at the table and waits until it goes by a
// version of a row, "" being none. It says whether it does.
func (s *Server) awaitRow(ctx context.Context, id int64, version string) bool {
	s.rules.Look()
	ctx, cancel := context.WithTimeout(ctx, forceTimeout)
	defer cancel()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		row, there := s.now.Load().engine.Set().Row(id)
		if there == (version != "") && (!there || rules.Version(&row) == version) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
}

// writeFailure answers for a write that was not made.
func writeFailure(w http.ResponseWriter, err error, blind bool) {
	var conflict *rules.ConflictError
	var field *rules.FieldError
	switch {
	case errors.As(err, &conflict) && conflict.Now.ID == 0:
		writeError(w, http.StatusPreconditionFailed, "the rule that If-Match asks for is gone")
	case errors.As(err, &conflict):
		version := strconv.Quote(rules.Version(&conflict.Now))
		w.Header().Set("ETag", version)
		if blind {
			writeError(w, http.StatusPreconditionRequired, fmt.Sprintf("there is such a rule already, %d: want the header If-Match: %s to change what it says now, or If-Match: * to overwrite it whatever it says", conflict.Now.ID, version))
			return
		}
		writeError(w, http.StatusPreconditionFailed, fmt.Sprintf("rule %d is another by now, its version is %s: look at it, and try again with that in If-Match", conflict.Now.ID, version))
	case errors.Is(err, rules.ErrNoRow):
		writeError(w, http.StatusNotFound, err.Error())
	case errors.As(err, &field), errors.Is(err, rules.ErrValue):
		writeError(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, rules.ErrTaken), errors.Is(err, rules.ErrColumn), errors.Is(err, rules.ErrNoTable):
		writeError(w, http.StatusConflict, err.Error())
	default:
		writeError(w, http.StatusServiceUnavailable, "the database of the rules does not take it: "+err.Error())
	}
}
