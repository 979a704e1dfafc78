package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A checkAnswer is what check prints.
type checkAnswer struct {
	Allowed bool         `json:"allowed"`
	Error   string       `json:"error,omitempty"` // what a gateway would answer in place of 429
	Limits  []checkLimit `json:"limits"`
}

type checkLimit struct {
	Name       string `json:"name"`
	Rule       string `json:"rule"` // where it stands, and what it matches
	Key        string `json:"key"`
	Limit      string `json:"limit"`
	Burst      int64  `json:"burst"`
	Algorithm  string `json:"algorithm"`
	Cost       int64  `json:"cost"`
	Allowed    bool   `json:"allowed"`
	Shadow     bool   `json:"shadow,omitempty"`
	Remaining  int64  `json:"remaining"`
	RetryAfter int64  `json:"retry_after_ms"`
}

// checkRequest decides a request on counters never used.
func checkRequest(ctx context.Context, set *policy.Set, caller *server.Caller, n int64) (*checkAnswer, error) {
	request := policy.Request{
		Attributes: func(name string) string { return caller.Attributes[name] },
		N:          n,
		Without:    caller.Without,
	}
	var v policy.Verdict
	err := policy.NewEngine(memory.New(memory.Options{}), set).Decide(ctx, request, &v)
	var cost *policy.CostError
	if errors.As(err, &cost) {
		return checkCost(ctx, set, request, cost)
	}
	if err != nil {
		return nil, err
	}
	answer := newAnswer(&v)
	if v.Allowed && caller.Without != "" {
		answer.Allowed = false
		answer.Error = fmt.Sprintf("a gateway would answer 401: %s; the limits that do not need it are charged before", caller.Reason)
	}
	return answer, nil
}

// checkCost answers for a cost that can never pass: it lists the limits that the
// request meets, of which none is charged.
func checkCost(ctx context.Context, set *policy.Set, request policy.Request, cost *policy.CostError) (*checkAnswer, error) {
	limits := slices.Clone(set.Limits())
	shadows := make(map[string]bool)
	for i := range limits {
		// Of shadows every one is told, whatever it costs.
		shadows[limits[i].Name], limits[i].Shadow = limits[i].Shadow, true
	}
	all, err := policy.NewSet(limits)
	if err != nil {
		return nil, err
	}
	var v policy.Verdict
	if err := policy.NewEngine(memory.New(memory.Options{}), all).Decide(ctx, request, &v); err != nil {
		return nil, err
	}
	answer := newAnswer(&v)
	answer.Allowed = false
	answer.Error = "a gateway would answer 400: " + cost.Error()
	for i := range answer.Limits {
		l := &answer.Limits[i]
		l.Shadow, l.Remaining = shadows[l.Name], l.Burst
	}
	return answer, nil
}

func newAnswer(v *policy.Verdict) *checkAnswer {
	answer := &checkAnswer{Allowed: v.Allowed, Limits: []checkLimit{}}
	for i := range v.Results {
		answer.Limits = append(answer.Limits, describe(&v.Results[i]))
	}
	for i := range v.Unlimited {
		l := describe(&v.Unlimited[i])
		l.Limit, l.Burst, l.Algorithm, l.Allowed = "unlimited", 0, "", true
		answer.Limits = append(answer.Limits, l)
	}
	return answer
}

func describe(r *policy.Result) checkLimit {
	return checkLimit{
		Name:       r.Limit.Name,
		Rule:       describeRule(r),
		Key:        r.Key,
		Limit:      limitText(r.Effective),
		Burst:      r.Effective.Capacity(),
		Algorithm:  r.Effective.Algorithm.String(),
		Cost:       r.Cost,
		Allowed:    r.Decision.Allowed,
		Shadow:     r.Limit.Shadow,
		Remaining:  r.Decision.Remaining,
		RetryAfter: int64((r.Decision.RetryAfter + time.Millisecond - 1) / time.Millisecond),
	}
}

// limitText is the rate alone, "100/s": the rest has fields of its own.
func limitText(l sluice.Limit) string {
	text, _, _ := strings.Cut(l.String(), " ")
	return text
}

func describeRule(r *policy.Result) string {
	if r.Rule == nil {
		return "default (" + r.Limit.Source + ")"
	}
	var match []string
	for _, c := range r.Rule.Match {
		match = append(match, c.Attribute+": "+strings.Join(c.Patterns, ", "))
	}
	return fmt.Sprintf("{%s} (%s)", strings.Join(match, ", "), r.Rule.Source)
}

func (p *program) printCheck(a *checkAnswer) error {
	verdict := "allowed"
	switch {
	case a.Error != "":
		verdict = "refused: " + a.Error
	case !a.Allowed:
		verdict = "refused"
	case len(a.Limits) == 0:
		verdict = "allowed: no limit matches"
	}
	fmt.Fprintln(p.stdout, verdict)
	if len(a.Limits) == 0 {
		return nil
	}
	fmt.Fprintln(p.stdout)
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LIMIT\tSAYS\tRATE\tBURST\tCOST\tLEFT\tRULE\tKEY")
	for _, l := range a.Limits {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", l.Name, says(&l), l.Limit, l.Burst, l.Cost, l.Remaining, l.Rule, l.Key)
	}
	return w.Flush()
}

func says(l *checkLimit) string {
	s := "allowed"
	if !l.Allowed {
		s = "refused"
	}
	if l.Shadow {
		s += " (shadow)"
	}
	return s
}
