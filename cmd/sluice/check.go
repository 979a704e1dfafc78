package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/strictyaml"
)

const checkHelp = `Tells which limits of FILE a request with these attributes meets, by which rule,
and what would be decided on counters never used. The words are attributes, as
in tenant=shop-a route=create-order; n=5 asks for five requests at once. It exits
with 1 if the request would be refused.`

func (p *program) check(ctx context.Context, args []string) int {
	f := p.flags("check", "-c FILE name=value...", checkHelp)
	file := f.String("c", "", "configuration `FILE`")
	asJSON := f.Bool("json", false, "print JSON")
	words, code, done := p.parse(f, args)
	if done {
		return code
	}
	if *file == "" {
		return p.misuse(f, "no configuration: name it with -c")
	}
	attributes, n, err := parseAttributes(words)
	if err != nil {
		return p.misuse(f, "%v", err)
	}
	c, err := server.Load(*file)
	if err != nil {
		return p.fail(err)
	}
	p.warnUnread(c.Set, attributes)
	p.warnMissing(c, attributes)
	for name, value := range attributes {
		attributes[name] = c.Value(name, value)
	}
	answer, err := checkRequest(ctx, c.Set, attributes, n)
	if err != nil {
		return p.fail(err)
	}
	if *asJSON {
		err = json.NewEncoder(p.stdout).Encode(answer)
	} else {
		err = p.printCheck(answer)
	}
	switch {
	case err != nil:
		return p.fail(err)
	case !answer.Allowed:
		return exitFailed
	}
	return exitOK
}

// parseAttributes reads name=value words; n=5 is the amount.
func parseAttributes(words []string) (map[string]string, int64, error) {
	attributes, n := make(map[string]string, len(words)), int64(1)
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, 0, fmt.Errorf("%q: want name=value, such as tenant=shop-a", word)
		}
		if _, twice := attributes[name]; twice {
			return nil, 0, fmt.Errorf("%s is given twice", name)
		}
		if name != "n" {
			attributes[name] = value
			continue
		}
		amount, err := strconv.ParseInt(value, 10, 64)
		if err != nil || amount < 0 {
			return nil, 0, fmt.Errorf("n=%s: want a whole number, 0 or more", value)
		}
		n = amount
	}
	return attributes, n, nil
}

// warnUnread tells of attributes that no limit looks at: a mistyped name would
// otherwise look like a request without it.
func (p *program) warnUnread(set *policy.Set, attributes map[string]string) {
	read := set.Attributes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if slices.Contains(read, name) {
			continue
		}
		hint := ""
		if close := strictyaml.Closest(name, read); close != "" {
			hint = ": did you mean " + close + "?"
		}
		fmt.Fprintf(p.stderr, "warning: no limit looks at %s%s\n", name, hint)
	}
}

// warnMissing tells of identities without which a gateway would not go on, and
// of rules that are not looked at.
func (p *program) warnMissing(c *server.Config, attributes map[string]string) {
	if c.Rules != nil {
		fmt.Fprintln(p.stderr, "warning: only the limits of the file are checked, not the rules in the database of rules.url")
	}
	for _, a := range c.Identity.Attributes {
		if a.Required && attributes[a.Name] == "" {
			fmt.Fprintf(p.stderr, "warning: %s is required: a gateway would answer 401 without it\n", a.Name)
		}
	}
}

// A checkAnswer is what check prints.
type checkAnswer struct {
	Allowed bool         `json:"allowed"`
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

func checkRequest(ctx context.Context, set *policy.Set, attributes map[string]string, n int64) (*checkAnswer, error) {
	engine := policy.NewEngine(memory.New(memory.Options{}), set)
	var v policy.Verdict
	err := engine.Decide(ctx, policy.Request{
		Attributes: func(name string) string { return attributes[name] },
		N:          n,
	}, &v)
	var cost *policy.CostError
	if errors.As(err, &cost) {
		return nil, fmt.Errorf("a gateway would answer 400: %w", err)
	}
	if err != nil {
		return nil, err
	}
	answer := &checkAnswer{Allowed: v.Allowed, Limits: []checkLimit{}}
	for i := range v.Results {
		answer.Limits = append(answer.Limits, describe(&v.Results[i]))
	}
	for i := range v.Unlimited {
		l := describe(&v.Unlimited[i])
		l.Limit, l.Burst, l.Algorithm, l.Allowed = "unlimited", 0, "", true
		answer.Limits = append(answer.Limits, l)
	}
	return answer, nil
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
	if len(a.Limits) == 0 {
		fmt.Fprintln(p.stdout, "allowed: no limit matches")
		return nil
	}
	verdict := "allowed"
	if !a.Allowed {
		verdict = "refused"
	}
	fmt.Fprintf(p.stdout, "%s\n\n", verdict)
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
