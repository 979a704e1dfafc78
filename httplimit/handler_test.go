package httplimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A storeFunc is a store in one function.
type storeFunc func([]sluice.Charge) ([]sluice.Decision, error)

func (f storeFunc) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	decisions, err := f(charges)
	return append(dst, decisions...), err
}

// broken is a store that does not answer.
var broken = storeFunc(func([]sluice.Charge) ([]sluice.Decision, error) {
	return nil, errors.New("connection refused")
})

func engine(t testing.TB, store sluice.Store, limits ...policy.Limit) *policy.Engine {
	t.Helper()
	set, err := policy.NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewEngine(store, set)
}

func handler(t testing.TB, e *policy.Engine, o Options) *Handler {
	t.Helper()
	h, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends a request through the handler and returns the answer; 204 is that
// of the handler behind.
func ask(h *Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.Wrap(http.HandlerFunc(ok)).ServeHTTP(w, r)
	return w
}

func get(h *Handler) *httptest.ResponseRecorder {
	return ask(h, httptest.NewRequest("GET", "/", nil))
}

// body is a problem document as a client reads it.
type body struct {
	Type, Title, Detail, Error string
	Status                     int
	RetryAfterMs               int64
	Violated                   []string `json:"violated-policies"`
}

func problem(t testing.TB, w *httptest.ResponseRecorder) body {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type: %s (status %d), want application/problem+json", got, w.Code)
	}
	if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
		t.Errorf("Content-Length: %s, want %d", got, w.Body.Len())
	}
	var b body
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
		t.Fatalf("body %s: %v", w.Body, err)
	}
	if b.Status != w.Code {
		t.Errorf("the body says status %d, the answer %d", b.Status, w.Code)
	}
	return b
}

