package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/sluice-limiter/sluice/rules"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/strictyaml"
)

const rulesHelp = `Looks after the rules in PostgreSQL that change while servers run. The database
is that of rules.url in FILE, or the one that -url names.`

// ruleCommands are the words after "sluice rules".
func ruleCommands() []command {
	return []command{
		{"migrate", "-c FILE | -url URL", "make the table rate_limit_rule or add what it lacks, and install its triggers", (*program).rulesMigrate},
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
		fmt.Fprintf(p.stdout, "  %s %-28s %s\n", prefix, c.name+" "+c.args, c.does)
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

// find returns the URL of the database.
func (b ruleBase) find() (string, error) {
	if *b.url != "" {
		return *b.url, rules.CheckURL(*b.url)
	}
	c, err := server.Load(*b.file)
	if err != nil {
		return "", err
	}
	if c.Rules == nil {
		return "", fmt.Errorf("%s: rules.url is missing: it names the database, as in rules: {url: postgres://USER@HOST/DATABASE}", *b.file)
	}
	return c.Rules.URL, nil
}

const rulesMigrateHelp = `Makes the table rate_limit_rule in a database, or adds to one that is there the
columns that it lacks (limit_name, period, algorithm, expires_at), and installs
the triggers that tell servers of changes at once. Whoever runs it must own the
table. It may be run again: what is there stays as it is, and triggers that were
dropped come back.`

func (p *program) rulesMigrate(ctx context.Context, args []string) int {
	f := p.flags("rules migrate", "-c FILE | -url URL", rulesMigrateHelp)
	base := ruleBaseFlags(f)
	words, code, done := p.parse(f, args)
	if done {
		return code
	}
	if len(words) > 0 {
		return p.misuse(f, "unexpected %q", words[0])
	}
	if message := base.check(); message != "" {
		return p.misuse(f, "%s", message)
	}
	url, err := base.find()
	if err != nil {
		return p.fail(err)
	}
	made, err := rules.Migrate(ctx, url)
	for _, step := range made {
		fmt.Fprintf(p.stdout, "made %s\n", step)
	}
	if err != nil {
		return p.fail(err)
	}
	fmt.Fprintln(p.stdout, "the table rate_limit_rule is up to date, and its triggers are installed")
	return exitOK
}
