package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-limiter/sluice/servers"
)

func TestExplainAPI(t *testing.T) {
	d := newRulesDB(t)
	d.set("key-file", "all", 3)
	d.set("key-file", "*", 4)
	r := start(t, d.apiYAML(), "token", testToken)
	var x explainAnswer
	a := r.authorized("GET", "/v1/explain?tenant=key-file&route=all", "").wants(t, 200, "", &x)
	if strings.Contains(a.body, "key-file") {
		t.Errorf("the answer repeats a key: %s", a.body)
	}
	if len(x.Limits) != 3 || !x.Limits[0].Met || x.Limits[0].Winner.From != "row" || x.Limits[0].Winner.Burst != 3 || !strings.HasPrefix(x.Limits[0].Key, "tenant-route|tenant=") {
		t.Fatalf("explained %s", a.body)
	}
	if lost := x.Limits[0].Lost; len(lost) != 2 || lost[0].From != "override" || lost[0].Rate != "7/s" || lost[1].From != "row" || lost[1].ID != 2 {
		t.Errorf("lost %+v", lost)
	}
	if x.Limits[1].Met || !slices.Equal(x.Limits[1].Unmet, []string{"route"}) || x.Limits[2].Winner.From != "default" {
		t.Errorf("limits %+v", x.Limits[1:])
	}
	// The hash that is shown stands for the key.
	r.authorized("GET", "/v1/explain?route=all&tenant="+x.Attributes["tenant"], "").wants(t, 200, `"from":"row","why":"it matches the most attributes: tenant, route"`, nil)
	r.authorized("GET", "/v1/explain", "").wants(t, 400, "no attribute is given", nil)
	r.authorized("GET", "/v1/explain?tennant=sesame", "").wants(t, 400, "did you mean tenant?", nil)
	r.authorized("GET", "/v1/explain?ip=nowhere", "").wants(t, 400, "want an address", nil)
	if log := r.log.String(); strings.Contains(log, "key-file") || strings.Contains(log, "sesame") {
		t.Error("the log holds a key")
	}
}

func TestUsageAndReset(t *testing.T) {
	r := start(t, strings.Replace((&rulesDB{}).fileYAML(), "limits:", "limits:\n  - {name: everyone, key: [], limit: 100/h}", 1), "token", testToken)
	r.statuses(3, "/", "X-Api-Key: key-a")
	left := func() (everyone, own int64) {
		t.Helper()
		var u usageAnswer
		r.authorized("GET", "/v1/usage?tenant=key-a&route=all", "").wants(t, 200, `"source":"store"`, &u)
		if len(u.Limits) != 2 {
			t.Fatalf("usage %+v", u)
		}
		return u.Limits[0].Remaining, u.Limits[1].Remaining
	}
	if everyone, own := left(); everyone != 97 || own > 9 {
		t.Errorf("%d and %d left, want 97 and at most 9", everyone, own)
	}
	if everyone, _ := left(); everyone != 97 {
		t.Errorf("a look took tokens: %d left", everyone)
	}
	var done resetAnswer
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "key-a", "route": "all"}}`).wants(t, 200, `"limit":"tenant-route"`, &done)
	if everyone, own := left(); everyone != 97 || own != 10 || len(done.Reset) != 1 {
		t.Errorf("%d and %d left after a reset of %+v, want 97 and 10", everyone, own, done)
	}
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "key-a"}, "limit": "everyone"}`).wants(t, 200, `"key":"everyone"`, nil)
	if everyone, _ := left(); everyone != 100 {
		t.Errorf("%d left of the limit of all, want 100", everyone)
	}
	r.authorized("GET", "/v1/usage?tenant=free&route=all", "").wants(t, 200, `"rate":"unlimited"`, nil)
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "key-a"}}`).wants(t, 404, "no counter is kept by these attributes", nil)
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "key-a"}, "limit": "x"}`).wants(t, 404, "no counter is kept by these attributes", nil)
	r.authorized("POST", "/v1/reset", `{"attributes": {"nobody": "key-a"}}`).wants(t, 400, "attributes: ", nil)
	r.authorized("POST", "/v1/reset", `{}`).wants(t, 400, "no attribute is given", nil)
	if strings.Contains(r.log.String(), "key-a") {
		t.Error("the log holds a key")
	}
}

// A reset of several counters is asked for, and goes through all layers.
func TestResetThroughStack(t *testing.T) {
	p, err := servers.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	r := start(t, `store: redis://`+p.Addr+`
budget: 2s
limits:
  - {name: hourly, key: [tenant], limit: 2/h}
  - {name: daily, key: [tenant], limit: 4/day, tolerance: 50%, shards: 2}
identity: {tenant: {header: X-Tenant}}
gateway: {listen: 127.0.0.1:0, routes: [{id: all, match: /, upstream: "UPSTREAM"}]}
admin: {listen: 127.0.0.1:0, token_file: token}
`, "token", testToken)
	if got := r.statuses(4, "/", "X-Tenant: a"); !slices.Equal(got, []int{200, 200, 429, 429}) {
		t.Fatalf("statuses %d", got)
	}
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "a"}}`).wants(t, 400, "limit: several count by these attributes, hourly, daily: want one of them, or * for all", nil)
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "a"}, "limit": "hourly"}`).wants(t, 200, `[{"limit":"hourly","key":"hourly|tenant=a"}]`, nil)
	if got := r.statuses(3, "/", "X-Tenant: a"); !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("statuses %d after a reset of one", got)
	}
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "a"}, "limit": "*"}`).wants(t, 200, "daily", nil)
	if got := r.statuses(3, "/", "X-Tenant: a"); !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("statuses %d after a reset of all", got)
	}
	p.Kill()
	r.authorized("POST", "/v1/reset", `{"attributes": {"tenant": "a"}, "limit": "*"}`).wants(t, 503, "the store does not answer", nil)
	r.authorized("GET", "/v1/usage?tenant=a", "").wants(t, 200, `"source":"fallback"`, nil)
}