func perIP(t testing.TB, rate string, o Options) *Handler {
	t.Helper()
	h, err := PerIP(memory.New(memory.Options{}), rate, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestShadowRefusesNobody(t *testing.T) {
	var seen []bool
	h := handler(t, engine(t, memory.New(memory.Options{}), policy.Limit{Name: "trial", Default: limit(t, "1/m"), Shadow: true}),
		Options{Observe: func(_ *http.Request, v *policy.Verdict, err error) {
			seen = append(seen, v.Results[0].Decision.Allowed && err == nil)
		}})
	for range 2 {
		if w := get(h); w.Code != 204 || len(w.Header()) != 0 {
			t.Errorf("status %d, headers %v, want 204 and none", w.Code, w.Header())
		}
	}
	if diff := cmp.Diff([]bool{true, false}, seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestCost(t *testing.T) {
	h := handler(t, engine(t, memory.New(memory.Options{}), policy.Limit{
		Name: "quota", Default: limit(t, "10/m"), Cost: policy.Cost{Attribute: "header:X-Cost"},
	}), Options{})
	for cost, want := range map[string]int{"11": 400, "x": 400, "-1": 400, "10": 204} {
		w := ask(h, with("X-Cost", cost))
		if w.Code != want {
			t.Errorf("cost %s: status %d, want %d", cost, w.Code, want)
		}
		if want == 400 {
			if b := problem(t, w); b.Error != "cost" || !strings.Contains(b.Detail, "quota") || w.Header().Get("Retry-After") != "" {
				t.Errorf("cost %s: %+v, want a problem that names the limit, and no wait", cost, b)
			}
		}
	}
	if w := ask(h, with("X-Cost", "1", "1")); w.Code != 400 {
		t.Errorf("two costs: status %d, want 400", w.Code)
	}
}

func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		l := policy.Limit{Name: "l", Default: limit(t, "5/s")}
		deny := handler(t, engine(t, broken, l), Options{Logger: logger})
		for range 3 {
			w := get(deny)
			if b := problem(t, w); w.Code != 503 || w.Header().Get("Retry-After") != "1" || b.Error != "unavailable" {
				t.Errorf("status %d, %+v, want 503 with a wait", w.Code, b)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines logged, want 1:\n%s", n, log.String())
		}
		time.Sleep(time.Second)
		get(deny)
		if !strings.Contains(log.String(), "suppressed=2") {
			t.Errorf("log does not count what it left out:\n%s", log.String())
		}
		if strings.Contains(get(deny).Body.String(), "connection refused") {
			t.Error("the answer tells how the store failed")
		}
		allow := handler(t, engine(t, broken, l), Options{OnError: ErrorAllow})
		if w := get(allow); w.Code != 204 {
			t.Errorf("allow: status %d, want 204", w.Code)
		}
	})
}

// A store that is away lets nobody in who has no identity.
func TestStoreAwayStillIdentifies(t *testing.T) {
	id := identity(t, IdentityOptions{Header: "X-Api-Key", Required: true})
	h := handler(t, engine(t, broken, policy.Limit{Name: "l", Default: limit(t, "5/s")}), Options{OnError: ErrorAllow, Identities: []*Identity{id}})
	if w := ask(h, with("X-Api-Key")); w.Code != 401 {
		t.Errorf("without a key: status %d, want 401", w.Code)
	}
	if w := ask(h, with("X-Api-Key", "K")); w.Code != 204 {
		t.Errorf("with a key: status %d, want 204", w.Code)
	}
}

// A limit that is to deny while the store is away answers 503, not 429.
func TestFallbackDenies(t *testing.T) {
	store := storeFunc(func([]sluice.Charge) ([]sluice.Decision, error) {
		return []sluice.Decision{{Limit: 5, RetryAfter: 2 * time.Second, Source: sluice.SourceFallback}}, nil
	})
	h := handler(t, engine(t, store, policy.Limit{Name: "login", Default: limit(t, "5/s"), OnFailure: policy.FailDeny}), Options{})
	w := get(h)
	if b := problem(t, w); w.Code != 503 || w.Header().Get("Retry-After") != "2" || b.Type != TypeReducedCapacity {
		t.Errorf("status %d, %+v, want 503", w.Code, b)
	}
}

func TestCallerGone(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := handler(t, engine(t, broken, policy.Limit{Name: "l", Default: limit(t, "5/s")}),
		Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: ErrorAllow})
	if w := ask(h, httptest.NewRequestWithContext(ctx, "GET", "/", nil)); w.Code != 503 || log.Len() > 0 {
		t.Errorf("status %d, log %q, want 503 and no word", w.Code, log.String())
	}
}

// Limits that need no tenant are charged before a request without one is
// turned away.
func TestUnidentified(t *testing.T) {
	id := identity(t, IdentityOptions{Header: "X-Api-Key", Required: true, Unknown: UnknownRefused, Keys: keys(t, map[string]string{"K": "shop-a"})})
	h := handler(t, engine(t, memory.New(memory.Options{}),
		policy.Limit{Name: "tenant", Key: []string{"tenant"}, Default: limit(t, "100/m")},
		policy.Limit{Name: "ip", Key: []string{"ip"}, Default: limit(t, "4/m")},
	), Options{Identities: []*Identity{id}})
	for i, tt := range []struct {
		r    *http.Request
		want int
	}{
		{with("X-Api-Key"), 401},
		{with("X-Api-Key", "K9"), 401},
		{with("X-Api-Key", "K", "K9"), 400},
		{with("X-Api-Key", "K"), 204},
		{with("X-Api-Key"), 429},
	} {
		w := ask(h, tt.r)
		if w.Code != tt.want {
			t.Errorf("request %d: status %d, want %d", i+1, w.Code, tt.want)
		}
		if got := w.Header().Get("WWW-Authenticate"); (got != "") != (tt.want == 401) {
			t.Errorf("request %d: WWW-Authenticate: %q", i+1, got)
		}
		if tt.want != 204 {
			problem(t, w)
		}
		if got := w.Header().Get("RateLimit"); strings.Contains(got, "tenant") != (tt.want == 204) {
			t.Errorf("request %d: RateLimit: %s", i+1, got)
		}
	}
}

// Nothing secret reaches the store, and of a secret identity nothing that could
// be found again without the hasher's key.
func TestSecretsStayHere(t *testing.T) {
	var charged string
	store := storeFunc(func(charges []sluice.Charge) ([]sluice.Decision, error) {
		charged = charges[0].Key + " " + charges[0].Tag
		return []sluice.Decision{{Allowed: true, Limit: 5}}, nil
	})
	ids := []*Identity{
		identity(t, IdentityOptions{Name: "tenant", Header: "Authorization"}),
		identity(t, IdentityOptions{Name: "device", Header: "X-Device", Secret: Secret}),
	}
	h := handler(t, engine(t, store, policy.Limit{
		Name: "l", Default: limit(t, "5/s"),
		Key: []string{"tenant", "device", "header:Authorization", "header:X-Device", "header:Cookie", "header:X-Api-Key", "header:Proxy-Authorization"},
	}), Options{Identities: ids})
	r := httptest.NewRequest("GET", "/", nil)
	for _, name := range []string{"Authorization", "X-Device", "Cookie", "X-Api-Key", "Proxy-Authorization"} {
		r.Header.Set(name, "secret-of-"+name)
	}
	if w := ask(h, r); w.Code != 204 {
		t.Fatalf("status %d, want 204", w.Code)
	}
	if strings.Contains(charged, "secret-of-") {
		t.Errorf("charged %q, want no secret", charged)
	}
	for _, name := range []string{"Authorization", "X-Device"} {
		if strings.Contains(charged, sum("secret-of-" + name)[:32]) {
			t.Errorf("charged %q, want a keyed hash of %s", charged, name)
		}
	}
}

func TestAttributes(t *testing.T) {
	h := handler(t, engine(t, memory.New(memory.Options{})), Options{
		Addresses: Addresses{TrustedProxies: networks(t, "192.0.2.0/24")},
		Attributes: map[string]func(*http.Request) string{
			"plan": func(*http.Request) string { return "Gold" },
			"host": func(*http.Request) string { return "mine" },
		},
		Normalize: map[string]func(string) string{"plan": strings.ToLower, "header:X-Mail": strings.TrimSpace},
	})
	r := httptest.NewRequest("PUT", "http://Example.org:80//a", nil)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header = http.Header{"X-Forwarded-For": {"203.0.113.7:1"}, "X-Mail": {" a@x.org "}, "X-Two": {"a", "b"}}
	q := h.newRequest().(*request)
	q.r, q.route = r, "create"
	for name, want := range map[string]string{
		"ip": "203.0.113.7", "method": "PUT", "path": "/a", "host": "mine", "route": "create", "plan": "gold",
		"header:x-mail": " a@x.org ", "header:X-Mail": "a@x.org", "header:X-Two": "a, b", "header:Host": "Example.org:80",
		"header:X-None": "", "nothing": "",
	} {
		if got := q.attribute(name); got != want {
			t.Errorf("attribute %s = %q, want %q", name, got, want)
		}
	}
}

// The route is the pattern of the mux that found the wrapped handler.
func TestRouteIsThePattern(t *testing.T) {
	h := handler(t, engine(t, memory.New(memory.Options{}), policy.Limit{Name: "route", Key: []string{"route"}, Default: limit(t, "1/m")}), Options{})
	mux := http.NewServeMux()
	done := h.Wrap(http.HandlerFunc(ok))
	mux.Handle("GET /a/{id}", done)
	mux.Handle("GET /b/{id}", done)
	for i, tt := range []struct {
		path string
		want int
	}{{"/a/1", 204}, {"/a/2", 429}, {"/b/1", 204}} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != tt.want {
			t.Errorf("request %d, %s: status %d, want %d", i+1, tt.path, w.Code, tt.want)
		}
	}
}

