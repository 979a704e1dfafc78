package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/sluice-limiter/sluice/server"
)

const serveHelp = `Runs the gateway that FILE describes until it gets SIGTERM or SIGINT, and then
drains: requests under way end. A change of the file, or SIGHUP, puts the new
limits, routes and identities in force; a file with mistakes changes nothing.
Without -c it is a demo: in memory, with an upstream of its own.

Examples:
  sluice serve
  sluice serve -c sluice.yaml -log json`

func (p *program) serve(ctx context.Context, args []string) int {
	f := p.flags("serve", "[-c FILE]", serveHelp)
	file := f.String("c", "", "configuration `FILE`")
	listen := f.String("listen", "", "`ADDRESS` of the demo, if not 127.0.0.1:8080")
	format := f.String("log", "text", "`FORM` of the log, which goes to standard error: text or json")
	level := f.String("level", "info", "least `LEVEL` that is logged: debug, info, warn or error")
	words, code, done := p.parse(f, args)
	if done {
		return code
	}
	if len(words) > 0 {
		return p.misuse(f, "unexpected %q: name the file with -c", words[0])
	}
	if *file != "" && *listen != "" {
		return p.misuse(f, "-listen is for the demo: a file says it in gateway.listen")
	}
	log, err := newLogger(p.stderr, *format, *level)
	if err != nil {
		return p.misuse(f, "%v", err)
	}
	c, err := loadOrDemo(*file, *listen)
	if err != nil {
		return p.fail(err)
	}
	if err := p.runServer(ctx, c, log); err != nil {
		return p.fail(err)
	}
	return exitOK
}

func loadOrDemo(file, listen string) (*server.Config, error) {
	if file == "" {
		return server.Demo(listen)
	}
	return server.Load(file)
}

func (p *program) runServer(ctx context.Context, c *server.Config, log *slog.Logger) error {
	s, err := server.New(c, log)
	if err != nil {
		return err
	}
	if err := s.Listen(); err != nil {
		s.Close()
		return err
	}
	defer onHangup(s.Reload)()
	if c.Path == "" {
		fmt.Fprintf(p.stdout, "A demo in memory: 2 requests in 10 seconds for each address. Try it, three times:\n\n  curl -i http://%s/\n\n", s.Addr("gateway"))
	}
	return s.Serve(ctx)
}

// onHangup calls do at each SIGHUP until stop is called.
func onHangup(do func()) (stop func()) {
	hangup, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangup, syscall.SIGHUP)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-hangup:
				do()
			}
		}
	})
	return func() {
		signal.Stop(hangup)
		close(done)
		waiting.Wait()
	}
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("-level %q: want debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("-log %q: want text or json", format)
}
