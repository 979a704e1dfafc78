package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// authorized asks with the token of the tests.
func (r *running) authorized(method, path, body string, headers ...string) answer {
	r.t.Helper()
	return r.call(method, path, body, append(headers, "Authorization: Bearer "+testToken)...)
}

// wants demands a status and a text in the body, and reads that.
func (a answer) wants(t testing.TB, status int, has string, into any) answer {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, has) {
		t.Errorf("%d %s, want %d and %q", a.status, a.body, status, has)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(a.body), into); err != nil {
			t.Error(err)
		}
	}
	return a
}

// apiYAML is a gateway whose tenants are secret keys, but for one with a name.
func (d *rulesDB) apiYAML() string {
	return `rules: {url: "` + d.URL("postgres") + `", poll: 1h, snapshot: state/rules}
limits:
  - name: tenant-route
    key: [tenant, route]
    limit: 10/s
    overrides:
      - {match: {tenant: key-file, route: all}, limit: 7/s}
  - {name: login, match: {route: login}, key: [ip], limit: 5/15m, algorithm: sliding_log}
  - {name: everyone, key: [], limit: 1M/s}
identity:
  tenant: {header: X-Api-Key}
gateway:
  listen: 127.0.0.1:0
  routes: [{id: all, match: /, upstream: "UPSTREAM"}, {id: login, match: /login, upstream: "UPSTREAM"}]
admin: {listen: 127.0.0.1:0, token_file: token}
`
}

