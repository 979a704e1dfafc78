package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// call runs the program as the shell does, and returns what it said.
func call(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, func(string) string { return "" }, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// wantRun runs the program and demands its exit code and texts in what it said.
func wantRun(t *testing.T, code int, stdoutHas, stderrHas string, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := call(t, "", args...)
	if got != code || !strings.Contains(stdout, stdoutHas) || !strings.Contains(stderr, stderrHas) {
		t.Errorf("sluice %s: exit code %d, want %d\nstdout %q, want %q in it\nstderr %q, want %q in it",
			strings.Join(args, " "), got, code, stdout, stdoutHas, stderr, stderrHas)
	}
	return stdout, stderr
}

// file writes a file into a folder of its own and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A pipe is what a program that runs beside the test writes.
type pipe struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ io.Writer = (*pipe)(nil)

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

const shopYAML = `limits:
  - name: tenant-route
    key: [tenant, route]
    limit: 10/s
    burst: 20
    overrides:
      - {match: {tenant: shop-a, route: create-order}, limit: 100/s, burst: 200}
      - {match: {tenant: free}, limit: unlimited}
  - name: by-ip
    match: {method: POST}
    key: [ip]
    limit: 5/15m
    algorithm: sliding_log
    shadow: true
`
