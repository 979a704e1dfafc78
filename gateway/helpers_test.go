package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// patience is how long a test waits for what should happen at once.
const patience = 10 * time.Second

func parseURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// limiter allows a number of requests an hour by the attributes of a key, and
// trusts proxies on this machine if told to.
func limiter(t *testing.T, limit string, trusted bool, key ...string) *httplimit.Handler {
	t.Helper()
	parsed, err := sluice.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet([]policy.Limit{{Name: "test", Key: key, Default: parsed}})
	if err != nil {
		t.Fatal(err)
	}
	var o httplimit.Options
	if trusted {
		o.Addresses.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	h, err := httplimit.New(policy.NewEngine(memory.New(memory.Options{}), set), o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// upstream starts a server that h answers for.
func upstream(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return parseURL(t, s.URL)
}

// serve starts a gateway. Its transport ends with the test.
func serve(t *testing.T, o Options, routes ...Route) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(build(t, o, routes...))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func build(t *testing.T, o Options, routes ...Route) http.Handler {
	t.Helper()
	if o.Transport == nil {
		o.Transport = NewTransport(TransportOptions{})
		t.Cleanup(o.Transport.CloseIdleConnections)
	}
	h, err := New(routes, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// everything is the route of all requests to an upstream.
func everything(u *url.URL) Route { return Route{ID: "all", Match: "/", Upstream: u} }

// answer sends a request and returns the answer and its body. Redirects are not
// followed.
func answer(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func request(t *testing.T, method, target string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func get(t *testing.T, target string) (*http.Response, string) {
	t.Helper()
	return answer(t, request(t, "GET", target, nil))
}

// wantProblem demands a problem document with a status.
func wantProblem(t *testing.T, res *http.Response, body string, status int) {
	t.Helper()
	if res.StatusCode != status {
		t.Errorf("status = %d, want %d; body %q", res.StatusCode, status, body)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	var p struct{ Status int }
	d := json.NewDecoder(strings.NewReader(body))
	if err := d.Decode(&p); err != nil || p.Status != status {
		t.Errorf("body %q: status %d, error %v, want a document with status %d", body, p.Status, err, status)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond) // a real server must act
	}
}

// endless is a body of a length that is not told.
func endless(n int) io.Reader { return io.MultiReader(bytes.NewReader(make([]byte, n))) }