func TestRulesAPI(t *testing.T) {
	d := newRulesDB(t)
	r := start(t, d.apiYAML(), "token", testToken)
	put := func(body string, headers ...string) answer {
		t.Helper()
		return r.authorized("PUT", "/v1/rules", body, headers...)
	}
	var created, changed writeAnswer
	a := put(`{"tenant": "key-a", "route": "all", "rate": "100/s", "burst": 200}`, "X-Sluice-Actor: alice").wants(t, 201, `"rate":"100/s"`, &created)
	if !created.InForce || created.Rule.ID == 0 || created.Rule.Burst != 200 || a.header.Get("Location") != fmt.Sprintf("/v1/rules/%d", created.Rule.ID) {
		t.Fatalf("created %+v", created)
	}
	if got := r.get("/", "X-Api-Key: key-a").Header.Get("X-Ratelimit-Limit"); got != "200" {
		t.Errorf("a limit of %s at once, want 200", got)
	}
	etag := a.header.Get("ETag")
	path := a.header.Get("Location")

	// Nobody overwrites what he has not seen.
	if a := put(`{"tenant": "key-a", "route": "all", "rate": "1/s"}`).wants(t, 428, "If-Match: *", nil); a.header.Get("ETag") != etag {
		t.Errorf("version %s, want %s", a.header.Get("ETag"), etag)
	}
	put(`{"tenant": "key-a", "route": "all", "rate": "1/s"}`, "If-None-Match: *").wants(t, 412, "is another by now", nil)
	put(`{"tenant": "key-a", "route": "all", "rate": "1/s"}`, `If-Match: "abc"`).wants(t, 412, "is another by now", nil)
	put(`{"tenant": "key-x", "route": "all", "rate": "1/s"}`, `If-Match: *`).wants(t, 412, "is gone", nil)
	a = put(`{"tenant": "key-a", "route": "all", "rate": "50/s"}`, "If-Match: "+etag).wants(t, 200, `"rate":"50/s"`, &changed)
	if changed.Before == nil || changed.Before.Burst != 200 || !changed.InForce {
		t.Errorf("changed %+v", changed)
	}
	r.authorized("PUT", path, `{"rate": "60/s"}`).wants(t, 428, "If-Match", nil)
	r.authorized("PUT", path, `{"rate": "60/s"}`, "If-Match: "+etag).wants(t, 412, "", nil)
	r.authorized("PUT", path, `{"rate": "60/s"}`, "If-None-Match: *").wants(t, 400, "PUT /v1/rules", nil)
	r.authorized("PUT", path, `{"rate": "60/s", "tenant": "x"}`, "If-Match: *").wants(t, 400, `unknown field \"tenant\"`, nil)
	r.authorized("PUT", "/v1/rules/99", `{"rate": "60/s"}`, "If-Match: *").wants(t, 404, "no rule 99", nil)
	r.authorized("PUT", path, `{"rate": "5/15m", "for": "2h"}`, "If-Match: "+a.header.Get("ETag")).wants(t, 200, `"rate":"5/15m"`, &changed)
	if until := time.Until(*changed.Rule.Expires); until < 119*time.Minute || until > 121*time.Minute {
		t.Errorf("expires in %v, want 2h", until)
	}
	put(`{"tenant": "key-a", "route": "all", "rate": "1/s"}`).wants(t, 409, "migrate -several", nil)

	// A key and its hash are one tenant.
	put(`{"tenant": "key-h", "route": "all", "rate": "1/s"}`).wants(t, 201, "", &created)
	put(`{"tenant": "`+created.Rule.Tenant+`", "route": "all", "rate": "2/s"}`, "If-Match: *").wants(t, 200, "", &changed)
	if changed.Rule.ID != created.Rule.ID {
		t.Errorf("the hash made another rule: %+v", changed)
	}

	// Two operators at once: one wins.
	version := r.authorized("GET", path, "").wants(t, 200, "", nil).header.Get("ETag")
	var wins, losses int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			a := r.authorized("PUT", path, fmt.Sprintf(`{"rate": "%d/s"}`, i+1), "If-Match: "+version)
			mu.Lock()
			defer mu.Unlock()
			switch a.status {
			case 200:
				wins++
			case 412:
				losses++
			}
		})
	}
	all.Wait()
	if wins != 1 || losses != 5 {
		t.Errorf("%d won and %d lost, want 1 and 5", wins, losses)
	}
	r.authorized("DELETE", path, "").wants(t, 428, "If-Match", nil)
	r.authorized("DELETE", path, "", "If-Match: "+version).wants(t, 412, "", nil)
	r.authorized("DELETE", path, "", "If-Match: *").wants(t, 200, `"in_force":true`, nil)
	r.authorized("DELETE", path, "", "If-Match: *").wants(t, 404, "no such rule", nil)
	r.authorized("GET", path, "").wants(t, 404, "", nil)

	var who string
	if err := d.conn.QueryRow(t.Context(), "SELECT actor FROM rate_limit_rule_history ORDER BY id LIMIT 1").Scan(&who); err != nil || who != "alice by the API from 127.0.0.1" {
		t.Errorf("the history names %q, %v", who, err)
	}
	// The database goes, and the answer says so.
	d.Kill()
	put(`{"tenant": "key-b", "route": "all", "rate": "1/s"}`).wants(t, 503, "the database of the rules does not take it", nil)
	if log := r.log.String(); strings.Contains(log, "key-a") || strings.Contains(log, d.Password) {
		t.Error("the log holds a secret")
	}
}

