package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestBodyLimit(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	var told atomic.Int64
	s := serve(t, Options{MaxBody: 1000, Errors: func(string, error) { told.Add(1) }}, everything(u))
	tests := []struct {
		name string
		body io.Reader
		want int
	}{
		{"none", nil, 200},
		{"as long as may be", strings.NewReader(strings.Repeat("x", 1000)), 200},
		{"one byte longer", strings.NewReader(strings.Repeat("x", 1001)), 413},
		{"chunked", endless(1000), 200},
		{"chunked and longer", endless(1001), 413},
		{"chunked and much longer", endless(1 << 20), 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, body := answer(t, request(t, "POST", s.URL, tt.body))
			if tt.want == 413 {
				wantProblem(t, res, body, 413)
			} else if res.StatusCode != tt.want {
				t.Errorf("status %d, want %d", res.StatusCode, tt.want)
			}
		})
	}
	if told.Load() > 0 {
		t.Errorf("%d errors of upstreams told, want none: the bodies were the callers'", told.Load())
	}
}

func TestUpstreamFailures(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	release := make(chan struct{})
	slow := upstream(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	drops := upstream(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	slowH2 := h2cUpstream(t, func(http.ResponseWriter, *http.Request) { <-release })
	tests := []struct {
		name     string
		upstream *url.URL
		want     int
	}{
		{"down", parseURL(t, "http://"+closed.Addr().String()), 502},
		{"drops", drops, 502},
		{"slow", slow, 504},
		{"slow over HTTP/2", slowH2, 504},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var told []string
			transport := NewTransport(TransportOptions{Response: 50 * time.Millisecond})
			defer transport.CloseIdleConnections()
			s := serve(t, Options{
				Transport: transport,
				Errors:    func(route string, err error) { told = append(told, route+": "+err.Error()) },
			}, everything(tt.upstream))
			res, body := get(t, s.URL)
			wantProblem(t, res, body, tt.want)
			if strings.Contains(body, "127.0.0.1") {
				t.Errorf("body %s tells where the upstream is", body)
			}
			if len(told) != 1 || !strings.HasPrefix(told[0], "all: ") {
				t.Errorf("told %q, want one error of route all", told)
			}
		})
	}
}

func TestCallerThatGoesAwayIsNoFailure(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	u := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		ended <- struct{}{}
	})
	var told atomic.Int64
	s := serve(t, Options{Errors: func(_ string, err error) { told.Add(1); t.Log(err) }}, everything(u))

	ctx, cancel := context.WithCancel(t.Context())
	r := request(t, "GET", s.URL, nil).WithContext(ctx)
	go func() { <-began; cancel() }()
	if res, err := http.DefaultTransport.RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Errorf("RoundTrip = %v, %v, want canceled", res, err)
	}
	<-ended

	// Gone in the middle of its body.
	conn := dial(t, s)
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nonly this")
	<-began
	conn.Close()
	<-ended

	// A body that is none.
	conn = dial(t, s)
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\nzz\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 400 {
		t.Errorf("malformed chunks: %v, %v, want 400", res, err)
	}
	s.Close()
	if told.Load() > 0 {
		t.Errorf("%d errors of upstreams told, want none", told.Load())
	}
}

func dial(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// h2cUpstream speaks HTTP/2 without TLS and nothing else.
func h2cUpstream(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	u := parseURL(t, s.URL)
	u.Scheme = "h2c"
	return u
}

// h2cClient speaks HTTP/2 without TLS and nothing else.
func h2cClient(t *testing.T) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func TestHTTP2BothWays(t *testing.T) {
	proto := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }
	secure := httptest.NewUnstartedServer(http.HandlerFunc(proto))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	transport := NewTransport(TransportOptions{TLS: secure.Client().Transport.(*http.Transport).TLSClientConfig})
	defer transport.CloseIdleConnections()

	for name, tt := range map[string]struct {
		upstream *url.URL
		want     string
	}{
		"plain": {upstream(t, proto), "HTTP/1.1"},
		"tls":   {parseURL(t, secure.URL), "HTTP/2.0"},
		"h2c":   {h2cUpstream(t, proto), "HTTP/2.0"},
	} {
		s := serve(t, Options{Transport: transport}, everything(tt.upstream))
		if res, body := get(t, s.URL); res.Proto != "HTTP/1.1" || body != tt.want {
			t.Errorf("%s: %s to the caller, %s to the upstream, want HTTP/1.1 and %s", name, res.Proto, body, tt.want)
		}
		res, err := h2cClient(t).Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.Proto != "HTTP/2.0" || string(body) != tt.want {
			t.Errorf("%s: %s to the caller, %s to the upstream, want HTTP/2.0 and %s", name, res.Proto, body, tt.want)
		}
	}
}

