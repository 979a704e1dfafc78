package server

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// mostLost bounds how many rules that lost are told of each limit.
const mostLost = 100

// An explainAnswer is the body of /v1/explain.
type explainAnswer struct {
	// Attributes are as limits see them: of a secret the hash or the name.
	Attributes map[string]string `json:"attributes"`
	// Notes say what a gateway makes of the identities.
	Notes []string `json:"notes,omitempty"`
	// Refused says why a gateway would answer 401; limits that need the
	// identity are then not met.
	Refused string           `json:"refused,omitempty"`
	Limits  []explainedLimit `json:"limits"`
}

type explainedLimit struct {
	Limit  string          `json:"limit"`
	Met    bool            `json:"met"`
	Unmet  []string        `json:"unmet,omitempty"` // attributes whose conditions are not met
	Key    string          `json:"key,omitempty"`
	Shadow bool            `json:"shadow,omitempty"`
	Winner *explainedRule  `json:"winner,omitempty"`
	Lost   []explainedRule `json:"lost,omitempty"`
	More   int             `json:"more_lost,omitempty"` // that are left out of Lost
}

// An explainedRule is what a limit could go by: its default, an override of the
// file or a row of the table.
type explainedRule struct {
	From string `json:"from"` // default, override or row
	Why  string `json:"why"`
	ruleAnswer
}

// explain answers GET /v1/explain?tenant=..&route=..: which limits a request
// meets, by which rule, and why.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	now := s.now.Load()
	caller, err := now.caller(queryAttributes(r))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	answer := explainAnswer{Attributes: shownAttributes(caller), Notes: caller.Notes, Refused: caller.Reason, Limits: []explainedLimit{}}
	for _, x := range now.engine.Set().Explain(caller.request()) {
		l := explainedLimit{Limit: x.Limit.Name, Met: x.Met, Unmet: x.Unmet, Key: x.Key, Shadow: x.Limit.Shadow}
		if x.Met {
			winner := now.config.explained(x.Limit, &x.Chosen)
			l.Winner = &winner
		}
		for i := range x.Lost[:min(len(x.Lost), mostLost)] {
			l.Lost = append(l.Lost, now.config.explained(x.Limit, &x.Lost[i]))
		}
		l.More = len(x.Lost) - len(l.Lost)
		answer.Limits = append(answer.Limits, l)
	}
	writeJSON(w, http.StatusOK, answer)
}

func (c *Config) explained(l *policy.Limit, candidate *policy.Candidate) explainedRule {
	x := explainedRule{From: "default", Why: candidate.Why}
	row, ok := candidate.Row.Row()
	switch {
	case ok:
		x.From, x.ruleAnswer = "row", c.shownRow(&row)
		x.Algorithm = candidate.Limit.Algorithm.String()
	case candidate.Rule != nil:
		x.From, x.ruleAnswer = "override", shownOverride(l, candidate.Rule)
	default:
		x.Source = l.Source
		x.rate(l.Default, l.Unlimited)
	}
	x.Limit = "" // it stands above
	return x
}

// queryAttributes returns the attributes that a query gives.
func queryAttributes(r *http.Request) map[string]string {
	given := make(map[string]string)
	for name, values := range r.URL.Query() {
		given[name] = values[0]
	}
	return given
}

// caller returns what a gateway makes of a request's attributes. The error names
// an attribute that nothing reads, but never a value that may be a key.
func (s *state) caller(given map[string]string) (*Caller, error) {
	if len(given) == 0 {
		return nil, errors.New("no attribute is given: want some such as tenant=shop-a and route=create-order")
	}
	known := slices.Concat(s.config.attributes(), s.engine.Set().Attributes())
	slices.Sort(known)
	known = slices.Compact(known)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) {
			continue
		}
		hint := ""
		if close := strictyaml.Closest(name, known); close != "" {
			hint = ": did you mean " + close + "?"
		}
		return nil, fmt.Errorf("%.64q: no limit looks at this attribute%s; there are %s", name, hint, strings.Join(known, ", "))
	}
	return s.config.Caller(given)
}

// request returns what an engine decides of the caller: a look, which takes
// nothing.
func (c *Caller) request() policy.Request {
	return policy.Request{
		Attributes: func(name string) string { return c.Attributes[name] },
		Without:    c.Without,
	}
}

// shownAttributes returns what may be shown of a caller: all but headers, which
// may hold anything.
func shownAttributes(c *Caller) map[string]string {
	shown := make(map[string]string, len(c.Attributes))
	for name, value := range c.Attributes {
		if !strings.HasPrefix(name, "header:") {
			shown[name] = value
		}
	}
	return shown
}

// Shown returns what may be shown of the value of an attribute in a rule: of a
// secret the hash or the name. * stays.
func (c *Config) Shown(attribute, text string) string {
	i := c.identity(attribute)
	if text == policy.AnyValue || text == "" || i == nil {
		return text
	}
	value, _ := i.Judge(text)
	return value
}

// A ruleAnswer is a rule as it is shown: a row of the table or an override of the
// file.
type ruleAnswer struct {
	ID      int64      `json:"id,omitempty"` // of a row
	Tenant  string     `json:"tenant,omitempty"`
	Route   string     `json:"route,omitempty"`
	Expires *time.Time `json:"expires_at,omitempty"`
	Version string     `json:"version,omitempty"`
	Problem string     `json:"problem,omitempty"` // why it does not count

	Match  map[string][]string `json:"match,omitempty"`  // of an override
	Source string              `json:"source,omitempty"` // where it stands, "FILE:LINE"

	Limit     string `json:"limit,omitempty"`
	Rate      string `json:"rate"` // "100/s", or "unlimited"
	Burst     int64  `json:"burst,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}

// rate fills in how much may pass.
func (a *ruleAnswer) rate(l sluice.Limit, unlimited bool) {
	if unlimited {
		a.Rate = "unlimited"
		return
	}
	a.Rate, _, _ = strings.Cut(l.String(), " ")
	a.Burst, a.Algorithm = l.Capacity(), l.Algorithm.String()
}

func shownOverride(l *policy.Limit, rule *policy.Rule) ruleAnswer {
	a := ruleAnswer{Limit: l.Name, Source: rule.Source, Match: make(map[string][]string, len(rule.Match))}
	for _, c := range rule.Match {
		a.Match[c.Attribute] = c.Patterns
	}
	a.rate(rule.Limit, rule.Unlimited)
	return a
}
