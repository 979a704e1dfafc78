package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dial opens a connection to the gateway.
func (r *running) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr("gateway"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// startBefore serves a configuration before an upstream that h answers for.
func startBefore(t *testing.T, h http.HandlerFunc, text string) *running {
	t.Helper()
	upstream := httptest.NewServer(h)
	t.Cleanup(upstream.Close)
	return start(t, strings.ReplaceAll(text, "UPSTREAM", upstream.URL))
}

func TestDrain(t *testing.T) {
	began, release := make(chan struct{}, 2), make(chan struct{})
	s := startBefore(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "whole")
	}, wideYAML+gatewayYAML+"drain: {delay: 300ms, timeout: 10s}\n")
	ready := func() (int, string) {
		t.Helper()
		res, body := s.body("/readyz")
		return res.StatusCode, body
	}
	if code, body := ready(); code != 200 || !strings.Contains(body, `"ready"`) {
		t.Errorf("readyz: %d %s, want 200", code, body)
	}
	answer := make(chan string)
	go func() {
		res, err := http.Get(s.url + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- string(body)
	}()
	<-began
	s.end()
	s.waitLog("draining: not ready", 1)
	if code, body := ready(); code != 503 || !strings.Contains(body, "draining") {
		t.Errorf("readyz while draining: %d %s, want 503", code, body)
	}
	if res := s.get("/healthz"); res.StatusCode != 200 {
		t.Errorf("healthz while draining: %d, want 200", res.StatusCode)
	}
	if _, body := s.body("/new"); body != "whole" {
		t.Errorf("a new request in the delay: %q", body)
	}
	s.waitLog("draining: no more requests", 1)
	eventually(t, "no more connections", func() bool {
		conn, err := net.Dial("tcp", s.Addr("gateway"))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	select {
	case <-s.done:
		t.Error("stopped before the request under way was answered")
	default:
	}
	close(release)
	if got := <-answer; got != "whole" {
		t.Errorf("the request under way: %q", got)
	}
	if err := s.stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestDrainTimeout(t *testing.T) {
	began := make(chan struct{}, 1)
	s := startBefore(t, func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}, wideYAML+gatewayYAML+"drain: {timeout: 50ms}\n")
	cut := make(chan error)
	go func() {
		res, err := http.Get(s.url)
		if err == nil {
			res.Body.Close()
			err = fmt.Errorf("status %d", res.StatusCode)
		}
		cut <- err
	}()
	<-began
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "still under way after 50ms") {
		t.Errorf("Serve = %v, want that a request was cut off", err)
	}
	<-cut
	if s.log.count("upstream failed") > 0 {
		t.Errorf("the upstream is blamed:\n%s", s.log)
	}
}

// upgraded opens a connection that an upstream took over, and waits for its
// first line.
func upgraded(t *testing.T, s *running) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := s.dial()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("upgrade: %v, %v", res, err)
	}
	return conn, in
}

func echo(w http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	buffered.Flush()
	_, _ = io.Copy(conn, buffered)
}

func TestDrainWaitsForUpgradedConnections(t *testing.T) {
	s := startBefore(t, echo, wideYAML+gatewayYAML)
	conn, in := upgraded(t, s)
	s.end()
	s.waitLog("draining: no more requests", 1)
	fmt.Fprintln(conn, "still here")
	if line, err := in.ReadString('\n'); line != "still here\n" {
		t.Errorf("while draining: %q, %v", line, err)
	}
	select {
	case <-s.done:
		t.Error("stopped before the connection was closed")
	default:
	}
	conn.Close()
	if err := s.stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestDrainTimeoutCutsUpgradedConnections(t *testing.T) {
	s := startBefore(t, echo, wideYAML+gatewayYAML+"drain: {timeout: 50ms}\n")
	_, in := upgraded(t, s)
	if err := s.stop(); err == nil {
		t.Error("Serve = nil, want that a connection was cut off")
	}
	if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection: %v, want it closed", err)
	}
	eventually(t, "no request under way", func() bool { return s.requests.Load() == 0 })
}

func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	c, err := decode(t, wideYAML+"gateway: {listen: '"+free.Addr().String()+"', routes: []}\nadmin: {listen: '"+taken.Addr().String()+"'}\n")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Listen()
	if err == nil || !strings.Contains(err.Error(), "admin.listen: ") || !strings.Contains(err.Error(), "another program listens there") ||
		strings.Contains(err.Error(), "gateway") || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Listen = %v, want that admin's address is taken", err)
	}
	if again, err := net.Listen("tcp", free.Addr().String()); err != nil {
		t.Errorf("the other listener was not freed: %v", err)
	} else {
		again.Close()
	}
	if s.Addr("gateway") != "" {
		t.Error("Addr tells of a listener that is closed")
	}
}

func TestNothingToServe(t *testing.T) {
	c, err := decode(t, wideYAML)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "nothing to serve") {
		t.Errorf("Listen = %v", err)
	}
}

func TestAdmin(t *testing.T) {
	s := start(t, wideYAML+gatewayYAML+"admin: {listen: '127.0.0.1:0'}\n")
	for path, want := range map[string]string{"/healthz": "alive", "/readyz": "ready"} {
		res, err := http.Get("http://" + s.Addr("admin") + path)
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Status string }
		err = json.NewDecoder(res.Body).Decode(&body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || body.Status != want {
			t.Errorf("%s: %d %v %v, want 200 and %s", path, res.StatusCode, body, err, want)
		}
	}
}