func TestRulesAPIMistakes(t *testing.T) {
	d := newRulesDB(t)
	r := start(t, d.apiYAML(), "token", testToken)
	for _, tt := range []struct{ body, want string }{
		{``, "want one JSON object"},
		{`{"tenant": "a"`, "ends too early"},
		{`[]`, "want an object"},
		{`{} {}`, "something stands behind"},
		{`{"rate": 5}`, "rate: want a string"},
		{`{"burst": "x-secret"}`, "burst: want a whole number"},
		{`{"tenat": "a"}`, `unknown field \"tenat\"`},
		{`{"route": "r", "rate": "1/s"}`, "tenant: missing: want a value, or * for any"},
		{`{"tenant": "a", "rate": "1/s"}`, "route: missing"},
		{`{"tenant": "a", "route": "r"}`, "rate: missing: want one such as 100/s"},
		{`{"tenant": "a", "route": "r", "rate": "fast"}`, "rate: want an amount per period"},
		{`{"tenant": "a", "route": "r", "rate": "1/s burst 5"}`, "fields of their own"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "burst": -1}`, "burst: -1: want 1 to"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "algorithm": "leaky"}`, "algorithm: unknown"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "limit": "none"}`, "want one of tenant-route, login, everyone"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "burst": 5, "limit": "login"}`, "only token_bucket has a burst"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "for": "soon"}`, "for: "},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "for": "1h", "expires_at": "2099-01-01T00:00:00Z"}`, "want one of them"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "expires_at": "soon"}`, "expires_at: \\\"soon\\\": want a time such as 2026-01-02T15:04:05Z"},
		{`{"tenant": "a", "route": "r", "rate": "1/s", "expires_at": "2001-01-01T00:00:00Z"}`, "it is over"},
		{`{"tenant": "` + strings.Repeat("x", 65) + `", "route": "r", "rate": "1/s"}`, "longer than its column"},
		{`{"tenant": "a\u0000", "route": "r", "rate": "1/s"}`, "tenant: want text in UTF-8 without NUL"},
	} {
		if a := r.authorized("PUT", "/v1/rules", tt.body).wants(t, 400, tt.want, nil); strings.Contains(a.body, "x-secret") {
			t.Errorf("%s: the answer repeats a value", tt.body)
		}
	}
	for _, headers := range [][]string{{`If-Match: abc`}, {`If-Match: W/"abc"`}, {`If-Match: ""`}, {"If-None-Match: \"x\""}, {"If-Match: *", "If-None-Match: *"}} {
		r.authorized("PUT", "/v1/rules", `{"tenant": "a", "route": "r", "rate": "1/s"}`, headers...).wants(t, 400, "If-", nil)
	}
	r.authorized("GET", "/v1/rules/x", "").wants(t, 400, "the number of a rule", nil)
	r.authorized("GET", "/v1/rules?tennant=a", "").wants(t, 400, "unknown parameter", nil)
	r.authorized("GET", "/v1/rules?n=0", "").wants(t, 400, "want a whole number from 1 to 10000", nil)
	r.authorized("GET", "/v1/rules?n=1&n=2", "").wants(t, 400, "stands twice", nil)

	// Names are values, whatever they hold.
	for _, name := range []string{`'; DROP TABLE rate_limit_rule; --`, `"`, `$1`, `a' OR '1'='1`, `%`, "é世"} {
		body, err := json.Marshal(map[string]string{"tenant": name, "route": name, "rate": "1/s"})
		if err != nil {
			t.Fatal(err)
		}
		var made writeAnswer
		r.authorized("PUT", "/v1/rules", string(body)).wants(t, 201, "", &made)
		if made.Rule.Route != name || !made.InForce {
			t.Errorf("%q became %+v", name, made)
		}
	}
	// A table that lacks a column says so.
	if _, err := d.conn.Exec(t.Context(), "ALTER TABLE rate_limit_rule DROP COLUMN period"); err != nil {
		t.Fatal(err)
	}
	r.authorized("PUT", "/v1/rules", `{"tenant": "a", "route": "r", "rate": "5/15m"}`).wants(t, 409, "run sluice rules migrate", nil)
}

