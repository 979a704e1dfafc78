package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/sluice-limiter/sluice/rules"
)

const rulesHistoryHelp = `Shows the last changes of rules, the latest first: when, by whom, and what a rule
was and became. It knows the changes that were made since sluice rules migrate
was run, by whatever program.

Examples:
  sluice rules history -c sluice.yaml
  sluice rules history -c sluice.yaml tenant=shop-a -n 100`

// A shownEvent is a change as it is printed in JSON.
type shownEvent struct {
	Change int64      `json:"change"`
	At     time.Time  `json:"at"`
	Who    string     `json:"who"`
	User   string     `json:"database_user"`
	Before *shownRule `json:"before,omitempty"`
	After  *shownRule `json:"after,omitempty"`
}

func (p *program) rulesHistory(ctx context.Context, args []string) int {
	f := p.flags("rules history", "-c FILE [tenant=T] [route=R]", rulesHistoryHelp)
	n := f.Int("n", 20, "`NUMBER` of changes at most")
	asJSON := f.Bool("json", false, "print JSON")
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	filter, ok := p.filter(f, words, *n)
	if !ok {
		return exitUsage
	}
	events, recording, err := d.History(ctx, filter, *n)
	if err != nil {
		return p.fail(err)
	}
	if !recording {
		fmt.Fprintln(p.stderr, "warning: changes are not recorded any more, as triggers are missing or disabled: run sluice rules migrate")
	}
	if *asJSON {
		shown := make([]shownEvent, len(events))
		for i, e := range events {
			shown[i] = shownEvent{e.ID, e.At.UTC(), e.Who, e.User, d.show(e.Before), d.show(e.After)}
		}
		return p.printJSON(map[string]any{"recording": recording, "changes": shown})
	}
	p.printEvents(d, events)
	return exitOK
}

func (p *program) printEvents(d *ruleDesk, events []rules.Event) {
	if len(events) == 0 {
		fmt.Fprintln(p.stdout, "no changes")
		return
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHANGE\tWHEN\tWHO\tTENANT\tROUTE\tWHAT")
	for _, e := range events {
		row, what := e.After, changeText(e.Change)
		switch {
		case e.Before == nil:
			what = "new: " + what
		case e.After == nil:
			row, what = e.Before, "deleted: "+what
		}
		if row == nil {
			continue // by hand, in the table of the history
		}
		tenant, route := d.who(row)
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", e.ID, moment(e.At), visible(e.Who), tenant, route, what)
	}
	w.Flush()
}

const rulesRollbackHelp = `Makes rules what they were before a change that sluice rules history shows, or at a
time: it undoes every change since, of all rules or of those for a tenant or a
route. It shows what that is, and does it with -yes alone. A rollback is recorded
as any change is, and can be rolled back.

Examples:
  sluice rules rollback -c sluice.yaml -before 1234
  sluice rules rollback -c sluice.yaml -ago 30m tenant=shop-a -yes
  sluice rules rollback -c sluice.yaml -to 2026-01-02T15:04:05Z -yes`

func (p *program) rulesRollback(ctx context.Context, args []string) int {
	f := p.flags("rules rollback", "-c FILE -before CHANGE [tenant=T] [route=R]\n-c FILE -to TIME\n-c FILE -ago TIME", rulesRollbackHelp)
	before := f.Int64("before", 0, "`CHANGE` that is undone, with all since")
	to := f.String("to", "", "`TIME` to go back to, such as 2026-01-02T15:04:05Z, or without Z for the time here")
	ago := f.String("ago", "", "how long to go back, such as 30m")
	yes := f.Bool("yes", false, "do it")
	dry := f.Bool("dry-run", false, "show what would change, and change nothing")
	all := f.Bool("all", false, "show every change")
	who := f.String("as", "", "`NAME` of who does it, for the history; none: the user")
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	filter, ok := p.filter(f, words, 0)
	if !ok {
		return exitUsage
	}
	point, err := pointOf(*before, *to, *ago, time.Now())
	switch {
	case err != nil:
		return p.misuse(f, "%v", err)
	case *yes && *dry:
		return p.misuse(f, "-yes and -dry-run: want one of them")
	}
	plan, err := d.Rollback(ctx, rules.Rollback{To: point, Filter: filter, DryRun: !*yes, Actor: cmp.Or(*who, p.actor())})
	if errors.Is(err, rules.ErrNoRow) {
		return p.fail(fmt.Errorf("there is no change %d: sluice rules history shows those there are", *before))
	}
	if err != nil {
		return p.fail(err)
	}
	p.printPlan(d, &plan, *all)
	return p.saidRollback(&plan, *yes, *dry)
}

// saidRollback says what became of a plan to roll back.
func (p *program) saidRollback(plan *rules.Plan, yes, dry bool) int {
	if plan.Unrecorded > 0 {
		fmt.Fprintf(p.stderr, "warning: %d of these rules were changed since without a record: that is undone too\n", plan.Unrecorded)
	}
	switch {
	case yes || len(plan.Changes) == 0:
		return exitOK
	case dry:
		fmt.Fprintln(p.stdout, "nothing was changed: this was a dry run")
		return exitOK
	}
	fmt.Fprintln(p.stdout, "nothing was changed yet: say -yes to do it")
	return exitFailed
}

// pointOf reads where to go back to.
func pointOf(before int64, to, ago string, now time.Time) (rules.Point, error) {
	given := 0
	for _, yes := range []bool{before != 0, to != "", ago != ""} {
		if yes {
			given++
		}
	}
	switch {
	case given != 1:
		return rules.Point{}, errors.New("where to go back to: want one of -before CHANGE, -to TIME and -ago TIME")
	case before < 0:
		return rules.Point{}, fmt.Errorf("-before %d: want the number of a change", before)
	case before > 0:
		return rules.Point{Before: before}, nil
	case ago != "":
		d, err := rules.ParseTerm(ago)
		if err != nil {
			return rules.Point{}, fmt.Errorf("-ago: %w", err)
		}
		return rules.Point{Time: now.Add(-d)}, nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(form, to, now.Location()); err == nil {
			if at.After(now) {
				return rules.Point{}, fmt.Errorf("-to %s: it is yet to come", to)
			}
			return rules.Point{Time: at}, nil
		}
	}
	return rules.Point{}, fmt.Errorf("-to %q: want a time such as 2026-01-02T15:04:05Z or %q", to, "2026-01-02 15:04")
}
