package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 10 * time.Second

// serving runs serve beside the test.
type serving struct {
	t           *testing.T
	stdout, log pipe
	code        chan int
	stop        context.CancelFunc
}

func serve(t *testing.T, args ...string) *serving {
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{t: t, code: make(chan int, 1), stop: cancel}
	go func() {
		s.code <- run(ctx, append([]string{"serve"}, args...), os.Getenv, strings.NewReader(""), &s.stdout, &s.log)
	}()
	t.Cleanup(cancel)
	return s
}

// wait returns the first group of a pattern once it is in what was said.
func (s *serving) wait(said *pipe, pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) { // a real server must act
		if m := re.FindStringSubmatch(said.String()); m != nil {
			return m[len(m)-1]
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no %s in stdout %q, log %q", pattern, s.stdout.String(), s.log.String())
		}
	}
}

func (s *serving) end() int {
	s.t.Helper()
	s.stop()
	select {
	case code := <-s.code:
		return code
	case <-time.After(patience):
		s.t.Fatal("serve does not end")
		return -1
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func TestServeDemo(t *testing.T) {
	s := serve(t, "-listen", "127.0.0.1:0")
	url := s.wait(&s.stdout, `curl -i (http://127\.0\.0\.1:\d+/)\n`)
	for n, want := range []int{200, 200, 429} {
		if got := status(t, url); got != want {
			t.Errorf("request %d: %d, want %d", n+1, got, want)
		}
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d, want 0; log %s", code, s.log.String())
	}
}

func TestServeFileAndHangup(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = http.Serve(upstream, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	}()
	defer upstream.Close()
	path := file(t, "s.yaml", "limits: [{name: a, key: [ip], limit: 1/h}]\ngateway: {listen: '127.0.0.1:0', routes: [{id: a, match: /, upstream: 'http://"+upstream.Addr().String()+"'}]}\n")
	s := serve(t, "-c", path, "-log", "json", "-level", "debug")
	url := "http://" + s.wait(&s.log, `"msg":"listening".*"address":"([^"]+)"`)
	if got := []int{status(t, url), status(t, url)}; got[0] != 204 || got[1] != 429 {
		t.Errorf("statuses %v, want 204 and 429", got)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.wait(&s.log, `"msg":"configuration reloaded"`)
	if got := status(t, url); got != 429 {
		t.Errorf("after SIGHUP: %d, want 429", got)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d, want 0; log %s", code, s.log.String())
	}
}

func TestServeErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	wantRun(t, 1, "", "gateway.listen: listen tcp "+taken.Addr().String(), "serve", "-listen", taken.Addr().String())
	wantRun(t, 1, "", "none.yaml: no such file or directory", "serve", "-c", "none.yaml")
	wantRun(t, 1, "", "nothing to serve: want gateway", "serve", "-c", file(t, "c.yaml", perIPYAML))
	wantRun(t, 1, "", "bad.yaml:1: limit: unknown field", "serve", "-c", file(t, "bad.yaml", "limit: x\n"))
}
