package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long anything may take to come up or to stop.
const patience = 10 * time.Second

// A child is a program that runs beside this one.
type child struct {
	cmd    *exec.Cmd
	output bytes.Buffer // to be read when it has ended
	done   chan struct{}
}

// startChild starts a program and waits until it is ready. It ends with this
// one, however that ends.
func startChild(ready func() error, name string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(name, args...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the program ends.
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if err := poll(func() error { return c.ask(ready) }); err != nil {
		c.stop()
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(c.output.String()))
	}
	return c, nil
}

func (c *child) ask(ready func() error) error {
	select {
	case <-c.done:
		return errEnded
	default:
		return ready()
	}
}

// stop ends the program, by force if it takes its time.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

var errEnded = errors.New("it ended")

// poll asks until the answer is nil, or there is no hope left.
func poll(ready func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := ready()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready in time: %w", err)
		}
	}
}

// fetch returns the body of an answer 200.
func fetch(url string) (string, error) {
	client := &http.Client{Timeout: time.Second}
	res, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(text), err
}

// A programs builds the programs that are measured, each when it is first asked
// for, and removes them when it is closed. The zero value is ready to use.
type programs struct {
	mu  sync.Mutex
	dir string
}

// sluice returns the path of the program as it stands in this tree.
func (p *programs) sluice() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		return filepath.Join(p.dir, "sluice"), nil
	}
	// Built in its own module: with the versions that it is released with.
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/sluice-limiter/sluice").Output()
	if err != nil {
		return "", fmt.Errorf("find the module to build: %w", err)
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", path, "./cmd/sluice")
	build.Dir = strings.TrimSpace(string(root))
	if text, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build sluice: %w: %s", err, text), os.RemoveAll(dir))
	}
	p.dir = dir
	return path, nil
}

func (p *programs) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
		p.dir = ""
	}
}