// Case G114: a proxy that is not trusted is told of, once.
func TestCaseG114Warning(t *testing.T) {
	var log bytes.Buffer
	h := perIP(t, "100/s", Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Addresses: Addresses{TrustedProxies: networks(t, "10.0.0.0/8")}})
	ask(h, from("192.0.2.1:1"))
	ask(h, from("10.0.0.1:1", "203.0.113.7"))
	if log.Len() > 0 {
		t.Errorf("logged without a cause: %s", log.String())
	}
	ask(h, from("192.0.2.1:1", "203.0.113.7"))
	ask(h, from("192.0.2.1:1", "203.0.113.8"))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "192.0.2.1:1") {
		t.Errorf("logged %q, want one line that names the peer", got)
	}
}

// The ResponseWriter reaches the next handler as it is.
func TestWriterIsNotWrapped(t *testing.T) {
	h := perIP(t, "100/s", Options{})
	w := httptest.NewRecorder()
	h.Wrap(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("the writer is a %T, want the server's own", got)
		}
	})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
}

func TestNewErrors(t *testing.T) {
	id := identity(t, IdentityOptions{Header: "X-Api-Key"})
	_, err := New(nil, Options{
		Addresses:  Addresses{IPv6Prefix: 200},
		Identities: []*Identity{id, id, nil},
		Attributes: map[string]func(*http.Request) string{"tenant": nil},
		Jitter:     -1,
	})
	for _, want := range []string{"200", "stands twice", "identity 3", "jitter", "engine"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want it to tell of %q", err, want)
		}
	}
	if _, err := PerIP(memory.New(memory.Options{}), "ten", Options{}); err == nil {
		t.Error("PerIP(ten) = nil, want an error")
	}
}

func TestConcurrent(t *testing.T) {
	h := perIP(t, "50/h", Options{})
	codes := make(chan int, 200)
	for i := range 4 {
		go func() {
			for range 50 {
				r := httptest.NewRequest("GET", fmt.Sprint("/", i), nil)
				codes <- ask(h, r).Code
			}
		}()
	}
	passed := 0
	for range 200 {
		if <-codes == 204 {
			passed++
		}
	}
	if passed != 50 {
		t.Errorf("%d passed, want 50", passed)
	}
}
