package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoutesReachTheirUpstreams(t *testing.T) {
	name := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s host=%s", name, r.URL.RequestURI(), r.Host)
		}
	}
	one, two := upstream(t, name("one")), upstream(t, name("two"))
	s := serve(t, Options{},
		Route{ID: "a", Match: "GET /a/{rest...}", Upstream: one},
		Route{ID: "base", Match: "/base/", Upstream: two.JoinPath("v1")},
		Route{ID: "host", Match: "shop.example/", Upstream: two},
	)
	tests := []struct{ method, host, target, want string }{
		{"GET", "api.example", "/a/x", "one /a/x host=api.example"},
		// What the caller wrote goes on as it was: a query that no parser
		// takes, and a path with an encoded slash.
		{"GET", "h", "/a/x%2Fy?q=%zz;b&&c=1", "one /a/x%2Fy?q=%zz;b&&c=1 host=h"},
		{"GET", "h", "/base/x?q=1", "two /v1/base/x?q=1 host=h"},
		{"POST", "SHOP.example", "/a/x", "two /a/x host=SHOP.example"},
	}
	for _, tt := range tests {
		r := request(t, tt.method, s.URL+tt.target, nil)
		r.Host = tt.host
		if _, body := answer(t, r); body != tt.want {
			t.Errorf("%s %s %s: %q, want %q", tt.method, tt.host, tt.target, body, tt.want)
		}
	}
}

func TestUnroutedRequestsAreLimitedToo(t *testing.T) {
	s := serve(t, Options{Limit: limiter(t, "3/h", false, "ip")},
		Route{ID: "a", Match: "POST /a", Handler: http.NotFoundHandler()})
	res, body := get(t, s.URL+"/none")
	wantProblem(t, res, body, 404)
	res, body = get(t, s.URL+"/a")
	wantProblem(t, res, body, 405)
	if got := res.Header.Get("Allow"); got != "POST" {
		t.Errorf("Allow = %q, want POST", got)
	}
	if got := res.Header.Get("X-RateLimit-Remaining"); got != "1" {
		t.Errorf("X-RateLimit-Remaining = %q, want 1", got)
	}
	// A redirect of the router costs as much as any answer.
	res, _ = answer(t, request(t, "POST", s.URL+"//a?q=1", nil))
	if res.StatusCode != 307 || res.Header.Get("Location") != "/a?q=1" {
		t.Errorf("//a: status %d, Location %q, want 307 to /a?q=1", res.StatusCode, res.Header.Get("Location"))
	}
	for _, target := range []string{"/none", "/a", "//a", "//none"} {
		res, body = answer(t, request(t, "POST", s.URL+target, nil))
		wantProblem(t, res, body, 429)
	}
}

// The limiter knows the route of every request, also of one that is redirected
// to it: else the spelling of a path would be a way around a route's limit.
func TestRouteAttribute(t *testing.T) {
	s := serve(t, Options{Limit: limiter(t, "1/h", false, "route")},
		Route{ID: "a", Match: "/a/b", Handler: http.NotFoundHandler()},
		Route{ID: "c", Match: "/c", Handler: http.NotFoundHandler()})
	for _, step := range []struct {
		target string
		want   int
	}{{"/a//b", 307}, {"/a/b", 429}, {"/a/./b", 429}, {"/c", 404}, {"/c", 429}, {"/d", 404}, {"/e", 429}} {
		if res, _ := get(t, s.URL+step.target); res.StatusCode != step.want {
			t.Errorf("%s: status %d, want %d", step.target, res.StatusCode, step.want)
		}
	}
}

func TestLimiterStandsBeforeEverything(t *testing.T) {
	reached := 0
	s := serve(t, Options{Limit: limiter(t, "1/h", false, "ip"), MaxBody: 1},
		Route{ID: "all", Match: "/", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })})
	get(t, s.URL)
	// Refused for its rate, not for its body, of which nothing is read.
	res, body := answer(t, request(t, "POST", s.URL, strings.NewReader("too long")))
	wantProblem(t, res, body, 429)
	if res.Header.Get("Retry-After") == "" || !strings.Contains(body, `"error":"rate_limited"`) {
		t.Errorf("Retry-After %q, body %s", res.Header.Get("Retry-After"), body)
	}
	if reached != 1 {
		t.Errorf("the upstream saw %d requests, want 1", reached)
	}
}

func TestHealthIsNeverLimited(t *testing.T) {
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	s := serve(t, Options{Limit: limiter(t, "1/h", false), Health: status(200), Ready: status(503)},
		Route{ID: "all", Match: "/", Handler: status(201)},
		Route{ID: "host", Match: "shop.example/", Handler: status(202)},
		Route{ID: "post", Match: "POST /healthz", Handler: status(204)})
	get(t, s.URL)
	for range 5 {
		for _, host := range []string{"", "shop.example"} {
			for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/": 429} {
				r := request(t, "GET", s.URL+path, nil)
				r.Host = host
				if res, _ := answer(t, r); res.StatusCode != want {
					t.Errorf("%s%s: status %d, want %d", host, path, res.StatusCode, want)
				}
			}
		}
	}
	if res, _ := answer(t, request(t, "POST", s.URL+"/healthz", nil)); res.StatusCode != 429 {
		t.Errorf("POST /healthz: status %d, want 429: only checks are free", res.StatusCode)
	}
}

