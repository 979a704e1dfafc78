// Package rules says when rules change where they come from, a file or a Kafka
// topic, and keeps those of a table in PostgreSQL up to date. What a file holds
// is read and judged by the caller.
package rules

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"
)

// A Watcher tells when a file changes: written in place, replaced by a rename,
// reached through another symbolic link (as Kubernetes swaps configuration),
// gone, or back. It watches the directories of the file and of all links that
// lead to it, and looks at the file now and then, for file systems that tell
// nothing.
type Watcher struct {
	// Poll is the time between looks at the file without an event; zero means
	// 10 s.
	Poll time.Duration
	// Settle is the quiet time after an event before the file is looked at,
	// so that a writer can finish; zero means 50 ms. A file that is never
	// quiet is looked at after ten times that.
	Settle time.Duration

	path string
	last content
	sign signature
}

const (
	defaultPoll   = 10 * time.Second
	defaultSettle = 50 * time.Millisecond
)

// NewWatcher returns a watcher that knows the file as it is now. Whoever reads
// the file after that and then calls [Watcher.Run] misses no change.
func NewWatcher(path string) *Watcher {
	return &Watcher{path: path, last: read(path), sign: sign(path)}
}

// Watch calls onChange after each change of a file until the context ends, and
// returns the context's error. See [Watcher.Run].
func Watch(ctx context.Context, path string, onChange func()) error {
	return NewWatcher(path).Run(ctx, onChange)
}

// Run calls onChange after each change of what the file holds, until the
// context ends, and returns the context's error; touching the file is no
// change, its absence is one. Calls come one at a time, from the caller's
// goroutine. If the system has no watch to give, the file is only polled. A
// watcher runs once.
func (w *Watcher) Run(ctx context.Context, onChange func()) error {
	e := openEvents(w.path)
	defer e.close()
	poll := time.NewTicker(orDefault(w.Poll, defaultPoll))
	defer poll.Stop()
	// What changed before the watch began sent no event.
	w.look(onChange)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			e.follow()
			if sign(w.path) != w.sign {
				w.look(onChange)
			}
		case event, ok := <-e.events():
			if !ok {
				e.close() // the watch broke; the poll goes on
			} else if e.concerns(event) && w.settle(ctx, e) {
				e.follow()
				w.look(onChange)
			}
		case _, ok := <-e.errors():
			// Events may be lost.
			if ok {
				w.look(onChange)
			}
		}
	}
}

// settle waits until no event has come for a while; false if the context ended.
func (w *Watcher) settle(ctx context.Context, e *events) bool {
	quiet := orDefault(w.Settle, defaultSettle)
	timer, limit := time.NewTimer(quiet), time.NewTimer(10*quiet)
	defer timer.Stop()
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-limit.C:
			return true
		case event := <-e.events():
			if e.concerns(event) {
				timer.Reset(quiet)
			}
		}
	}
}

// look calls onChange if the file holds something else than before.
func (w *Watcher) look(onChange func()) {
	// The signature is taken first: what changes later is seen next time.
	w.sign = sign(w.path)
	now := read(w.path)
	if now == w.last {
		return
	}
	w.last = now
	onChange()
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// A content is what a file holds, or that it cannot be read.
type content struct {
	readable bool
	sum      [sha256.Size]byte
}

func read(path string) content {
	f, err := os.Open(path)
	if err != nil {
		return content{}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return content{}
	}
	c := content{readable: true}
	h.Sum(c.sum[:0])
	return c
}

// A signature is what a look at the directory tells of a file.
type signature struct {
	exists   bool
	size     int64
	modified time.Time
	target   string
}

func sign(path string) signature {
	info, err := os.Stat(path)
	if err != nil {
		return signature{}
	}
	links := chain(path)
	return signature{true, info.Size(), info.ModTime(), links[len(links)-1]}
}
