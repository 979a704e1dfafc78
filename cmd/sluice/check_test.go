package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckTable(t *testing.T) {
	path := file(t, "shop.yaml", shopYAML)
	out, errs := wantRun(t, 0, "allowed\n", "", "check", "-c", path, "tenant=shop-a", "route=create-order", "method=POST", "ip=192.0.2.1")
	for _, want := range []string{"tenant-route", "100/s", "200", "199", "{tenant: shop-a, route: create-order} (" + path + ":7)", "by-ip", "allowed (shadow)", "5/15m"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if errs != "" {
		t.Errorf("stderr %q", errs)
	}
	wantRun(t, 0, "unlimited", "", "check", "-c", path, "tenant=free")
	wantRun(t, 0, "allowed: no limit matches", "", "check", "-c", file(t, "one.yaml", "limits: [{name: a, match: {route: login}, key: [], limit: 1/s}]\n"), "route=other")
}

// The names of the fields are a promise to programs.
func TestCheckJSON(t *testing.T) {
	path := file(t, "shop.yaml", shopYAML)
	for _, flag := range []string{"--json", "-json"} {
		out, _ := wantRun(t, 0, "", "", "check", "-c", path, flag, "tenant=shop-a", "route=create-order", "method=POST", "ip=192.0.2.1", "n=3")
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		want := map[string]any{
			"allowed": true,
			"limits": []any{
				map[string]any{
					"name": "tenant-route", "rule": "{tenant: shop-a, route: create-order} (" + path + ":7)",
					"key": "tenant-route|tenant=shop-a|route=create-order", "limit": "100/s", "burst": 200.0,
					"algorithm": "token_bucket", "cost": 3.0, "allowed": true, "remaining": 197.0, "retry_after_ms": 0.0,
				},
				map[string]any{
					"name": "by-ip", "rule": "default (" + path + ":9)", "key": "by-ip|ip=192.0.2.1", "limit": "5/15m", "burst": 5.0,
					"algorithm": "sliding_log", "cost": 3.0, "allowed": true, "shadow": true, "remaining": 2.0, "retry_after_ms": 0.0,
				},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", flag, diff)
		}
	}
}

func TestCheckSaysWhatIsOdd(t *testing.T) {
	path := file(t, "shop.yaml", shopYAML+"identity: {tenant: {header: X-Api-Key, required: true, unknown: ip}, user: {header: U}}\n")
	wantRun(t, 0, "", "warning: no limit looks at tennant: did you mean tenant?\nwarning: tenant is required: a gateway would answer 401", "check", "-c", path, "tennant=a")
	wantRun(t, 1, "", "a gateway would answer 400: limit \"tenant-route\": the request costs more than the 20 tokens", "check", "-c", path, "tenant=a", "n=21")
	wantRun(t, 1, "", "none.yaml: no such file or directory", "check", "-c", "none.yaml", "tenant=a")
}

// Values are those that people know; what limits see of them is the program's
// affair.
func TestCheckTakesValuesAsWritten(t *testing.T) {
	path := file(t, "secret.yaml", `limits:
  - name: a
    key: [tenant, ip]
    limit: 1/s
    overrides: [{match: {tenant: s3cr3t}, limit: 7/s}]
identity: {tenant: {header: X-Api-Key, unknown: ip}, ip: {ipv6_prefix: 56}}
`)
	out, errs := wantRun(t, 0, "7/s", "", "check", "-c", path, "tenant=s3cr3t", "ip=2001:db8::1")
	if strings.Contains(out+errs, "s3cr3t") || !strings.Contains(out, "2001:db8::/56") {
		t.Errorf("stdout %s, stderr %s: want the address's network and no secret", out, errs)
	}
}
