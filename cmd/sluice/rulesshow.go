package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
)

// A shownRule is a rule as the commands print it in JSON.
type shownRule struct {
	ID        int64      `json:"id"`
	Tenant    string     `json:"tenant"`
	Route     string     `json:"route"`
	Limit     string     `json:"limit,omitempty"`
	Rate      string     `json:"rate"`
	Burst     int64      `json:"burst"`
	Algorithm string     `json:"algorithm,omitempty"`
	Expires   *time.Time `json:"expires_at,omitempty"`
	Problem   string     `json:"problem,omitempty"` // why it does not count
}

// show returns a row without what is secret; nil is none.
func (d *ruleDesk) show(row *policy.Row) *shownRule {
	if row == nil {
		return nil
	}
	r := rules.RuleOf(*row)
	s := &shownRule{
		ID: row.ID, Tenant: d.shown("tenant", row.Tenant), Route: d.shown("route", row.Route),
		Limit: r.Limit, Rate: r.Rate, Burst: r.Burst, Algorithm: r.Algorithm,
	}
	if !r.Expires.IsZero() {
		at := r.Expires.UTC()
		s.Expires = &at
	}
	if set := d.set(); set != nil {
		if err := set.CheckRow(*row); err != nil {
			s.Problem = err.Error()
		}
	}
	return s
}

// printJSON prints a value as a line.
func (p *program) printJSON(value any) int {
	if err := json.NewEncoder(p.stdout).Encode(value); err != nil {
		return p.fail(err)
	}
	return exitOK
}

// visible returns a text that a terminal shows and does not obey: names of tenants
// hold anything.
func visible(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// who returns whom a row is for.
func (d *ruleDesk) who(row *policy.Row) (tenant, route string) {
	return visible(d.shown("tenant", row.Tenant)), visible(d.shown("route", row.Route))
}

// fewChanges is how many changes of a plan are shown if not all are asked for.
const fewChanges = 50

// printPlan prints what changes, and how many rows of each kind.
func (p *program) printPlan(d *ruleDesk, plan *rules.Plan, all bool) {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for i, c := range plan.Changes {
		if i == fewChanges && !all {
			break
		}
		row, sign := c.After, "~"
		switch {
		case c.Before == nil:
			sign = "+"
		case c.After == nil:
			row, sign = c.Before, "-"
		}
		tenant, route := d.who(row)
		fmt.Fprintf(w, "%s %s\t%s\t%s\n", sign, tenant, route, changeText(c))
	}
	w.Flush()
	if more := len(plan.Changes) - fewChanges; more > 0 && !all {
		fmt.Fprintf(p.stdout, "... and %d more; -all shows them\n", more)
	}
	added, changed, removed := plan.Count()
	fmt.Fprintf(p.stdout, "%d added, %d changed, %d removed", added, changed, removed)
	if plan.Same > 0 {
		fmt.Fprintf(p.stdout, ", %d as they are", plan.Same)
	}
	fmt.Fprintln(p.stdout)
}

// changeText says what a rule was and becomes.
func changeText(c rules.Change) string {
	switch {
	case c.Before == nil && c.After == nil:
		return ""
	case c.Before == nil:
		return saysRule(c.After)
	case c.After == nil:
		return saysRule(c.Before)
	}
	return saysRule(c.Before) + " -> " + saysRule(c.After)
}

// saysRule returns what a rule says.
func saysRule(row *policy.Row) string { return visible(rules.RuleOf(*row).Says()) }

// moment writes a time so that it can be given to rollback.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
