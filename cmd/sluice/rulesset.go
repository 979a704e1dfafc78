package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
)

const rulesSetHelp = `Makes the rule for a tenant and a route, or changes the one that is there. RATE is
as in the configuration: 100/s, 5/15m, 100/s burst 200. A word that is left out,
tenant=T or route=R, means any.

-for makes the rule temporary. It goes before a lasting one for the same, which
counts again when its time is over; that there can be both is what sluice rules
migrate -several is for.

Examples:
  sluice rules set -c sluice.yaml tenant=shop-a route=create-order 100/s burst 200
  sluice rules set -c sluice.yaml tenant=shop-a route=create-order 500/s -for 2h
  sluice rules set -c sluice.yaml tenant=shop-a 5/15m -limit login`

func (p *program) rulesSet(ctx context.Context, args []string) int {
	f := p.flags("rules set", "-c FILE [tenant=T] [route=R] RATE [burst N] [ALGORITHM]", rulesSetHelp)
	limit := f.String("limit", "", "`NAME` of the limit to override; none: the one whose key is tenant and route")
	term := f.String("for", "", "`TIME` for which the rule counts, such as 2h or 7days")
	who := f.String("as", "", "`NAME` of who changes it, for the history; none: the user")
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	rule, err := parseRule(words)
	if err != nil {
		return p.misuse(f, "%v", err)
	}
	rule.Limit = *limit
	w := rules.Write{Actor: cmp.Or(*who, p.actor())}
	if *term != "" {
		if w.For, err = rules.ParseTerm(*term); err != nil {
			return p.misuse(f, "-for: %v", err)
		}
		rule.Expires = time.Now().Add(w.For)
	}
	if w.Row, err = rule.Row(d.set()); err != nil {
		return p.fail(err)
	}
	before, now, err := d.Put(ctx, w)
	if err != nil {
		return p.fail(err)
	}
	was := "new"
	if before != nil {
		was = "was " + saysRule(before)
	}
	tenant, route := d.who(&now)
	fmt.Fprintf(p.stdout, "tenant %s, route %s: %s (%s)\n", tenant, route, saysRule(&now), was)
	return exitOK
}

// parseRule reads the words of a rule: whom it is for, and how much.
func parseRule(words []string) (rules.Rule, error) {
	place, rest, err := placeOf(words)
	switch {
	case err != nil:
		return rules.Rule{}, err
	case place.Tenant == "" && place.Route == "":
		return rules.Rule{}, fmt.Errorf("whom the rule is for is missing: want tenant=T, route=R or both; '*' is any")
	case len(rest) == 0:
		return rules.Rule{}, fmt.Errorf("the rate is missing: want one such as 100/s")
	}
	r := rules.Rule{Tenant: cmp.Or(place.Tenant, policy.AnyValue), Route: cmp.Or(place.Route, policy.AnyValue)}
	var rate []string
	words = strings.Fields(strings.Join(rest, " "))
	for i := 0; i < len(words); i++ {
		_, err := sluice.ParseAlgorithm(words[i])
		switch {
		case err == nil:
			r.Algorithm = words[i]
		case words[i] == "burst" && i+1 < len(words):
			i++
			if r.Burst, err = strconv.ParseInt(words[i], 10, 64); err != nil || r.Burst < 1 {
				return r, fmt.Errorf("burst %q: want a whole number such as 200", words[i])
			}
		default:
			rate = append(rate, words[i])
		}
	}
	r.Rate = strings.Join(rate, " ")
	return r, nil
}

const rulesDeleteHelp = `Takes the rule for a tenant and a route away: the lasting one, unless -temporary
says otherwise, or the one with a number that sluice rules list shows.

Examples:
  sluice rules delete -c sluice.yaml tenant=shop-a route=create-order
  sluice rules delete -c sluice.yaml -id 7`