func TestListRules(t *testing.T) {
	d := newRulesDB(t)
	for i := range 5 {
		d.set(fmt.Sprintf("key-%d", i), "all", i+1)
	}
	d.set("key-1", "*", 9)
	if _, err := d.conn.Exec(t.Context(), "UPDATE rate_limit_rule SET limit_name = 'gone' WHERE tenant_id = 'key-4'"); err != nil {
		t.Fatal(err)
	}
	r := start(t, d.apiYAML(), "token", testToken)
	var ids []int64
	for after := int64(0); ; {
		var page listAnswer
		a := r.authorized("GET", fmt.Sprintf("/v1/rules?n=4&after=%d", after), "").wants(t, 200, "rate_limit_rule of 127.0.0.1:", &page)
		if strings.Contains(a.body, "key-") || strings.Contains(a.body, d.Password) {
			t.Errorf("the list tells a secret: %s", a.body)
		}
		for _, rule := range page.Rules {
			ids = append(ids, rule.ID)
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	if !slices.Equal(ids, []int64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("rules %d, want 1 to 6", ids)
	}
	var page listAnswer
	r.authorized("GET", "/v1/rules?tenant=key-1", "").wants(t, 200, "", &page)
	if len(page.Rules) != 2 || page.Rules[0].Tenant == "" {
		t.Fatalf("rules of a key: %+v, want 2", page.Rules)
	}
	// The hash that is shown names the tenant as well.
	r.authorized("GET", "/v1/rules?route=all&tenant="+page.Rules[0].Tenant, "").wants(t, 200, "", &page)
	if len(page.Rules) != 1 || page.Rules[0].ID != 2 {
		t.Errorf("rules by a hash: %+v, want rule 2", page.Rules)
	}
	r.authorized("GET", "/v1/rules?limit=gone", "").wants(t, 200, `"problem":"limit_name \"gone\": the configuration has no limit`, nil)
}

// Where nobody tells of changes, the instance that makes one looks.
func TestRulesAPIWithoutTriggers(t *testing.T) {
	d := newRulesDB(t)
	if _, err := d.conn.Exec(t.Context(), "ALTER TABLE rate_limit_rule DISABLE TRIGGER USER"); err != nil {
		t.Fatal(err)
	}
	r := start(t, d.apiYAML(), "token", testToken)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	var made writeAnswer
	r.authorized("PUT", "/v1/rules", `{"tenant": "key-a", "route": "all", "rate": "3/s", "expires_at": "`+at+`"}`).wants(t, 201, `"in_force":true`, &made)
	if made.Rule.Expires == nil || made.Rule.Expires.Format(time.RFC3339) != at {
		t.Errorf("expires %v, want %s", made.Rule.Expires, at)
	}
	r.authorized("DELETE", fmt.Sprintf("/v1/rules/%d", made.Rule.ID), "", "If-Match: *").wants(t, 200, `"in_force":true`, nil)
}

// Of a file the rules are listed, and stay as they are.
func TestFileRulesAPI(t *testing.T) {
	text := strings.Replace((&rulesDB{}).fileYAML(), "DIR", "", 1)
	r := start(t, text, "token", testToken)
	var page listAnswer
	r.authorized("GET", "/v1/rules?n=1", "").wants(t, 200, `"truth":"the file `+r.file, &page)
	if len(page.Rules) != 1 || page.Rules[0].Rate != "7/s" || page.Rules[0].Match["route"][0] != "all" || !strings.HasPrefix(page.Rules[0].Source, r.file+":") {
		t.Errorf("rules of the file: %+v", page)
	}
	r.authorized("GET", fmt.Sprintf("/v1/rules?after=%d", page.Next), "").wants(t, 200, `"unlimited"`, &page)
	r.authorized("GET", "/v1/rules?tenant=key-file", "").wants(t, 200, `"7/s"`, &page)
	if len(page.Rules) != 1 {
		t.Errorf("rules of a tenant: %+v", page)
	}
	for _, tt := range []struct{ method, path string }{{"PUT", "/v1/rules"}, {"PUT", "/v1/rules/1"}, {"DELETE", "/v1/rules/1"}} {
		r.authorized(tt.method, tt.path, `{"rate": "1/s"}`, "If-Match: *").wants(t, http.StatusConflict, "rules stand in the file "+r.file, nil)
	}
}

func (d *rulesDB) fileYAML() string {
	return `limits:
  - name: tenant-route
    key: [tenant, route]
    limit: 10/s
    overrides:
      - {match: {tenant: key-file, route: all}, limit: 7/s}
      - {match: {tenant: free}, limit: unlimited}
identity: {tenant: {header: X-Api-Key}}
gateway: {listen: 127.0.0.1:0, routes: [{id: all, match: /, upstream: "UPSTREAM"}]}
admin: {listen: 127.0.0.1:0, token_file: token}
`
}

// Each status that is described is answered somewhere.
func TestDescribedStatuses(t *testing.T) {
	d := newRulesDB(t)
	d.set("key", "all", 3)
	table := start(t, d.apiYAML(), "token", testToken)
	file := start(t, (&rulesDB{}).fileYAML(), "token", testToken)
	open := start(t, strings.Replace(topYAML, "ADMIN", "127.0.0.1:0", 1))
	seen := make(map[string]bool)
	ask := func(r *running, method, path, body string, headers ...string) {
		t.Helper()
		a := r.call(method, path, body, headers...)
		template, _, _ := described(t).operation(method, path)
		seen[fmt.Sprintf("%s %s %d", method, template, a.status)] = true
	}
	const token = "Authorization: Bearer " + testToken
	large := `{"rate": "` + strings.Repeat("x", maxBody) + `"}`
	for _, route := range adminRoutes() {
		path := strings.Replace(route.path, "{id}", "1", 1)
		query, body := "", ""
		if slices.Contains(route.query, free) {
			query = "?tenant=a"
		}
		switch route.path {
		case "/v1/reset":
			body = `{"attributes": {"tenant": "a", "route": "all"}}`
		case "/v1/rules":
			body = `{"tenant": "a", "route": "r", "rate": "1/s"}`
		case "/v1/rules/{id}":
			body = `{"rate": "1/s"}`
		}
		if route.access != everybody {
			ask(table, route.method, path, "")
			ask(open, route.method, path, "", "Host: elsewhere.example")
			ask(table, route.method, path+"?nonsense=1", "", token)
		}
		ask(table, route.method, path+query, body, token, "If-Match: *")
		ask(table, route.method, path+query, body, token)
		ask(table, route.method, path+query, body, token, `If-Match: "0"`)
		if route.access == writers {
			ask(file, route.method, path, body, token, "If-Match: *")
			ask(table, route.method, path, large, token)
		}
	}
	ask(table, "PUT", "/v1/rules", `{"tenant": "a", "route": "r", "rate": "2/s"}`, token, "If-Match: *")
	ask(table, "PUT", "/v1/rules", `{"tenant": "a", "route": "r", "rate": "2/s"}`, token)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		ask(table, method, "/v1/rules/99", `{"rate": "1/s"}`, token, "If-Match: *")
	}
	d.set("key", "all", 3)
	ask(table, "PUT", "/v1/rules/2", `{"rate": "1/s"}`, token, `If-Match: "0"`)
	ask(table, "DELETE", "/v1/rules/2", "", token, `If-Match: "0"`)
	ask(table, "GET", "/v1/top?limit=none", "", token)
	ask(table, "POST", "/v1/reset", `{"attributes": {"tenant": "a"}}`, token)
	ask(table, "GET", "/v1/explain", "", token)
	ask(table, "GET", "/v1/usage", "", token)
	ask(table, "POST", "/v1/reset", "", token)
	file.health.draining.Store(true)
	ask(file, "GET", "/readyz", "")
	write(t, table.started.Admin.TokenFile, "short")
	for _, route := range adminRoutes() {
		if route.access != everybody {
			ask(table, route.method, strings.Replace(route.path, "{id}", "1", 1), "", token)
		}
	}
	for path, operations := range described(t).Paths {
		for method, op := range operations {
			for status := range op.Responses {
				if name := fmt.Sprintf("%s %s %s", strings.ToUpper(method), path, status); !seen[name] {
					t.Errorf("%s is described, and was not answered", name)
				}
			}
		}
	}
}
