package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
	"github.com/sluice-limiter/sluice/strictyaml"
)

func (d *decoder) rules(n strictyaml.Node) *RulesConfig {
	if !n.Exists() {
		return nil
	}
	m := n.Mapping("url", "poll", "changed", "snapshot")
	c := &RulesConfig{
		URL:     m.Need("url", "the URL of a database, such as postgres://USER@HOST/DATABASE?password_file=FILE").Text(),
		Poll:    m.Get("poll").Duration(30*time.Second, 100*time.Millisecond, time.Hour),
		Changed: m.Get("changed").Text(),
		source:  n.Source(),
	}
	if node := m.Get("url"); node.Exists() {
		if err := rules.CheckURL(c.URL); err != nil {
			node.Problem("%v", err)
		}
	}
	if node := m.Get("changed"); node.Exists() {
		if err := rules.CheckMessages(c.Changed); err != nil {
			node.Problem("%v", err)
		}
	}
	c.Snapshot = d.snapshot(m.Get("snapshot"), c.URL)
	return c
}

// snapshot returns the file that keeps the rules: the one that is named, or one
// in the folder for state that the system gives.
func (d *decoder) snapshot(n strictyaml.Node, database string) string {
	switch name := n.Text(); {
	case name == "none":
		return ""
	case n.Exists() && name == "":
		n.Problem("want the name of a file, or none")
		return ""
	case name != "" && !filepath.IsAbs(name):
		return filepath.Join(d.dir, name)
	case name != "":
		return name
	}
	dir := stateDir(os.Getenv)
	if dir == "" {
		return ""
	}
	// Servers that use other databases have other files.
	place := database
	if u, err := url.Parse(database); err == nil {
		place = u.Host + u.Path
	}
	sum := sha256.Sum256([]byte(place))
	return filepath.Join(dir, "rules-"+hex.EncodeToString(sum[:4])+".snapshot")
}

// stateDir returns the folder for what a program keeps over a restart: that of
// the service manager, else that of the user; "" if there is none.
func stateDir(getenv func(string) string) string {
	if dir := getenv("STATE_DIRECTORY"); dir != "" {
		return filepath.SplitList(dir)[0]
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice")
	}
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".local", "state", "sluice")
	}
	return ""
}

// firstLoad bounds how long a start waits for the rules.
const firstLoad = 15 * time.Second

// openRules loads the rules for the first time: from the database, else from the
// snapshot.
func (s *Server) openRules() error {
	c := s.started.Rules
	if c == nil {
		return nil
	}
	var err error
	s.rules, err = rules.NewTable(rules.TableOptions{
		URL:      c.URL,
		Poll:     c.Poll,
		Snapshot: c.Snapshot,
		Current:  func() *policy.Set { return s.now.Load().engine.Set() },
		Publish:  s.publish,
		Value:    func(attribute, text string) string { return s.now.Load().config.Value(attribute, text) },
		Log:      s.log,
	})
	if err != nil {
		return err
	}
	if s.records, err = rules.NewRecords(c.URL); err != nil {
		return err
	}
	if c.Changed != "" {
		if s.changed, err = rules.NewMessages(c.Changed, s.log); err != nil {
			return err
		}
	}
	s.metrics.WatchRules(s.ruleMetrics)
	ctx, cancel := context.WithTimeout(context.Background(), firstLoad)
	defer cancel()
	s.rules.Load(ctx)
	return nil
}

// publish puts a set with other rows in force. If the file changed while they
// were fetched, its limits take over the rows.
func (s *Server) publish(next *policy.Set) {
	s.putting.Lock()
	defer s.putting.Unlock()
	now := s.now.Load()
	if current := now.engine.Set(); !next.Same(current) {
		next = current.Adopt(next)
	}
	now.engine.Swap(next)
}

// followRules keeps the rules up to date until ctx ends.
func (s *Server) followRules(ctx context.Context) {
	if s.rules == nil {
		return
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	if s.changed != nil {
		listening.Go(func() {
			if err := s.changed.Run(ctx, s.rules.Look); err != nil {
				s.log.Error("messages about rules are not read", slog.Any("error", err))
			}
		})
	}
	s.rules.Run(ctx)
}

// staleRules says whether the rules are the last that were known.
func (s *Server) staleRules() bool { return s.rules != nil && s.rules.Status().Stale }

func (s *Server) ruleMetrics() metrics.Rules {
	set, status := s.now.Load().engine.Set(), s.rules.Status()
	return metrics.Rules{
		Rows:     set.RowCount(),
		Skipped:  set.BadRowCount(),
		Stale:    status.Stale,
		Loads:    status.Loads,
		Fetches:  status.Fetches,
		Failures: status.Failures,
	}
}