func TestListenerThatFailsEndsServe(t *testing.T) {
	s := start(t, wideYAML+gatewayYAML)
	eventually(t, "serving", func() bool { return s.get("/").StatusCode == 200 })
	s.listeners[0].net.Close()
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("Serve goes on without its listener")
	}
	if s.err == nil || !strings.Contains(s.err.Error(), "gateway: ") {
		t.Errorf("Serve = %v, want the gateway's error", s.err)
	}
}

func TestSlowHeadersAreCut(t *testing.T) {
	s := start(t, wideYAML+strings.Replace(gatewayYAML, "listen:", "read_header_timeout: 100ms\n  listen:", 1))
	conn := s.dial()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ")
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("read: %v, want the connection closed", err)
	}
}

func TestLargeHeaders(t *testing.T) {
	s := start(t, wideYAML+strings.Replace(gatewayYAML, "listen:", "max_header: 8KiB\n  listen:", 1))
	if got := s.get("/", "X: "+strings.Repeat("x", 7<<10)).StatusCode; got != 200 {
		t.Errorf("7 KiB: %d, want 200", got)
	}
	if got := s.get("/", "X: "+strings.Repeat("x", 20<<10)).StatusCode; got != 431 {
		t.Errorf("20 KiB: %d, want 431", got)
	}
}

func TestTLSAndItsRenewal(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	renew := func(name string) {
		t.Helper()
		cert, key := pair(t, name)
		replace(t, certFile, cert)
		replace(t, keyFile, key)
	}
	renew("first")
	s := start(t, wideYAML+strings.Replace(gatewayYAML, "listen:", "tls: {cert: "+certFile+", key: "+keyFile+"}\n  listen:", 1))
	show := func() *tls.ConnectionState {
		t.Helper()
		conn, err := tls.Dial("tcp", s.Addr("gateway"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		state := conn.ConnectionState()
		return &state
	}
	name := func() string { return show().PeerCertificates[0].Subject.CommonName }
	if state := show(); state.PeerCertificates[0].Subject.CommonName != "first" || state.NegotiatedProtocol != "h2" {
		t.Errorf("certificate of %s, protocol %s, want first and h2", name(), state.NegotiatedProtocol)
	}
	renew("second")
	eventually(t, "the renewed certificate", func() bool { return name() == "second" })

	// A certificate without its key changes nothing; the key alone makes it whole.
	cert, key := pair(t, "third")
	before := s.log.count("configuration not reloaded")
	replace(t, certFile, cert)
	s.waitLog("configuration not reloaded", before+1)
	if got := name(); got != "second" {
		t.Errorf("certificate of %s, want second", got)
	}
	replace(t, keyFile, key)
	eventually(t, "the whole pair", func() bool { return name() == "third" })
	if _, err := tls.Dial("tcp", s.Addr("gateway"), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was taken")
	}
}

func TestDemo(t *testing.T) {
	c, err := Demo("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveConfig(t, c)
	if got := s.get("/").Header.Get("X-RateLimit-Remaining"); got != "1" {
		t.Errorf("X-RateLimit-Remaining = %q, want 1", got)
	}
	wantStatuses(t, "twice more", s.statuses(2, "/"), 200, 429)
	s.Reload() // there is nothing to read
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if c, err := Demo(""); err != nil || c.Gateway.Listen != "127.0.0.1:8080" || len(c.Warnings) > 0 {
		t.Errorf("Demo = %+v, %v", c, err)
	}
}

func TestPanicIsLoggedOnce(t *testing.T) {
	c, err := Demo("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Gateway.Routes[0].Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("a mistake")
	})
	s := serveConfig(t, c)
	for _, path := range []string{"/abort", "/"} {
		if res, err := http.Get(s.url + path); err == nil {
			res.Body.Close()
			t.Errorf("%s: status %d, want the connection closed", path, res.StatusCode)
		}
	}
	if s.log.count("a mistake") != 1 || s.log.count("request failed") != 1 || s.requests.Load() != 0 {
		t.Errorf("want one line, and no request under way:\n%s", s.log)
	}
}

func TestUpstreamFailuresAreToldOnceASecond(t *testing.T) {
	var log bytes.Buffer
	u := upstreamLog{log: slog.New(slog.NewTextHandler(&log, nil))}
	begin := time.Now()
	var told, untold int
	for ms := range 3000 {
		n, tell := u.count("a", begin.Add(time.Duration(ms)*time.Millisecond))
		if tell {
			told++
			untold += n
		}
	}
	if told != 3 || untold != 2*999 {
		t.Errorf("%d lines that tell of %d more, want 3 and 1998", told, untold)
	}
	u.failed("b", errors.New("refused"))
	u.failed("b", errors.New("refused"))
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "route=b error=refused") {
		t.Errorf("log %q", log.String())
	}
}

func TestUpstreamDownEndToEnd(t *testing.T) {
	s := start(t, wideYAML+"gateway:\n  listen: 127.0.0.1:0\n  routes: [{id: down, match: /, upstream: 'http://127.0.0.1:1'}]\n")
	res, body := s.body("/")
	if res.StatusCode != 502 || !strings.Contains(body, `"status":502`) || s.log.count("route=down") != 1 {
		t.Errorf("status %d, body %s, log\n%s", res.StatusCode, body, s.log)
	}
}

func ExampleServer() {
	c, err := Demo("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx) }()
	for range 3 {
		res, err := http.Get("http://" + s.Addr("gateway"))
		if err != nil {
			fmt.Println(err)
			break
		}
		res.Body.Close()
		fmt.Println(res.StatusCode)
	}
	stop()
	fmt.Println(<-served)
	// Output:
	// 200
	// 200
	// 429
	// <nil>
}
