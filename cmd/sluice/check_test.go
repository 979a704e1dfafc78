package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	wantRun(t, 1, "refused: a gateway would answer 401: tenant is required and missing; the limits that do not need it are charged before\n", "warning: no limit looks at tennant: did you mean tenant?\n", "check", "-c", path, "tennant=a")
	wantRun(t, 1, "refused: a gateway would answer 400: limit \"tenant-route\": the request costs more than the 20 tokens", "", "check", "-c", path, "tenant=a", "n=21")
	for _, ip := range []string{"bad", "", "10.0.0.0/8", "2001:db8::1/64", "1.2.3.4:80"} {
		out, _ := wantRun(t, 2, "", "ip="+ip+": want an address such as 192.0.2.7 or 2001:db8::1", "check", "-c", path, "tenant=a", "ip="+ip)
		if out != "" {
			t.Errorf("ip=%s: stdout %q", ip, out)
		}
	}
	for _, ip := range []string{"unknown", "::ffff:192.0.2.1", "2001:db8::/64"} {
		wantRun(t, 0, "allowed", "", "check", "-c", path, "tenant=a", "method=POST", "ip="+ip)
	}
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

// A request that is answered 400 is told with the limits that it meets, none of
// them charged.
func TestCheckJSONOfACostThatNeverPasses(t *testing.T) {
	path := file(t, "cost.yaml", `limits:
  - {name: small, key: [tenant], limit: 10/s, cost: {header: X-Cost, max: 50}}
  - {name: large, key: [tenant], limit: 100/s}
  - {name: watch, key: [tenant], limit: 5/s, shadow: true}
`)
	for words, want := range map[string]string{
		"n=11":             "the request costs more than the 10 tokens",
		"header:X-Cost=51": "want a whole number from 1 to 50",
	} {
		out, errs := wantRun(t, 1, "", "", "check", "-c", path, "-json", "tenant=a", words)
		var got checkAnswer
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if got.Allowed || !strings.Contains(got.Error, "would answer 400") || !strings.Contains(got.Error, want) || errs != "" {
			t.Errorf("%s: %s, stderr %q, want %q", words, out, errs, want)
		}
		var limits []string
		for _, l := range got.Limits {
			limits = append(limits, fmt.Sprintf("%s %v %v %d", l.Name, l.Allowed, l.Shadow, l.Remaining))
		}
		if len(limits) != 3 || limits[0] != "small false false 10" || limits[1] != "large true false 100" || got.Limits[2].Remaining != 5 || !got.Limits[2].Shadow {
			t.Errorf("%s: limits %q", words, limits)
		}
	}
}

// What becomes of a tenant that the keys file does not name is the gateway's
// affair, and no key is shown.
func TestCheckTellsWhatAGatewayMakesOfIdentities(t *testing.T) {
	const raw = "raw-s3cr3t"
	sum := sha256.Sum256([]byte(raw))
	check := func(unknown string, code int, stdoutHas, stderrHas string, words ...string) string {
		t.Helper()
		path := file(t, "c.yaml", `limits:
  - {name: by-tenant, key: [tenant], limit: 2/s, overrides: [{match: {tenant: shop-a}, limit: 7/s}]}
  - {name: by-ip, key: [ip], limit: 5/s}
  - {name: raw, key: ["header:X-Shop-Key"], limit: 9/s}
identity: {tenant: {header: X-Shop-Key, secret: true, keys: keys.yaml, unknown: `+unknown+`}}
`)
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "keys.yaml"), []byte(hex.EncodeToString(sum[:])+": shop-a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs := wantRun(t, code, stdoutHas, stderrHas, append([]string{"check", "-c", path}, words...)...)
		if strings.Contains(out+errs, "s3cr3t") {
			t.Errorf("%v: a key is shown\n%s%s", words, out, errs)
		}
		return out
	}
	for _, unknown := range []string{"ip", "'401'", "default"} {
		for _, given := range []string{"tenant=shop-a", "tenant=" + raw} {
			check(unknown, 0, "by-tenant|tenant=shop-a", "", given, "ip=192.0.2.1", "header:X-Shop-Key="+raw)
		}
	}
	check("ip", 0, "by-tenant|tenant=ip:192.0.2.1", "a gateway counts the request by its address, as ip:192.0.2.1\n", "tenant=other-s3cr3t", "ip=192.0.2.1")
	check("ip", 0, "by-tenant|tenant=ip:192.0.2.1", "note: tenant is not given: ", "ip=192.0.2.1")
	check("ip", 0, "by-tenant|tenant=ip:unknown", "since no ip is given", "tenant=other-s3cr3t")
	check("default", 0, "by-tenant|tenant=key:", "a gateway counts it by itself", "tenant=key:other-s3cr3t", "ip=192.0.2.1")
	out := check("'401'", 1, "refused: a gateway would answer 401: tenant key:", "", "tenant=other-s3cr3t", "ip=192.0.2.1")
	if strings.Contains(out, "by-tenant") || !strings.Contains(out, "by-ip|ip=192.0.2.1") {
		t.Errorf("want the limit by ip and not that by tenant:\n%s", out)
	}
	out = check("'401'", 1, `{"allowed":false,"error":"a gateway would answer 401: tenant key:`, "", "tenant=other-s3cr3t", "ip=192.0.2.1", "-json")
	if !strings.Contains(out, `"name":"by-ip"`) {
		t.Errorf("JSON %s: want the limit that is charged before", out)
	}
}
