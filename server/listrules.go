package server

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
)

// The bounds of a page of rules.
const (
	pageUsual = 100
	pageMost  = 10_000
)

// A listAnswer is the body of a list of rules: the rows of the table or, if only
// the file has rules, its overrides.
type listAnswer struct {
	Rules []ruleAnswer `json:"rules"`
	// Next is what after must be for the next page; 0: this is the last.
	Next int64 `json:"next,omitempty"`
	// Truth says where the rules stand.
	Truth string `json:"truth"`
}

// listRules answers GET /v1/rules: the rules as this instance knows them.
func (s *Server) listRules(w http.ResponseWriter, r *http.Request) {
	after, err := number(r, "after", -1, 0, 1<<62)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	n, err := number(r, "n", pageUsual, 1, pageMost)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	now := s.now.Load()
	q := r.URL.Query()
	want := rules.Filter{
		Tenant: now.config.Shown("tenant", q.Get("tenant")),
		Route:  now.config.Shown("route", q.Get("route")),
		Limit:  q.Get("limit"),
	}
	answer := listAnswer{Truth: s.truth()}
	if s.rules != nil {
		answer.Rules, answer.Next = now.pageOfRows(want, after, int(n))
	} else {
		answer.Rules, answer.Next = now.pageOfOverrides(want, after, int(n))
	}
	writeJSON(w, http.StatusOK, answer)
}

// truth says where the rules stand that can be changed.
func (s *Server) truth() string {
	if s.records != nil {
		return "the table rate_limit_rule of " + s.records.Name()
	}
	if s.started.Path == "" {
		return "the demo, which has no file"
	}
	return "the file " + s.started.Path
}

// pageOfRows returns the rows behind a number, in the order of their numbers.
func (s *state) pageOfRows(want rules.Filter, after int64, n int) (page []ruleAnswer, next int64) {
	set := s.engine.Set()
	var found []policy.Row
	for row := range set.Rows() {
		if row.ID > after && (want.Limit == "" || row.Limit == want.Limit) &&
			(want.Route == "" || s.config.Shown("route", row.Route) == want.Route) &&
			(want.Tenant == "" || s.config.Shown("tenant", row.Tenant) == want.Tenant) {
			found = append(found, row)
		}
	}
	slices.SortFunc(found, func(a, b policy.Row) int { return int(min(1, max(-1, a.ID-b.ID))) })
	if len(found) > n {
		found = found[:n]
		next = found[n-1].ID
	}
	page = make([]ruleAnswer, len(found))
	for i := range found {
		page[i] = s.rowAnswer(&found[i])
	}
	return page, next
}

// rowAnswer shows a row of the set in force.
func (s *state) rowAnswer(row *policy.Row) ruleAnswer {
	a := s.config.shownRow(row)
	if err := s.engine.Set().CheckRow(*row); err != nil {
		a.Problem = err.Error()
	}
	return a
}

// shownRow shows a row without what is secret.
func (c *Config) shownRow(row *policy.Row) ruleAnswer {
	r := rules.RuleOf(*row)
	a := ruleAnswer{
		ID: row.ID, Tenant: c.Shown("tenant", row.Tenant), Route: c.Shown("route", row.Route), Version: rules.Version(row),
		Limit: r.Limit, Rate: r.Rate, Burst: r.Burst, Algorithm: r.Algorithm,
	}
	if !r.Expires.IsZero() {
		at := r.Expires.UTC()
		a.Expires = &at
	}
	return a
}

// pageOfOverrides returns the overrides of the file behind a number, in their
// order.
func (s *state) pageOfOverrides(want rules.Filter, after int64, n int) (page []ruleAnswer, next int64) {
	page = []ruleAnswer{}
	number := int64(-1)
	limits := s.config.Set.Limits()
	for i := range limits {
		l := &limits[i]
		for j := range l.Overrides {
			number++
			switch {
			case number <= after || want.Limit != "" && l.Name != want.Limit || !names(&l.Overrides[j], "tenant", want.Tenant) || !names(&l.Overrides[j], "route", want.Route):
			case len(page) == n:
				return page, next
			default:
				page, next = append(page, shownOverride(l, &l.Overrides[j])), number
			}
		}
	}
	return page, 0
}

// names says whether an override names a value of an attribute; "" is any.
func names(r *policy.Rule, attribute, value string) bool {
	return value == "" || slices.ContainsFunc(r.Match, func(c policy.Condition) bool {
		return c.Attribute == attribute && slices.Contains(c.Patterns, escape(value))
	})
}

// getRule answers GET /v1/rules/{id}.
func (s *Server) getRule(w http.ResponseWriter, r *http.Request) {
	id, ok := s.idOf(w, r)
	if !ok {
		return
	}
	now := s.now.Load()
	row, ok := now.engine.Set().Row(id)
	if !ok {
		writeError(w, http.StatusNotFound, fmt.Sprintf("there is no rule %d, or this instance does not know it yet", id))
		return
	}
	w.Header().Set("ETag", strconv.Quote(rules.Version(&row)))
	writeJSON(w, http.StatusOK, now.rowAnswer(&row))
}

// idOf reads the number in the path, and answers if there is none.
func (s *Server) idOf(w http.ResponseWriter, r *http.Request) (id int64, ok bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		writeError(w, http.StatusBadRequest, "want the number of a rule, as in /v1/rules/7; GET /v1/rules tells them")
		return 0, false
	}
	return id, true
}