func (p *program) rulesDelete(ctx context.Context, args []string) int {
	f := p.flags("rules delete", "-c FILE tenant=T route=R\n-c FILE -id NUMBER", rulesDeleteHelp)
	id := f.Int64("id", 0, "`NUMBER` of the rule")
	limit := f.String("limit", "", "`NAME` of the limit that the rule overrides")
	temporary := f.Bool("temporary", false, "the temporary rule is meant")
	who := f.String("as", "", "`NAME` of who deletes it, for the history; none: the user")
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	place, rest, err := placeOf(words)
	named := place != rules.Filter{}
	switch {
	case err != nil:
		return p.misuse(f, "%v", err)
	case len(rest) > 0:
		return p.misuse(f, "unexpected %q", rest[0])
	case named == (*id != 0):
		return p.misuse(f, "which rule is meant: want tenant=T and route=R, or -id NUMBER")
	}
	if named {
		if *id, err = d.findOne(ctx, place, *limit, *temporary); err != nil {
			return p.fail(err)
		}
	}
	gone, err := d.Delete(ctx, *id, rules.Expectation{}, cmp.Or(*who, p.actor()))
	if err != nil {
		return p.fail(err)
	}
	tenant, route := d.who(&gone)
	fmt.Fprintf(p.stdout, "deleted: tenant %s, route %s: %s\n", tenant, route, saysRule(&gone))
	return exitOK
}

// findOne returns the number of the one rule for a place.
func (d *ruleDesk) findOne(ctx context.Context, place rules.Filter, limit string, temporary bool) (int64, error) {
	place.Tenant, place.Route = cmp.Or(place.Tenant, policy.AnyValue), cmp.Or(place.Route, policy.AnyValue)
	rows, err := d.List(ctx, place, 0)
	if err != nil {
		return 0, err
	}
	var ids []string
	var id int64
	for _, row := range rows {
		if row.Limit == limit && !row.Expires.IsZero() == temporary {
			id = row.ID
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	switch len(ids) {
	case 0:
		return 0, fmt.Errorf("there is no such rule: sluice rules list shows those there are")
	case 1:
		return id, nil
	}
	return 0, fmt.Errorf("there are several, the rules %s: want -id with one of them", strings.Join(ids, ", "))
}

const rulesListHelp = `Shows the rules that count now, by tenant and route.

Examples:
  sluice rules list -c sluice.yaml
  sluice rules list -c sluice.yaml tenant=shop-a -json`

func (p *program) rulesList(ctx context.Context, args []string) int {
	f := p.flags("rules list", "-c FILE [tenant=T] [route=R]", rulesListHelp)
	limit := f.String("limit", "", "`NAME` of the limit whose rules are shown")
	n := f.Int("n", 1000, "`NUMBER` of rules at most; 0 is all")
	asJSON := f.Bool("json", false, "print JSON")
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	filter, ok := p.filter(f, words, *n)
	if !ok {
		return exitUsage
	}
	filter.Limit = *limit
	most := *n
	if most > 0 {
		most++ // to see whether there are more
	}
	rows, err := d.List(ctx, filter, most)
	if err != nil {
		return p.fail(err)
	}
	more := *n > 0 && len(rows) > *n
	if more {
		rows = rows[:*n]
	}
	shown := make([]*shownRule, len(rows))
	for i := range rows {
		shown[i] = d.show(&rows[i])
	}
	if more {
		fmt.Fprintf(p.stderr, "note: there are more than %d: -n 0 shows all\n", *n)
	}
	if *asJSON {
		return p.printJSON(map[string]any{"rules": shown})
	}
	return p.printRules(shown)
}

// filter reads tenant=T and route=R.
func (p *program) filter(f *flag.FlagSet, words []string, n int) (rules.Filter, bool) {
	filter, rest, err := placeOf(words)
	switch {
	case err != nil:
		p.misuse(f, "%v", err)
	case len(rest) > 0:
		p.misuse(f, "unexpected %q: want tenant=T or route=R", rest[0])
	case n < 0:
		p.misuse(f, "-n %d: want 0 or more", n)
	default:
		return filter, true
	}
	return filter, false
}

func (p *program) printRules(shown []*shownRule) int {
	if len(shown) == 0 {
		fmt.Fprintln(p.stdout, "no rules")
		return exitOK
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tROUTE\tLIMIT\tRATE\tBURST\tALGORITHM\tUNTIL\tPROBLEM")
	for _, r := range shown {
		until := "-"
		if r.Expires != nil {
			until = moment(*r.Expires)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.ID, visible(r.Tenant), visible(r.Route), visible(cmp.Or(r.Limit, "-")), visible(r.Rate), r.Burst, visible(cmp.Or(r.Algorithm, "-")), until, visible(cmp.Or(r.Problem, "-")))
	}
	w.Flush()
	return exitOK
}
