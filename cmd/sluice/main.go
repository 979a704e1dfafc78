// Command sluice limits the rate of requests: a gateway, checks of its
// configuration, and replays of access logs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	_ "time/tzdata" // calendar zones, also where the system has none

	"github.com/sluice-limiter/sluice/strictyaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for went wrong, or the answer is no
	exitUsage  = 2 // what was asked for made no sense
)

// A program is one run of the command.
type program struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// A command is one word after "sluice".
type command struct {
	name, args, does string
	run              func(*program, context.Context, []string) int
}

func commands() []command {
	return []command{
		{"serve", "[-c FILE]", "run the gateway; without a file, a demo in memory", (*program).serve},
		{"validate", "FILE...", "tell all that is wrong with configuration files", (*program).validate},
		{"check", "-c FILE name=value...", "tell which limits a request meets, and the decision", (*program).check},
		{"replay", "-c FILE LOG...", "tell what the requests of access logs would have met", (*program).replay},
		{"top", "[-admin URL]...", "show the busiest and most refused keys, live", (*program).top},
		{"rules", "COMMAND", "look after the rules in PostgreSQL", (*program).rules},
		{"lab", "[EXPERIMENT|all]", "measure what is claimed, on this machine", (*program).lab},
		{"version", "", "print the version", (*program).version},
	}
}

// run is the whole program: tests call it as the shell does.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{getenv: getenv, stdin: stdin, stdout: stdout, stderr: stderr}
	if len(args) == 0 {
		p.usage(stderr)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) == 1 || args[1] == "help" {
			p.usage(stdout)
			return exitOK
		}
		args = []string{args[1], "-h"}
	case "-v", "-version", "--version":
		args = []string{"version"}
	}
	var names []string
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(p, ctx, args[1:])
		}
		names = append(names, c.name)
	}
	hint := ""
	if close := strictyaml.Closest(args[0], names); close != "" {
		hint = fmt.Sprintf(": did you mean %s?", close)
	}
	fmt.Fprintf(stderr, "sluice: unknown command %q%s\nRun sluice help for the list.\n", args[0], hint)
	return exitUsage
}

const usageTail = `
Run sluice COMMAND -h for what a command does and for its flags, which may stand
anywhere behind it, with one dash or two.

It exits with 0 if all is well, with 1 if something failed or the answer is no,
and with 2 if the command line makes no sense.

To try it:
  sluice serve
  curl -i http://127.0.0.1:8080/     three times: 200, 200, 429
`

func (p *program) usage(w io.Writer) {
	fmt.Fprint(w, "Sluice decides, across any number of machines, whether a request may pass.\n\nUsage:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  sluice %-34s %s\n", strings.TrimSpace(c.name+" "+c.args), c.does)
	}
	fmt.Fprint(w, usageTail)
}

// flags returns the flag set of a command, whose help says what it does. args
// has a line for each way to use it.
func (p *program) flags(name, args, help string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are told by parse, without all of the help
	f.Usage = func() {
		before := "Usage: "
		for line := range strings.SplitSeq(args, "\n") {
			fmt.Fprintf(f.Output(), "%s%s\n", before, strings.TrimSpace("sluice "+name+" "+line))
			before = "       "
		}
		fmt.Fprintf(f.Output(), "\n%s\n", help)
		printFlags(f)
	}
	return f
}

// printFlags prints the flags, a line for each.
func printFlags(f *flag.FlagSet) {
	w := tabwriter.NewWriter(f.Output(), 0, 0, 2, ' ', 0)
	first := true
	f.VisitAll(func(fl *flag.Flag) {
		if first {
			fmt.Fprint(w, "\nFlags:\n")
			first = false
		}
		value, does := flag.UnquoteUsage(fl)
		if fl.DefValue != "" && fl.DefValue != "0" && fl.DefValue != "false" {
			does += " (default " + strings.TrimSuffix(fl.DefValue, "0s") + ")"
		}
		fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace("-"+fl.Name+" "+value), does)
	})
	w.Flush()
}

// parse reads flags wherever they stand among the other words, which it
// returns. If done, the command ends with the code.
func (p *program) parse(f *flag.FlagSet, args []string) (words []string, code int, done bool) {
	for _, arg := range args {
		if arg == "-h" || arg == "-help" || arg == "--help" {
			f.SetOutput(p.stdout) // asked for, so no error
		}
	}
	var literal []string
	if at := slices.Index(args, "--"); at >= 0 {
		args, literal = args[:at], args[at+1:]
	}
	for {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, exitOK, true
		}
		if err != nil {
			return nil, p.misuse(f, "%v", err), true
		}
		args = f.Args()
		if len(args) == 0 {
			return append(words, literal...), exitOK, false
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// misuse says what made no sense.
func (p *program) misuse(f *flag.FlagSet, format string, args ...any) int {
	fmt.Fprintf(p.stderr, "sluice %s: %s\nRun sluice %s -h for help.\n", f.Name(), fmt.Sprintf(format, args...), f.Name())
	return exitUsage
}

// fail says what went wrong, a line for each part.
func (p *program) fail(err error) int {
	fmt.Fprintln(p.stderr, err)
	return exitFailed
}
