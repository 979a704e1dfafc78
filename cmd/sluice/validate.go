package main

import (
	"context"
	"fmt"

	"github.com/sluice-limiter/sluice/server"
)

const validateHelp = `Reads configuration files and tells all that is wrong with them, a line for each
mistake: file:line: field: message. It exits with 1 if there is any. What is
allowed and perhaps not meant is told as a warning on standard error, once the
mistakes are gone.

Example:
  sluice validate sluice.yaml`

func (p *program) validate(_ context.Context, args []string) int {
	f := p.flags("validate", "FILE...", validateHelp)
	quiet := f.Bool("q", false, "no warnings, and no line for files without mistakes")
	files, code, done := p.parse(f, args)
	if done {
		return code
	}
	if len(files) == 0 {
		return p.misuse(f, "no file is named")
	}
	code = exitOK
	for _, file := range files {
		c, err := server.Load(file)
		if err != nil {
			fmt.Fprintln(p.stdout, err)
			code = exitFailed
			continue
		}
		if *quiet {
			continue
		}
		for _, warning := range c.Warnings {
			fmt.Fprintf(p.stderr, "warning: %s\n", warning)
		}
		limits := "limits"
		if len(c.Set.Limits()) == 1 {
			limits = "limit"
		}
		fmt.Fprintf(p.stdout, "%s: no mistakes, %d %s\n", file, len(c.Set.Limits()), limits)
	}
	return code
}