// A gRPC call is an HTTP/2 request whose status is in the trailers, and both
// sides may speak at once.
func TestTrailersAndBothDirections(t *testing.T) {
	u := h2cUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("Te = %q, want trailers", r.Header.Get("Te"))
		}
		w.Header().Set("Trailer", "Grpc-Status")
		flusher := http.NewResponseController(w)
		_ = flusher.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "got %s\n", lines.Text())
			if err := flusher.Flush(); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "fine")
	})
	s := serve(t, Options{Limit: limiter(t, "10/h", false, "ip"), MaxBody: 1000}, everything(u))
	in, out := io.Pipe()
	r := request(t, "POST", s.URL, in)
	r.Header.Set("Te", "trailers")
	r.Header.Set("Content-Type", "application/grpc")
	res, err := h2cClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for n := range 3 {
		fmt.Fprintf(out, "%d\n", n)
		if !lines.Scan() || lines.Text() != fmt.Sprintf("got %d", n) {
			t.Fatalf("line %d: %q, %v", n, lines.Text(), lines.Err())
		}
	}
	out.Close()
	if lines.Scan() {
		t.Errorf("more came: %q", lines.Text())
	}
	if res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("Grpc-Message") != "fine" {
		t.Errorf("trailers %v", res.Trailer)
	}
	if res.Header.Get("X-RateLimit-Limit") != "10" {
		t.Errorf("header %v, want the limit in it", res.Header)
	}
}

func TestServerSentEventsComeAtOnce(t *testing.T) {
	next := make(chan string)
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range next {
			fmt.Fprintf(w, "data: %s\n\n", event)
			_ = http.NewResponseController(w).Flush()
		}
	})
	s := serve(t, Options{Limit: limiter(t, "10/h", false, "ip")}, everything(u))
	go func() { next <- "0" }()
	res, err := http.DefaultTransport.RoundTrip(request(t, "GET", s.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for n := range 3 {
		// The next event is not made before this one came.
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", n) {
			t.Fatalf("event %d: %q, %v", n, lines.Text(), lines.Err())
		}
		lines.Scan()
		if n < 2 {
			next <- fmt.Sprint(n + 1)
		}
	}
	close(next)
}

// echo takes a connection over and sends back what it gets, as a WebSocket does.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	defer conn.Close()
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
	buffered.Flush()
	_, _ = io.Copy(conn, buffered)
}

func TestUpgradePasses(t *testing.T) {
	s := serve(t, Options{Limit: limiter(t, "1/h", false, "ip"), MaxBody: 10}, everything(upstream(t, echo)))
	upgrade := "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
	conn := dial(t, s)
	fmt.Fprint(conn, upgrade)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("X-RateLimit-Limit") != "1" {
		t.Fatalf("status %d, header %v", res.StatusCode, res.Header)
	}
	for range 3 {
		line := strings.Repeat("ping", 100) + "\n" // longer than a body may be
		fmt.Fprint(conn, line)
		if got, err := in.ReadString('\n'); got != line {
			t.Fatalf("echo %q, %v", got, err)
		}
	}
	second := dial(t, s)
	fmt.Fprint(second, upgrade)
	if res, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil || res.StatusCode != 429 {
		t.Errorf("the second upgrade: %v, %v, want 429", res, err)
	}
}

// A gateway that is replaced, as at each reload, leaves nothing behind.
func TestManyGatewaysLeakNothing(t *testing.T) {
	u := upstream(t, func(http.ResponseWriter, *http.Request) {})
	transport := NewTransport(TransportOptions{})
	var h atomic.Pointer[http.Handler]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*h.Load()).ServeHTTP(w, r) }))
	defer s.Close()
	var before int
	for n := range 100 {
		gateway := build(t, Options{Transport: transport, Limit: limiter(t, "10/h", false, "ip")}, everything(u))
		h.Store(&gateway)
		if res, _ := get(t, s.URL); res.StatusCode != 200 {
			t.Fatalf("status %d", res.StatusCode)
		}
		if n == 10 {
			before = runtime.NumGoroutine()
		}
	}
	eventually(t, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before+2 })
	transport.CloseIdleConnections()
}
