package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/sluice-limiter/sluice/rules"
)

// Reload asks for the configuration to be read again, as SIGHUP does. It
// returns at once. It may be called from many goroutines.
func (s *Server) Reload() { ask(s.reload) }

// ask leaves a note; one that lies there already is enough, since it will be
// read after what it is about happened.
func ask(note chan<- struct{}) {
	select {
	case note <- struct{}{}:
	default:
	}
}

// A follower reads the configuration again when Reload asks or when a file of it
// changes.
type follower struct {
	server  *Server
	changed chan struct{}
	sources []source // of the last attempt to read
	stops   map[string]context.CancelFunc
	running sync.WaitGroup
}

// follow keeps the configuration up to date until ctx ends.
func (s *Server) follow(ctx context.Context) {
	f := &follower{
		server:  s,
		changed: make(chan struct{}, 1),
		sources: s.started.sources,
		stops:   make(map[string]context.CancelFunc),
	}
	defer f.running.Wait()
	f.watch(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reload:
			f.read(ctx)
		case <-f.changed:
			// Files that belong together change together and are told of one
			// by one; what was read once is not read, and not told of, twice.
			if changed(f.sources) {
				f.read(ctx)
			}
		}
	}
}

// watch watches the files of the last attempt, and no others. Of those that are
// new it asks whether they changed between the reading and the watching.
func (f *follower) watch(ctx context.Context) {
	wanted := make(map[string]bool)
	for _, s := range f.sources {
		wanted[s.path] = true
		if f.stops[s.path] != nil {
			continue
		}
		watching, stop := context.WithCancel(ctx)
		f.stops[s.path] = stop
		w := rules.NewWatcher(s.path)
		f.running.Go(func() {
			// It ends with its context and has nothing else to say.
			_ = w.Run(watching, func() { ask(f.changed) })
		})
		ask(f.changed)
	}
	for path, stop := range f.stops {
		if !wanted[path] {
			stop()
			delete(f.stops, path)
		}
	}
}

// read puts the present content of the files in force, or keeps what is and says
// why.
func (f *follower) read(ctx context.Context) {
	s := f.server
	path := s.started.Path
	if path == "" {
		return
	}
	c, sources, err := load(path)
	f.sources = sources
	f.watch(ctx)
	var fixed []string
	if err == nil {
		fixed = fix(c, s.started)
		err = s.put(c)
	}
	if err != nil {
		s.log.Error("configuration not reloaded: the old one stays in force",
			slog.String("file", path), slog.Any("error", err))
		return
	}
	if s.rules != nil {
		s.rules.Reload() // identities, and with them what rows stand for, may be others
	}
	attrs := []any{slog.String("file", path), slog.Int("limits", len(c.Set.Limits()))}
	if len(fixed) > 0 {
		attrs = append(attrs, slog.Any("only_after_a_restart", fixed))
	}
	s.log.Info("configuration reloaded", attrs...)
}
