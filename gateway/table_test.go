package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestTableFind(t *testing.T) {
	var table Table
	for _, r := range [][2]string{
		{"create", "POST /orders"},
		{"read", "GET /orders/{id}"},
		{"files", "/files/{path...}"},
		{"shop", "Shop.example/"},
		{"exact", "GET /only/{$}"},
	} {
		if err := table.Add(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ method, host, path, want string }{
		{"POST", "", "/orders", "create"},
		{"GET", "", "/orders", ""},
		{"GET", "", "/orders/7", "read"},
		{"HEAD", "", "/orders/7", "read"},
		{"DELETE", "", "/orders/7", ""},
		{"GET", "", "/orders/a%2Fb", "read"},
		{"PUT", "", "/files/a/b/c", "files"},
		{"GET", "shop.example", "/orders/7", "shop"},
		{"GET", "SHOP.example:8080", "/x", "shop"},
		{"GET", "shop.example.", "/x", "shop"},
		{"GET", "other.example", "/x", ""},
		{"GET", "", "/only/", "exact"},
		{"GET", "", "/only/more", ""},
		// As the router cleans paths, so are they counted.
		{"GET", "", "//orders//7", "read"},
		{"GET", "", "/x/../orders/7", "read"},
		{"GET", "", "", ""},
		{"GET", "", "not a path", ""},
		{"CONNECT", "", "shop.example:443", ""},
	}
	for _, tt := range tests {
		if got := table.Find(tt.method, tt.host, tt.path); got != tt.want {
			t.Errorf("Find(%s, %q, %q) = %q, want %q", tt.method, tt.host, tt.path, got, tt.want)
		}
	}
}

func TestTableAddSaysWhatIsWrong(t *testing.T) {
	var table Table
	for _, r := range [][2]string{{"first", "GET /a/{x}"}, {"second", "/b/"}} {
		if err := table.Add(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		pattern string
		want    []string
	}{
		{"GET /a/{y}", []string{`"GET /a/{y}"`, `"GET /a/{x}" of route "first"`, "matches the same requests"}},
		{"/{z}/c", []string{`"/{z}/c"`, `route "first"`}},
		{"", []string{"empty: want one such as"}},
		{"orders", []string{"missing /", "want one such as"}},
		{"GET /{x", []string{"bad wildcard"}},
		{"GET /{x}/{x}", []string{"duplicate"}},
		{"get /x", []string{"capitals: want GET"}},
		{"example.org:80/", []string{"without a port"}},
		{"/healthz", []string{"health checks"}},
		{"GET shop.example/readyz", []string{"health checks"}},
	}
	for _, tt := range tests {
		err := table.Add("new", tt.pattern)
		if err == nil {
			t.Errorf("Add(%q) is no error", tt.pattern)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Add(%q) = %q, want %q in it", tt.pattern, err, want)
			}
		}
		if strings.Contains(err.Error(), ".go") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Add(%q) = %q, want no source files and one line", tt.pattern, err)
		}
	}
	// What was refused left nothing behind.
	if got := table.Find("GET", "", "/b/c"); got != "second" {
		t.Errorf("after errors Find(/b/c) = %q, want second", got)
	}
	if err := table.Add("post", "POST /healthz"); err != nil {
		t.Errorf("POST is no health check: %v", err)
	}
}

func TestNewJoinsErrors(t *testing.T) {
	ok := http.NotFoundHandler()
	_, err := New([]Route{
		{ID: "a", Match: "/a", Handler: ok},
		{ID: "b", Match: "/a", Handler: ok},
		{ID: "c", Match: "/c"},
		{ID: "d", Match: "/d", Upstream: parseURL(t, "ftp://u:secret@host/")},
		{ID: "e", Match: "e", Handler: ok},
	}, Options{})
	if err == nil {
		t.Fatal("New took routes that are wrong")
	}
	for _, want := range []string{`route "b": pattern "/a"`, `of route "a"`, `route "c": neither`, `route "d": upstream`, `route "e": pattern "e"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New = %q, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("New = %q, which tells a password", err)
	}
}

func FuzzTableAdd(f *testing.F) {
	for _, seed := range []string{"GET /", "/{a}/b", "example.org/{x...}", "get /x", "GET  /x", "{}", "/{$}", "a b c", "É/"} {
		f.Add(seed, "/a/b")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		var table Table
		if err := table.Add("first", pattern); err != nil {
			return
		}
		if err := table.Add("second", pattern); err == nil {
			t.Errorf("%q stands twice and is no conflict", pattern)
		}
		if got := table.Find("GET", "", path); got != "" && got != "first" {
			t.Errorf("Find = %q", got)
		}
	})
}
