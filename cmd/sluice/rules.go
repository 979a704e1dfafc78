package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/strictyaml"
)

const rulesHelp = `Looks after the rules in PostgreSQL that change while servers run. Every command
takes -c FILE, whose rules.url is the database, or -url URL. With -c rules are
checked against the limits of FILE, and tenants that are secret are shown as
their hashes.

Examples:
  sluice rules migrate -c sluice.yaml
  sluice rules set -c sluice.yaml tenant=shop-a route=create-order 100/s burst 200
  sluice rules history -c sluice.yaml tenant=shop-a

sluice rules COMMAND -h says more of each.`

// ruleCommands are the words after "sluice rules".
func ruleCommands() []command {
	return []command{
		{"migrate", "", "make the table rate_limit_rule or add what it lacks, and install its triggers", (*program).rulesMigrate},
		{"list", "[tenant=T] [route=R]", "show the rules", (*program).rulesList},
		{"set", "tenant=T route=R RATE", "make a rule or change it, for good or for a while", (*program).rulesSet},
		{"delete", "tenant=T route=R", "take a rule away", (*program).rulesDelete},
		{"history", "[tenant=T] [route=R]", "show who changed what, and when", (*program).rulesHistory},
		{"rollback", "-before CHANGE | -to TIME", "make rules what they were", (*program).rulesRollback},
		{"export", "", "print the rules as YAML", (*program).rulesExport},
		{"import", "FILE", "make the rules those of a file", (*program).rulesImport},
	}
}

func (p *program) rules(ctx context.Context, args []string) int {
	for _, c := range ruleCommands() {
		if len(args) > 0 && c.name == args[0] {
			return c.run(p, ctx, args[1:])
		}
	}
	f := p.flags("rules", "COMMAND", rulesHelp)
	words, code, done := p.parse(f, args)
	switch {
	case done && code == exitOK:
		p.list("sluice rules", ruleCommands())
		return code
	case done:
		return code
	case len(words) == 0:
		return p.misuse(f, "no command is named: there is %s", strings.Join(names(ruleCommands()), ", "))
	}
	hint := ""
	if close := strictyaml.Closest(words[0], names(ruleCommands())); close != "" {
		hint = fmt.Sprintf(": did you mean %s?", close)
	}
	return p.misuse(f, "unknown command %q%s", words[0], hint)
}

func names(commands []command) []string {
	var all []string
	for _, c := range commands {
		all = append(all, c.name)
	}
	return all
}

func (p *program) list(prefix string, commands []command) {
	fmt.Fprint(p.stdout, "\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(p.stdout, "  %s %-36s %s\n", prefix, c.name+" "+c.args, c.does)
	}
}

// A ruleBase says which database a command is about.
type ruleBase struct{ file, url *string }

func ruleBaseFlags(f *flag.FlagSet) ruleBase {
	return ruleBase{
		file: f.String("c", "", "configuration `FILE` that names the database in rules.url"),
		url:  f.String("url", "", "`URL` of the database; a password belongs in ?password_file=FILE or ?password_env=NAME, not here, where others see it"),
	}
}

// check says what makes no sense; "" if all does.
func (b ruleBase) check() string {
	switch {
	case *b.url != "" && *b.file != "":
		return "-c and -url both name a database: want one"
	case *b.url == "" && *b.file == "":
		return "no database is named: want -c FILE or -url URL"
	}
	return ""
}

// A ruleDesk is what a command works on.
type ruleDesk struct {
	*rules.Records
	url    string
	config *server.Config // nil: the database was named by -url
}

// open finds the database; nothing is connected yet.
func (b ruleBase) open() (*ruleDesk, error) {
	d := &ruleDesk{url: *b.url}
	if *b.file != "" {
		var err error
		if d.config, err = server.Load(*b.file); err != nil {
			return nil, err
		}
		if d.config.Rules == nil {
			return nil, fmt.Errorf("%s: rules.url is missing: it names the database, as in rules: {url: postgres://USER@HOST/DATABASE}", *b.file)
		}
		d.url = d.config.Rules.URL
	}
	var err error
	d.Records, err = rules.NewRecords(d.url)
	return d, err
}

// set returns the limits that rules are for; nil: they are not known.
func (d *ruleDesk) set() *policy.Set {
	if d.config == nil {
		return nil
	}
	return d.config.Set
}

// shown returns what may be shown of a tenant or a route.
func (d *ruleDesk) shown(attribute, text string) string {
	if d.config == nil {
		return text
	}
	return d.config.Shown(attribute, text)
}

// anyWords is how many words a command takes that judges them itself.
const anyWords = 1 << 30

// desk reads the command line of a command that works on a database and takes at
// most so many words. If done, the command ends with the code.
func (p *program) desk(f *flag.FlagSet, args []string, most int) (d *ruleDesk, words []string, code int, done bool) {
	base := ruleBaseFlags(f)
	words, code, done = p.parse(f, args)
	if done {
		return nil, nil, code, true
	}
	if len(words) > most {
		return nil, nil, p.misuse(f, "unexpected %q", words[most]), true
	}
	if message := base.check(); message != "" {
		return nil, nil, p.misuse(f, "%s", message), true
	}
	d, err := base.open()
	if err != nil {
		return nil, nil, p.fail(err), true
	}
	return d, words, exitOK, false
}

// actor names who runs the program, for the history; "": nobody knows.
func (p *program) actor() string {
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		if who := p.getenv(name); who != "" {
			return who + " by sluice rules"
		}
	}
	return ""
}

// placeOf reads the words tenant=T and route=R, and returns the others.
func placeOf(words []string) (f rules.Filter, rest []string, err error) {
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		var at *string
		switch name {
		case "tenant":
			at = &f.Tenant
		case "route":
			at = &f.Route
		}
		switch {
		case !ok:
			rest = append(rest, word)
		case at == nil:
			return f, nil, fmt.Errorf("%s=: want tenant=T or route=R; rules ask for nothing else", name)
		case *at != "":
			return f, nil, fmt.Errorf("%s is given twice", name)
		case value == "":
			return f, nil, fmt.Errorf("%s= has no value: want one, or * for any", name)
		default:
			*at = value
		}
	}
	return f, rest, nil
}

const rulesMigrateHelp = `Makes the table rate_limit_rule in a database, or adds to one that is there the
columns that it lacks (limit_name, period, algorithm, expires_at), and installs
the triggers that tell servers of changes at once and record every change.
Whoever runs it must own the table. It may be run again: what is there stays as
it is, and triggers that were dropped come back.

-several lets a tenant and a route have one row for each limit, and a temporary
one beside each: the constraint UNIQUE (tenant_id, route_id) makes way for a
wider one. Other programs that write ON CONFLICT (tenant_id, route_id) then fail.`

func (p *program) rulesMigrate(ctx context.Context, args []string) int {
	f := p.flags("rules migrate", "-c FILE | -url URL", rulesMigrateHelp)
	several := f.Bool("several", false, "allow several rows for a tenant and a route")
	d, _, code, done := p.desk(f, args, 0)
	if done {
		return code
	}
	made, err := rules.Migrate(ctx, d.url)
	for _, step := range made {
		fmt.Fprintf(p.stdout, "made %s\n", step)
	}
	if err == nil && *several {
		err = rules.AllowSeveral(ctx, d.url)
	}
	if err != nil {
		return p.fail(err)
	}
	fmt.Fprintln(p.stdout, "the table rate_limit_rule is up to date, and its triggers are installed")
	return exitOK
}
