package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

func (p *program) version(_ context.Context, args []string) int {
	f := p.flags("version", "", "Prints the version of this program and of the Go it was built with.")
	if words, code, done := p.parse(f, args); done {
		return code
	} else if len(words) > 0 {
		return p.misuse(f, "unexpected %q", words[0])
	}
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version + " " + info.GoVersion
	}
	fmt.Fprintln(p.stdout, "sluice", version)
	return exitOK
}
