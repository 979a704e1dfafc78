package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

// Every client address has 2 requests a minute.
func ExamplePerIP() {
	limit, err := httplimit.PerIP(memory.New(memory.Options{}), "2/m", httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server := limit.Wrap(hello) // http.ListenAndServe(":8080", server)

	for range 3 {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%d %s wait %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "ip";r=1;t=30 wait ""
	// 200 "ip";r=0;t=60 wait ""
	// 429 "ip";r=0;t=30 wait "30"
}

// Tenants are known by their API keys, and each route counts by itself.
func ExampleNew() {
	tenant, err := httplimit.NewIdentity(httplimit.IdentityOptions{Name: "tenant", Header: "X-Api-Key", Required: true})
	if err != nil {
		log.Fatal(err)
	}
	set, err := policy.NewSet([]policy.Limit{
		{Name: "tenant-route", Key: []string{"tenant", "route"}, Default: sluice.Limit{Tokens: 1, Per: time.Minute}},
		{Name: "ip", Key: []string{"ip"}, Default: sluice.Limit{Tokens: 100, Per: time.Second}},
	})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(policy.NewEngine(memory.New(memory.Options{}), set), httplimit.Options{
		Addresses:  httplimit.Addresses{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Identities: []*httplimit.Identity{tenant},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", limit.Wrap(hello))
	mux.Handle("GET /carts/{id}", limit.Wrap(hello))

	for _, path := range []string{"/orders/1", "/orders/2", "/carts/1"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Api-Key", "secret")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(path, w.Code)
	}
	// Output:
	// /orders/1 200
	// /orders/2 429
	// /carts/1 200
}

// Attributes of your own stand beside the built-in ones.
func ExampleOptions() {
	set, err := policy.NewSet([]policy.Limit{{Name: "user", Key: []string{"user"}, Default: sluice.Limit{Tokens: 1, Per: time.Minute}}})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(policy.NewEngine(memory.New(memory.Options{}), set), httplimit.Options{
		Attributes: map[string]func(*http.Request) string{
			"user": func(r *http.Request) string { return r.URL.Query().Get("user") },
		},
		Normalize: map[string]func(string) string{"user": strings.ToLower},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"ada", "Ada", "ben"} {
		w := httptest.NewRecorder()
		limit.Wrap(hello).ServeHTTP(w, httptest.NewRequest("GET", "/?user="+user, nil))
		fmt.Println(user, w.Code)
	}
	// Output:
	// ada 200
	// Ada 429
	// ben 200
}

// Admit fits where a handler decides by itself what to limit.
func ExampleHandler_Admit() {
	limit, err := httplimit.PerIP(memory.New(memory.Options{}), "1/m", httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	search := func(w http.ResponseWriter, r *http.Request) {
		if !limit.Admit(w, r) {
			return
		}
		fmt.Fprint(w, "found")
	}
	for range 2 {
		w := httptest.NewRecorder()
		search(w, httptest.NewRequest("GET", "/search", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 429
}

// A keys file holds hashes, made with: printf %s SECRET | sha256sum.
func ExampleParseKeys() {
	keys, err := httplimit.ParseKeys(map[string]string{
		"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b": "shop-a",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(keys.Len(), keys.Has("shop-a"))
	// Output: 1 true
}

// The client of a request that came through a proxy on this machine.
func ExampleAddresses() {
	a := httplimit.Addresses{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "198.51.100.9, [2001:db8:0:1::7]:50001")
	fmt.Println(a.Client(r), a.Key(a.Client(r)))
	// Output: 2001:db8:0:1::7 2001:db8:0:1::/64
}

// A problem of your own in the same form.
func ExampleWriteProblem() {
	w := httptest.NewRecorder()
	httplimit.WriteProblem(w, httptest.NewRequest("GET", "/", nil), httplimit.Problem{
		Status: http.StatusServiceUnavailable,
		Title:  "Closed for the night",
	})
	fmt.Print(w.Body)
	// Output: {"type":"about:blank","title":"Closed for the night","status":503}
}

// Instances that share a store share the key, and count one secret as one.
func ExampleNewHasher() {
	one, two := httplimit.NewHasher([]byte("from a file")), httplimit.NewHasher([]byte("from a file"))
	fmt.Println(one.Hash("secret") == two.Hash("secret"))
	// Output: true
}

// Callers are known by the names of a keys file; others count by their address.
func ExampleNewIdentity() {
	keys, err := httplimit.ParseKeys(map[string]string{
		"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b": "shop-a",
	})
	if err != nil {
		log.Fatal(err)
	}
	tenant, err := httplimit.NewIdentity(httplimit.IdentityOptions{
		Name: "tenant", Header: "Authorization", Keys: keys, Unknown: httplimit.UnknownAddressed,
	})
	if err != nil {
		log.Fatal(err)
	}
	set, err := policy.NewSet([]policy.Limit{{Name: "tenant", Key: []string{"tenant"}, Default: sluice.Limit{Tokens: 9, Per: time.Minute}}})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(policy.NewEngine(memory.New(memory.Options{}), set), httplimit.Options{
		Identities: []*httplimit.Identity{tenant},
		Observe: func(_ *http.Request, v *policy.Verdict, _ error) {
			fmt.Println(v.Results[0].Key)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, credentials := range []string{"Bearer secret", "bearer secret", "Bearer made-up"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", credentials)
		limit.Admit(httptest.NewRecorder(), r)
	}
	// Output:
	// tenant|tenant=shop-a
	// tenant|tenant=shop-a
	// tenant|tenant=ip:192.0.2.1
}

// AdmitRoute names the route where no pattern of a ServeMux does.
func ExampleHandler_AdmitRoute() {
	set, err := policy.NewSet([]policy.Limit{{Name: "route", Key: []string{"route"}, Default: sluice.Limit{Tokens: 1, Per: time.Minute}}})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(policy.NewEngine(memory.New(memory.Options{}), set), httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, route := range []string{"search", "search", "cart"} {
		fmt.Println(route, limit.AdmitRoute(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), route))
	}
	// Output:
	// search true
	// search false
	// cart true
}
