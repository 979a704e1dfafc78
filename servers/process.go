// Package servers starts real servers on free loopback ports for tests and
// measurements, and ends each by its own process id. A program that is not
// installed is an error that says how to install it.
package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Process is a running server. Its methods are not safe for concurrent use.
type Process struct {
	// Addr is where the server listens, "127.0.0.1:PORT".
	Addr string
	// Dir holds its files; it is removed at the end.
	Dir string

	name  string
	args  []string
	env   []string
	tls   *tls.Config         // nil: none
	user  *syscall.Credential // who runs it; nil: as this program
	ready func() error
	run   *run
}

// A run is one life of the process.
type run struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	done   chan struct{}
}

// Find returns the path of a program, or an error that says how to install it.
func Find(program, debianPackage string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	hidden, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // fails only for a bad pattern
	slices.Reverse(hidden)                                  // the newest version first
	for _, dir := range append([]string{"/usr/sbin", "/usr/local/sbin"}, hidden...) {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is %w: apt-get install %s", program, ErrNotInstalled, debianPackage)
}

// ErrNotInstalled reports a program that is missing; the error that wraps it
// says how to install it.
var ErrNotInstalled = errors.New("not installed")

// FreePort returns a loopback port that nobody listens on. It lies below the
// ports that systems give to outgoing connections: one of those could take it
// before the server does.
func FreePort() (int, error) {
	const first, number, tries = 10_000, 20_000, 100
	var err error
	for range tries {
		port := first + rand.IntN(number)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d: %w", first, first+number-1, err)
}

// start begins a life of the process and waits until it is ready.
func (p *Process) start(ctx context.Context) error {
	r := &run{output: new(bytes.Buffer), done: make(chan struct{})}
	r.cmd = exec.Command(p.name, p.args...)
	r.cmd.Dir = p.Dir
	r.cmd.Env = append(os.Environ(), p.env...)
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	// The server dies with this program, however that ends. The signal comes
	// when the thread that started it ends, so that thread stays.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: p.user}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := r.cmd.Start()
		started <- err
		if err == nil {
			r.cmd.Wait()
			close(r.done)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(p.name), err)
	}
	p.run = r
	if err := p.wait(ctx); err != nil {
		p.Kill()
		return fmt.Errorf("%s on %s: %w: %s", filepath.Base(p.name), p.Addr, err, tail(r.output.String()))
	}
	return nil
}

// wait asks until the server is ready, at most ten seconds.
func (p *Process) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return poll(ctx, func() error {
		select {
		case <-p.run.done:
			return errEnded
		default:
			return p.ready()
		}
	})
}

var errEnded = errors.New("the server ended")

// poll asks every few milliseconds until the answer is nil.
func poll(ctx context.Context, ask func() error) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-ticker.C:
		}
	}
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " | ")
}

// PID returns the process id, 0 if it does not run.
func (p *Process) PID() int {
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}

// Kill ends the process as kill -9 does; it can be started again.
func (p *Process) Kill() {
	if p.run == nil {
		return
	}
	p.run.cmd.Process.Kill()
	<-p.run.done
	p.run = nil
}

// Restart starts the process again after Kill, on the same port.
func (p *Process) Restart(ctx context.Context) error { return p.start(ctx) }

// Pause stops the process as SIGSTOP does: it accepts and never answers.
func (p *Process) Pause() error { return p.run.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.run.cmd.Process.Signal(syscall.SIGCONT) }

// Close ends the process and removes its files.
func (p *Process) Close() {
	p.Kill()
	os.RemoveAll(p.Dir)
}
