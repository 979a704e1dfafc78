package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
)

const rulesExportHelp = `Prints the rules that count now as YAML, one a line, by tenant and route, in the
form that sluice rules import reads. Tenants stand in it as in the table, also
those that are keys.

Example:
  sluice rules export -c sluice.yaml > rules.yaml`

func (p *program) rulesExport(ctx context.Context, args []string) int {
	f := p.flags("rules export", "-c FILE [tenant=T] [route=R]", rulesExportHelp)
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	filter, ok := p.filter(f, words, 0)
	if !ok {
		return exitUsage
	}
	rows, err := d.List(ctx, filter, 0)
	if err != nil {
		return p.fail(err)
	}
	if slices.ContainsFunc(rows, func(r policy.Row) bool { return d.shown("tenant", r.Tenant) != r.Tenant }) {
		fmt.Fprintln(p.stderr, "warning: there are keys of tenants in what is printed: keep it as secret as they are")
	}
	fmt.Fprintln(p.stdout, "# Rules of "+d.Name()+". sluice rules import reads them.")
	if err := rules.WriteFile(p.stdout, rows); err != nil {
		return p.fail(err)
	}
	return exitOK
}

const rulesImportHelp = `Makes rules of a file part of the table: those that are not there are added, those
that differ are changed, and with -prune those that the file lacks are removed.
It is done as a whole or not at all, and shows what changes. A file - is standard
input. Each rule has tenant, route and rate, and may have burst, limit, algorithm
and expires:

  rules:
    - {tenant: shop-a, route: create-order, rate: 100/s, burst: 200}
    - {tenant: shop-b, route: "*", rate: 5/15m, limit: login}

Examples:
  sluice rules import -c sluice.yaml rules.yaml -dry-run
  sluice rules import -c sluice.yaml rules.yaml -prune`

func (p *program) rulesImport(ctx context.Context, args []string) int {
	f := p.flags("rules import", "-c FILE RULES", rulesImportHelp)
	dry := f.Bool("dry-run", false, "show what would change, and change nothing")
	prune := f.Bool("prune", false, "remove the rules that the file lacks")
	all := f.Bool("all", false, "show every change")
	who := f.String("as", "", "`NAME` of who imports, for the history; none: the user")
	d, words, code, done := p.desk(f, args, anyWords)
	if done {
		return code
	}
	if len(words) != 1 {
		return p.misuse(f, "want one file of rules, or - for standard input")
	}
	rows, err := p.readRules(words[0], d)
	if err != nil {
		return p.fail(err)
	}
	plan, err := d.Import(ctx, rows, rules.ImportOptions{Prune: *prune, DryRun: *dry, Actor: cmp.Or(*who, p.actor())})
	if err != nil {
		return p.fail(err)
	}
	p.printPlan(d, &plan, *all)
	if plan.Expired > 0 {
		fmt.Fprintf(p.stderr, "note: %d rules of the file were left out, as their time is over\n", plan.Expired)
	}
	if *dry {
		fmt.Fprintln(p.stdout, "nothing was changed: this was a dry run")
	}
	return exitOK
}

func (p *program) readRules(path string, d *ruleDesk) ([]policy.Row, error) {
	data, err := []byte(nil), error(nil)
	if path == "-" {
		path = "standard input"
		data, err = io.ReadAll(p.stdin)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	return rules.ReadFile(path, data, d.set())
}
