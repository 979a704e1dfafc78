package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/replay"
	"github.com/sluice-limiter/sluice/server"
)

const replayHelp = `Decides the requests of access logs as a gateway with the limits of FILE would
have done, in the order of their times, and tells who would have been refused.
LOG is in combined or common format or has JSON lines, plain or gzip; - is
standard input.

With -suggest it proposes limits instead: for several shares of keys, the lowest
limit that would have refused no more of them. It needs no FILE; of one it takes
gateway.routes and identity.ip.ipv6_prefix and leaves the limits aside.

Examples:
  sluice replay -c sluice.yaml access.log access.log.1.gz
  sluice replay -suggest ip -per 1h access.log
  kubectl logs web | sluice replay -c sluice.yaml -field client=ip -`

// replayFlags are the words of the command line.
type replayFlags struct {
	config, suggest, plot string
	json                  bool
	per, window           time.Duration
	top, ipv6             int
	share                 float64
	fields                fieldsFlag
}

func (p *program) replay(ctx context.Context, args []string) int {
	f := p.flags("replay", "-c FILE LOG...\n-suggest KEY [-c FILE] LOG...", replayHelp)
	var o replayFlags
	f.StringVar(&o.config, "c", "", "configuration `FILE`")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.plot, "plot", "", "write a plot to this SVG `FILE`")
	f.StringVar(&o.suggest, "suggest", "", "propose limits for this `KEY`: attributes such as ip or tenant,route")
	f.DurationVar(&o.per, "per", time.Minute, "with -suggest: the `TIME` in which the limits count")
	f.Float64Var(&o.share, "share", 0, "with -suggest: only for this `PERCENT` of keys that may be refused")
	f.DurationVar(&o.window, "window", 2*time.Minute, "lines may be out of order by this `TIME`")
	f.IntVar(&o.top, "top", 10, "list the first `N` keys of each limit")
	f.IntVar(&o.ipv6, "ipv6-prefix", 0, "`BITS` of IPv6 addresses that tell clients apart; else as in FILE, or 64")
	f.Var(&o.fields, "field", "field of JSON lines and its attribute, `NAME=ATTRIBUTE`, as in client=ip; may be repeated")
	logs, code, done := p.parse(f, args)
	switch {
	case done:
		return code
	case len(logs) == 0:
		return p.misuse(f, "no log is named; - is standard input")
	case o.config == "" && o.suggest == "":
		return p.misuse(f, "no configuration: name it with -c, or let -suggest KEY propose limits")
	case misplaced(f, o.suggest != "") != "":
		return p.misuse(f, "%s", misplaced(f, o.suggest != ""))
	case o.share < 0 || o.share >= 100:
		return p.misuse(f, "-share %v: want a percentage from 0 to less than 100", o.share)
	}
	return p.replayLogs(ctx, &o, logs)
}

// misplaced says which flag has no effect with -suggest, or only with it.
func misplaced(f *flag.FlagSet, suggest bool) (why string) {
	f.Visit(func(fl *flag.Flag) {
		switch fl.Name {
		case "plot", "top":
			if suggest {
				why = "-" + fl.Name + " shows what limits did: it does not go with -suggest"
			}
		case "share", "per":
			if !suggest {
				why = "-" + fl.Name + " is for -suggest"
			}
		}
	})
	return why
}

func (p *program) replayLogs(ctx context.Context, o *replayFlags, logs []string) int {
	set, options, err := o.load()
	if err != nil {
		return p.fail(err)
	}
	inputs, closeAll, err := p.open(logs)
	if err != nil {
		return p.fail(err)
	}
	defer closeAll()
	if o.suggest != "" && o.config != "" {
		fmt.Fprintf(p.stderr, "note: -suggest takes gateway.routes and identity.ip.ipv6_prefix from %s and leaves its limits aside\n", o.config)
	}
	clear := p.showProgress(&options)
	if o.suggest != "" {
		var suggestion *replay.Suggestion
		suggestion, err = replay.Suggest(ctx, strings.Split(o.suggest, ","), inputs, o.suggestOptions(options))
		clear()
		return p.finish(err, suggestion.Requests+suggestion.BadLines > 0, o, suggestion, suggestion.WriteTable)
	}
	var result *replay.Result
	result, err = replay.Run(ctx, set, inputs, options)
	clear()
	if o.plot != "" && err == nil {
		err = writePlot(o.plot, result)
	}
	return p.finish(err, result.Requests+result.BadLines > 0, o, result, result.WriteTable)
}

// load reads the configuration, for the limits and for what it says of routes
// and addresses.
func (o *replayFlags) load() (*policy.Set, replay.Options, error) {
	options := replay.Options{Window: o.window, Top: o.top, IPv6Prefix: o.ipv6, Fields: o.fields}
	if o.window == 0 {
		options.Window = -1
	}
	if o.config == "" {
		return nil, options, nil
	}
	c, err := server.Load(o.config)
	if err != nil {
		return nil, options, err
	}
	if o.ipv6 == 0 {
		options.IPv6Prefix = c.Identity.Addresses.IPv6Prefix
	}
	if c.Gateway != nil {
		var table gateway.Table
		for _, r := range c.Gateway.Routes {
			if err := table.Add(r.ID, r.Match); err != nil {
				return nil, options, err
			}
		}
		options.Route = func(method, path string) string { return table.Find(method, "", path) }
	}
	return c.Set, options, nil
}

func (o *replayFlags) suggestOptions(options replay.Options) replay.SuggestOptions {
	s := replay.SuggestOptions{Options: options, Per: o.per}
	if o.share > 0 {
		s.Shares = []float64{o.share / 100}
	}
	return s
}

// open opens all logs, or none.
func (p *program) open(logs []string) (inputs []replay.Input, closeAll func(), err error) {
	closeAll = func() {
		for i := range inputs {
			inputs[i].Close()
		}
	}
	for _, name := range logs {
		in, err := replay.Open(name, p.stdin)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		inputs = append(inputs, in)
	}
	return inputs, closeAll, nil
}

// showProgress lets a terminal show how far the reading is; clear wipes it.
func (p *program) showProgress(o *replay.Options) (clear func()) {
	file, ok := p.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	o.Progress = func(now replay.Progress) {
		if now.Total > 0 {
			fmt.Fprintf(file, "\r\033[K%d lines, %d%%", now.Lines, 100*now.Bytes/now.Total)
		} else {
			fmt.Fprintf(file, "\r\033[K%d lines", now.Lines)
		}
	}
	return func() { fmt.Fprint(file, "\r\033[K") }
}

func writePlot(name string, r *replay.Result) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.WritePlot(f), f.Close())
}

// finish prints what was found, also if the reading ended early.
func (p *program) finish(err error, found bool, o *replayFlags, result any, table func(io.Writer) error) int {
	if err != nil && !found {
		return p.fail(err)
	}
	var printed error
	if o.json {
		printed = json.NewEncoder(p.stdout).Encode(result)
	} else {
		printed = table(p.stdout)
	}
	if err := errors.Join(err, printed); err != nil {
		return p.fail(err)
	}
	return exitOK
}

// fieldsFlag collects name=attribute words.
type fieldsFlag map[string]string

// String implements flag.Value.
func (f *fieldsFlag) String() string { return "" }

// Set implements flag.Value.
func (f *fieldsFlag) Set(word string) error {
	name, attribute, ok := strings.Cut(word, "=")
	if !ok || name == "" || attribute == "" {
		return errors.New("want name=attribute, such as client=ip")
	}
	if *f == nil {
		*f = make(fieldsFlag)
	}
	(*f)[name] = attribute
	return nil
}
