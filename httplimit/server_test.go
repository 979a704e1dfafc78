package httplimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// serve starts a real server whose handler stands behind the limiter.
func serve(t *testing.T, h *Handler, next http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h.Wrap(next))
	t.Cleanup(s.Close)
	return s
}

// A stream reaches the client piece by piece, after the limiter's headers.
func TestStreaming(t *testing.T) {
	more := make(chan struct{})
	s := serve(t, perIP(t, "100/s", Options{}), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, "two\n")
	})
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); line != "one\n" || err != nil {
		t.Errorf("first piece %q, %v, want one", line, err)
	}
	close(more)
	if line, err := body.ReadString('\n'); line != "two\n" || err != nil {
		t.Errorf("second piece %q, %v, want two", line, err)
	}
	if got := resp.Header.Get("RateLimit-Policy"); got != `"ip";q=100;w=1` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
}

// A connection can be taken over, as WebSocket upgrades do.
func TestUpgrade(t *testing.T) {
	s := serve(t, perIP(t, "100/s", Options{}), func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		io.WriteString(rw, line)
		rw.Flush()
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answer %v, %v, want 101", resp, err)
	}
	io.WriteString(conn, "hello\n")
	if line, err := in.ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("echo %q, %v, want hello", line, err)
	}
}

// A refused HEAD leaves the connection fit for the next request.
func TestHeadOverTheWire(t *testing.T) {
	s := serve(t, perIP(t, "1/h", Options{}), ok)
	for i, want := range []int{204, 429, 429} {
		resp, err := s.Client().Head(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || want == 429 && resp.ContentLength < 100 {
			t.Errorf("request %d: status %d, length %d, want %d", i+1, resp.StatusCode, resp.ContentLength, want)
		}
	}
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// Through a Unix socket a client has no address: all such clients share one
// limit, unless the socket's proxy is believed.
func TestUnixSocket(t *testing.T) {
	for _, tt := range []struct {
		trust bool
		want  int
	}{{false, 429}, {true, 204}} {
		h := perIP(t, "1/h", Options{Addresses: Addresses{TrustUnix: tt.trust}})
		socket := t.TempDir() + "/s"
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: h.Wrap(http.HandlerFunc(ok)), ReadHeaderTimeout: time.Second}
		go s.Serve(l)
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return net.Dial("unix", socket)
			},
		}}
		status := 0
		for _, address := range []string{"203.0.113.7", "203.0.113.8"} {
			r, _ := http.NewRequest("GET", "http://h/", nil)
			r.Header.Set("X-Forwarded-For", address)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			status = resp.StatusCode
		}
		if status != tt.want {
			t.Errorf("trust %v: the second client's status is %d, want %d", tt.trust, status, tt.want)
		}
		s.Close()
	}
}
