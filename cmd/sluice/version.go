package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

func (p *program) version(context.Context, []string) int {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version + " " + info.GoVersion
	}
	fmt.Fprintln(p.stdout, "sluice", version)
	return exitOK
}
