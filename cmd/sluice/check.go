package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/server"
	"github.com/sluice-limiter/sluice/strictyaml"
)

const checkHelp = `Tells which limits of FILE a request with these attributes meets, by which rule,
and what would be decided on counters never used.

The attributes are ip, method, path, host, route, header:NAME and the identities
of FILE, such as tenant. An identity is given by its name, by a plain value or by
its key, which is not shown. What the keys and the limits do not name is treated
as a gateway would. n=5 asks for five requests at once.

It exits with 1 if the request would be refused. With -json it prints one object
in any case: allowed, error if a gateway would answer 400 or 401, and limits.

Examples:
  sluice check -c sluice.yaml tenant=shop-a route=create-order
  sluice check -c sluice.yaml -json ip=192.0.2.7 method=POST n=5`

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
	caller, err := c.Caller(attributes)
	if err != nil {
		return p.misuse(f, "%v", err)
	}
	p.warnUnread(c.Set, attributes)
	for _, note := range caller.Notes {
		fmt.Fprintf(p.stderr, "note: %s\n", note)
	}
	answer, err := checkRequest(ctx, c.Set, caller, n)
	if err != nil {
		return p.fail(err)
	}
	if c.Rules != nil {
		fmt.Fprintln(p.stderr, "warning: only the limits of the file are checked, not the rules in the database of rules.url")
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