func TestForwardedHeaders(t *testing.T) {
	seen := func(r *http.Request) map[string]string {
		got := make(map[string]string)
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
			got[name] = strings.Join(r.Header[name], " | ")
		}
		return got
	}
	for _, tt := range []struct {
		trusted bool
		want    map[string]string
	}{
		{false, map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "api.example", "X-Forwarded-Proto": "http", "Forwarded": "",
		}},
		{true, map[string]string{
			"X-Forwarded-For": "203.0.113.7, 198.51.100.1, 127.0.0.1", "X-Forwarded-Host": "public.example",
			"X-Forwarded-Proto": "https", "Forwarded": "",
		}},
	} {
		var got map[string]string
		u := upstream(t, func(_ http.ResponseWriter, r *http.Request) { got = seen(r) })
		s := serve(t, Options{Limit: limiter(t, "100/h", tt.trusted, "ip")}, everything(u))
		r := request(t, "GET", s.URL, nil)
		r.Host = "api.example"
		r.Header["X-Forwarded-For"] = []string{"203.0.113.7", "198.51.100.1"}
		r.Header.Set("X-Forwarded-Host", "public.example")
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("Forwarded", "for=203.0.113.7")
		answer(t, r)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("trusted %v (-want +got):\n%s", tt.trusted, diff)
		}
	}
}

func TestHopByHopHeadersStay(t *testing.T) {
	var got http.Header
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Connection", "X-Down")
		w.Header().Set("X-Down", "1")
		w.Header().Set("X-End", "1")
	})
	s := serve(t, Options{}, everything(u))
	r := request(t, "GET", s.URL, nil)
	r.Header.Set("Connection", "X-Up")
	for _, name := range []string{"X-Up", "Te", "Proxy-Authorization", "Keep-Alive", "X-Api-Key"} {
		r.Header.Set(name, "1")
	}
	res, _ := answer(t, r)
	for _, name := range []string{"X-Up", "Te", "Proxy-Authorization", "Keep-Alive", "Connection"} {
		if got.Get(name) != "" {
			t.Errorf("%s went on to the upstream", name)
		}
	}
	if got.Get("X-Api-Key") == "" || res.Header.Get("X-End") == "" {
		t.Error("a header that belongs to the ends was lost")
	}
	if res.Header.Get("X-Down") != "" || res.Header.Get("Keep-Alive") != "" {
		t.Error("a header of the upstream's connection came back")
	}
	if _, ok := got["User-Agent"]; !ok {
		t.Error("User-Agent was lost")
	}
}

// An upstream with limits of its own must not make two answers of one.
func TestLimitFieldsStand(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "7777")
		w.Header().Set("RateLimit", `"other";r=1`)
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "done")
	})
	s := serve(t, Options{Limit: limiter(t, "5/h", false, "ip")}, everything(u))
	res, body := get(t, s.URL)
	if got := res.Header.Values("X-RateLimit-Limit"); len(got) != 1 || got[0] != "5" || body != "done" {
		t.Errorf("X-RateLimit-Limit = %q, body %q, want 5 alone and done", got, body)
	}
	if got := res.Header.Values("RateLimit"); len(got) != 1 || !strings.HasPrefix(got[0], `"test"`) {
		t.Errorf("RateLimit = %q, want the gateway's", got)
	}
	// Without a limit they are the upstream's to send.
	s = serve(t, Options{}, everything(u))
	if res, _ := get(t, s.URL); res.Header.Get("X-RateLimit-Limit") != "7777" {
		t.Errorf("X-RateLimit-Limit = %q, want the upstream's 7777", res.Header.Get("X-RateLimit-Limit"))
	}
}

// However a handler answers, the limiter's fields are in it.
func TestLimitFieldsOfHandlers(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"nothing written": func(http.ResponseWriter, *http.Request) {},
		"body only":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") },
		"status":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"flush first":     func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
	} {
		s := serve(t, Options{Limit: limiter(t, "5/h", false, "ip")}, Route{ID: "a", Match: "/", Handler: h})
		if res, _ := get(t, s.URL); res.Header.Get("X-RateLimit-Remaining") != "4" || res.Header.Get("RateLimit") == "" {
			t.Errorf("%s: header %v", name, res.Header)
		}
	}
}

func TestConcurrentRequestsKeepTheirFields(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	h := build(t, Options{Limit: limiter(t, "1000/h", false, "path"), MaxBody: 100}, everything(u))
	s := httptest.NewServer(h)
	defer s.Close()
	var wait sync.WaitGroup
	for caller := range 8 {
		wait.Go(func() {
			for n := range 25 {
				text := fmt.Sprint(caller, " ", n)
				r, err := http.NewRequest("POST", fmt.Sprintf("%s/%d", s.URL, caller), strings.NewReader(text))
				if err != nil {
					t.Error(err)
					return
				}
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if left := res.Header.Get("X-RateLimit-Remaining"); string(body) != text || left != fmt.Sprint(999-n) {
					t.Errorf("caller %d: body %q, remaining %s, want %q and %d", caller, body, left, text, 999-n)
				}
			}
		})
	}
	wait.Wait()
}
