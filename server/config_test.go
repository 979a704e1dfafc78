package server

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/httplimit"
)

// exposed compares configurations by what they say.
var exposed = cmp.Options{
	cmpopts.IgnoreUnexported(Config{}, IdentityConfig{}, AttributeConfig{}, GatewayConfig{}, TLSConfig{}),
	cmpopts.IgnoreFields(Config{}, "Set"),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b *url.URL) bool { return a.String() == b.String() }),
}

const leastYAML = `limits: [{name: a, key: [], limit: 1/s}]
`

func TestDefaults(t *testing.T) {
	got, err := decode(t, leastYAML+`gateway: {listen: "127.0.0.1:0", routes: [{id: a, match: /, upstream: "http://h"}]}
identity: {tenant: {header: X-Tenant}}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Path: "sluice.yaml", Store: "memory", Prefix: "rl", Budget: 5 * time.Millisecond, Instances: 1,
		Identity: IdentityConfig{Attributes: []AttributeConfig{{Name: "tenant", Header: "X-Tenant"}}},
		Gateway: &GatewayConfig{
			Listen:    "127.0.0.1:0",
			Routes:    []gateway.Route{{ID: "a", Match: "/", Upstream: &url.URL{Scheme: "http", Host: "h"}}},
			MaxHeader: 64 << 10, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
			Transport: gateway.TransportOptions{Dial: 5 * time.Second, Response: time.Minute},
		},
		Drain:    DrainConfig{Timeout: 30 * time.Second},
		Warnings: []string{"sluice.yaml:3: identity.tenant: unknown is default and no limit has ip in its key: whoever makes up values has a fresh counter for each; add a limit by ip, or set unknown to ip or 401"},
	}
	if diff := cmp.Diff(want, got, exposed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryField(t *testing.T) {
	dir := t.TempDir()
	cert, key := pair(t, "first")
	write(t, filepath.Join(dir, "cert.pem"), cert)
	write(t, filepath.Join(dir, "key.pem"), key)
	write(t, filepath.Join(dir, "tenants.yaml"), "sha256:"+strings.Repeat("ab", 32)+": shop-a\n")
	write(t, filepath.Join(dir, "hash.key"), strings.Repeat("k", 32)+"\n")
	write(t, filepath.Join(dir, "admin.token"), testToken+"\n")
	file := filepath.Join(dir, "sluice.yaml")
	write(t, file, `store: memory
prefix: shop
max_keys: 5000
budget: 20ms
instances: 20
limits: [{name: a, key: [ip, user], limit: 1/s}]
identity:
  tenant: {header: authorization, required: true, secret: false, keys: tenants.yaml, unknown: "401"}
  user: {header: X-User, secret: true, unknown: ip, lower: true}
  ip: {trusted_proxies: [10.0.0.0/8, 192.0.2.1, "2001:db8::/32"], ipv6_prefix: 56}
  hash_key_file: hash.key
gateway:
  listen: ":8443"
  tls: {cert: cert.pem, key: `+filepath.Join(dir, "key.pem")+`}
  max_body: 10MiB
  max_header: 8KiB
  read_header_timeout: 3s
  idle_timeout: 1m
  dial_timeout: 500ms
  upstream_timeout: 2s
  headers: {x_ratelimit: false, ratelimit: true, jitter: 2s}
  routes:
    - {id: orders, match: POST /orders, upstream: "https://u.example/base"}
    - {id: rpc, match: api.example/, upstream: "h2c://10.0.0.1:9000"}
admin: {listen: ":9090", token_file: admin.token}
drain: {delay: 5s, timeout: 1m}
`)
	got, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Path: file, Store: "memory", Prefix: "shop", MaxKeys: 5000, Budget: 20 * time.Millisecond, Instances: 20,
		Identity: IdentityConfig{
			Addresses: httplimit.Addresses{
				TrustedProxies: []netip.Prefix{
					netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32"),
				},
				IPv6Prefix: 56,
			},
			Attributes: []AttributeConfig{
				{
					Name: "tenant", Header: "authorization", Required: true, Secret: httplimit.NotSecret,
					KeysFile: filepath.Join(dir, "tenants.yaml"), Unknown: httplimit.UnknownRefused,
				},
				{Name: "user", Header: "X-User", Secret: httplimit.Secret, Unknown: httplimit.UnknownAddressed, Lower: true},
			},
			HashKeyFile: filepath.Join(dir, "hash.key"),
		},
		Gateway: &GatewayConfig{
			Listen: ":8443",
			Routes: []gateway.Route{
				{ID: "orders", Match: "POST /orders", Upstream: &url.URL{Scheme: "https", Host: "u.example", Path: "/base"}},
				{ID: "rpc", Match: "api.example/", Upstream: &url.URL{Scheme: "h2c", Host: "10.0.0.1:9000"}},
			},
			TLS:     TLSConfig{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")},
			MaxBody: 10 << 20, MaxHeader: 8 << 10, ReadHeaderTimeout: 3 * time.Second, IdleTimeout: time.Minute,
			Transport: gateway.TransportOptions{Dial: 500 * time.Millisecond, Response: 2 * time.Second},
			Headers:   HeaderConfig{HideXRateLimit: true, Jitter: 2 * time.Second},
		},
		Admin: AdminConfig{Listen: ":9090", TokenFile: filepath.Join(dir, "admin.token")},
		Drain: DrainConfig{Delay: 5 * time.Second, Timeout: time.Minute},
	}
	if diff := cmp.Diff(want, got, exposed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorsNameFileLineAndField(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown field", "stoer: memory\n", `sluice.yaml:1: stoer: unknown field: did you mean store?`},
		{"store", "store: mysql://root:pw@h/\n", `sluice.yaml:1: store: want memory or a URL: it must begin with redis://, rediss://, redis+cluster:// or redis+sentinel://`},
		{"prefix", "prefix: '{a}'\n", `sluice.yaml:1: prefix: "{a}": want`},
		{"max_keys", "max_keys: 0\n", `sluice.yaml:1: max_keys: `},
		{"budget", "budget: 1m\n", `sluice.yaml:1: budget: `},
		{"instances", "instances: many\n", `sluice.yaml:1: instances: `},
		{"no limits", "store: memory\n", `limits: missing: want a list of limits`},
		{"limit", "limits: [{name: a, key: [], limit: 1}]\n", `sluice.yaml:1: limits[0].limit: `},
		{"attribute", "limits: [{name: a, key: [tenat], limit: 1/s}]\nidentity: {tenant: {header: T}}\ngateway: {listen: ':1', routes: []}\n", `sluice.yaml:1: limits[0].key[0]: unknown attribute "tenat": did you mean tenant?`},
		{"header missing", "identity: {tenant: {required: true}}\n", `sluice.yaml:1: identity.tenant.header: missing: want the header`},
		{"header", "identity: {tenant: {header: 'X Y'}}\n", `sluice.yaml:1: identity.tenant.header: "X Y": want a header's name`},
		{"identity name", "identity: {path: {header: X}}\n", `sluice.yaml:1: identity.path: path is read from the request`},
		{"unknown", "identity: {tenant: {header: X, unknown: deny}}\n", `sluice.yaml:1: identity.tenant.unknown: unknown "deny": want default, ip or 401`},
		{"required", "identity: {tenant: {header: X, required: maybe}}\n", `sluice.yaml:1: identity.tenant.required: `},
		{"keys missing", "identity: {tenant: {header: X, keys: none.yaml}}\n", `none.yaml: no such file or directory: want a file that can be read`},
		{"hash key missing", "identity:\n  hash_key_file: none\n", `sluice.yaml:2: identity.hash_key_file: `},
		{"proxies", "identity: {ip: {trusted_proxies: [10.0.0]}}\n", `sluice.yaml:1: identity.ip.trusted_proxies: "10.0.0": want a network`},
		{"ipv6 prefix", "identity: {ip: {ipv6_prefix: 129}}\n", `sluice.yaml:1: identity.ip.ipv6_prefix: `},
		{"listen missing", "gateway: {routes: []}\n", `sluice.yaml:1: gateway.listen: missing: want an address`},
		{"listen", "gateway: {listen: 8080}\n", `sluice.yaml:1: gateway.listen: "8080": want an address with a port`},
		{"port", "gateway: {listen: ':80800'}\n", `sluice.yaml:1: gateway.listen: ":80800": want`},
		{"routes missing", "gateway: {listen: ':1'}\n", `sluice.yaml:1: gateway.routes: missing: want a list of routes`},
		{"route fields", "gateway:\n  routes:\n    - {id: a}\n", `sluice.yaml:3: gateway.routes[0].match: missing`},
		{"route id twice", "gateway:\n  routes:\n    - {id: a, match: /a, upstream: 'http://h'}\n    - {id: a, match: /b, upstream: 'http://h'}\n", `sluice.yaml:4: gateway.routes[1].id: "a" is the id of gateway.routes[0] (sluice.yaml:3) already: want another`},
		{"conflict", "gateway:\n  routes:\n    - {id: a, match: /a, upstream: 'http://h'}\n    - {id: b, match: /a, upstream: 'http://h'}\n", `sluice.yaml:4: gateway.routes[1].match: pattern "/a" is that of gateway.routes[0] (sluice.yaml:3) already: want another`},
		{"conflict of two", "gateway:\n  routes:\n    - {id: z, match: '/{', upstream: 'http://h'}\n    - {id: a, match: '/a/{x}', upstream: 'http://h'}\n    - {id: b, match: '/{x}/b', upstream: 'http://h'}\n", `sluice.yaml:5: gateway.routes[2].match: pattern "/{x}/b" is in conflict with "/a/{x}" of gateway.routes[1] (sluice.yaml:4): `},
		{"the same in other words", "gateway:\n  routes:\n    - {id: a, match: '/a/{x}', upstream: 'http://h'}\n    - {id: b, match: '/a/{y}', upstream: 'http://h'}\n", `sluice.yaml:4: gateway.routes[1].match: pattern "/a/{y}" is in conflict with "/a/{x}" of gateway.routes[0] (sluice.yaml:3): /a/{y} matches the same requests as /a/{x}: want another`},
		{"pattern", "gateway: {routes: [{id: a, match: orders, upstream: 'http://h'}]}\n", `gateway.routes[0].match: pattern "orders": `},
		{"upstream", "gateway: {routes: [{id: a, match: /, upstream: 'localhost:90'}]}\n", `gateway.routes[0].upstream: "localhost:90": want a URL`},
		{"upstream's password", "gateway: {routes: [{id: a, match: /, upstream: 'http://u:hunter2@h'}]}\n", `gateway.routes[0].upstream: want a URL without a user`},
		{"upstream's query", "gateway: {routes: [{id: a, match: /, upstream: 'http://h/?a=b'}]}\n", `gateway.routes[0].upstream: "http://h/?a=b": want a URL that ends with its path`},
		{"tls", "gateway: {tls: {cert: none}}\n", `gateway.tls.key: missing: want a file`},
		{"max_body", "gateway: {max_body: big}\n", `gateway.max_body: "big": want a size`},
		{"max_header", "gateway: {max_header: 1}\n", `gateway.max_header: `},
		{"timeouts", "gateway: {read_header_timeout: 0}\n", `gateway.read_header_timeout: `},
		{"headers", "gateway: {headers: {xratelimit: false}}\n", `gateway.headers.xratelimit: unknown field: did you mean x_ratelimit?`},
		{"admin", "admin: {listen: x}\n", `sluice.yaml:1: admin.listen: "x": want`},
		{"drain", "drain: {timeout: -1s}\n", `sluice.yaml:1: drain.timeout: `},
		{"list for a mapping", "gateway: []\n", `sluice.yaml:1: gateway: `},
		{"empty", "", `sluice.yaml:1: the file is empty`},
		{"no yaml", "a: [", `sluice.yaml:1: `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(t, tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v\nwant %q in it", err, tt.want)
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "sluice.yaml:") {
					t.Errorf("line %q does not begin with its place", line)
				}
			}
			if strings.Contains(err.Error(), "pw@") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q tells a password", err)
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	_, err := decode(t, `stor: memory
limits:
  - {name: a, kee: [], limit: fast}
identity:
  tenant: {header: X, unknown: maybe}
gateway:
  listen: nowhere
  routes:
    - {id: a, match: a, upstream: b}
drain: {timeout: soon}
`)
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{"1: stor:", "3: limits[0].kee:", "3: limits[0].limit:", "5: identity.tenant.unknown:", "7: gateway.listen:", "9: gateway.routes[0].match:", "9: gateway.routes[0].upstream:", "10: drain.timeout:"}
	for _, place := range want {
		if strings.Count(err.Error(), "sluice.yaml:"+place) != 1 {
			t.Errorf("%q stands not once in\n%v", place, err)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != len(want) {
		t.Errorf("%d lines, want %d:\n%v", got, len(want), err)
	}
}

// A value of a wrong kind is told once, and nothing that follows from it.
func TestMistakesAreToldOnce(t *testing.T) {
	_, err := decode(t, `limits: [{name: a, key: [user], limit: 1/s}]
identity: [x]
gateway:
  listen: [x]
  tls: {cert: [x], key: {}}
  routes:
    - {id: {a: b}, match: [x], upstream: [y]}
    - {id: q, mach: /x, upstream: }
    - x
admin: {listn: x}
store: [x]
`)
	want := `sluice.yaml:2: identity: want fields, each as "name: value", not a list
sluice.yaml:4: gateway.listen: want an address with a port, such as :8080 or 127.0.0.1:9090, not a list
sluice.yaml:5: gateway.tls.cert: want the name of a file, not a list
sluice.yaml:5: gateway.tls.key: want the name of a file, not a mapping
sluice.yaml:7: gateway.routes[0].id: want a name such as create-order, not a mapping
sluice.yaml:7: gateway.routes[0].match: want a pattern such as POST /orders, not a list
sluice.yaml:7: gateway.routes[0].upstream: want a URL such as http://127.0.0.1:9001, not a list
sluice.yaml:8: gateway.routes[1].mach: unknown field: did you mean match?
sluice.yaml:8: gateway.routes[1].upstream: has no value: want a URL such as http://127.0.0.1:9001, or leave the field out
sluice.yaml:9: gateway.routes[2]: want fields, each as "name: value", not a single value
sluice.yaml:10: admin.listn: unknown field: did you mean listen?
sluice.yaml:11: store: want text, not a list`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = decode(t, "limits: [{name: a, key: [user], limit: 1/s}]\nidentiy: {user: {header: [X]}}\ngateway: {listen: ':1', routes: []}\n")
	if want := "sluice.yaml:2: identiy: unknown field: did you mean identity?"; fmt.Sprint(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = decode(t, leastYAML+"identity: {user: {header: [X], keys: [x]}}\n")
	if want := "sluice.yaml:2: identity.user.header: want text, not a list\nsluice.yaml:2: identity.user.keys: want the name of a file, not a list"; fmt.Sprint(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestLoadMissing(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "none.yaml: no such file or directory",
		dir:                             dir + ": is a directory",
	} {
		if _, err := Load(path); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Load(%s) = %v, want %q", path, err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	const gatewayYAML = "gateway: {listen: '%', routes: [{id: a, match: /, upstream: 'http://h'}]}\n"
	tests := []struct{ name, text, want string }{
		{"made up values", leastYAML + "identity: {tenant: {header: X}}\n", "identity.tenant: unknown is default"},
		{"they cannot be", leastYAML + "identity: {tenant: {header: X, unknown: ip}}\n", ""},
		{"a limit by ip", "limits: [{name: a, key: [ip], limit: 1/s}]\nidentity: {tenant: {header: X}}\n", ""},
		{"no proxies", "limits: [{name: a, key: [ip], limit: 1/s}]\n" + strings.Replace(gatewayYAML, "%", ":80", 1), "sluice.yaml:2: identity.ip: no trusted_proxies"},
		{"only this machine", "limits: [{name: a, key: [ip], limit: 1/s}]\n" + strings.Replace(gatewayYAML, "%", "127.0.0.1:80", 1), ""},
		{"no such route", "limits: [{name: a, key: [], limit: 1/s, match: {route: [a, creat]}}]\n" + strings.Replace(gatewayYAML, "%", "127.0.0.1:80", 1), `sluice.yaml:1: limits[0].match: route: "creat" never matches: no route of the gateway has this id`},
		{"a route", "limits: [{name: a, key: [], limit: 1/s, match: {route: [a, 'b*']}}]\n" + strings.Replace(gatewayYAML, "%", "127.0.0.1:80", 1), ""},
		{"routes of a log", "limits: [{name: a, key: [], limit: 1/s, match: {route: creat}}]\n", ""},
		{"one IPv6 address", "limits: [{name: a, key: [ip], limit: 1/s, overrides: [{match: {ip: '2001:db8::1'}, limit: 2/s}]}]\n", `limits[0].overrides[0].match: ip: "2001:db8::1" never matches: IPv6 clients are told apart by 64 bits: want 2001:db8::/64, or a larger identity.ip.ipv6_prefix`},
		{"a narrow IPv6 network", "limits: [{name: a, key: [ip], limit: 1/s, match: {ip: '2001:db8::/96'}}]\n", "want 2001:db8::/64"},
		{"single IPv6 addresses", "limits: [{name: a, key: [ip], limit: 1/s, match: {ip: '2001:db8::1'}}]\nidentity: {ip: {ipv6_prefix: 128}}\n", ""},
		{"addresses", "limits: [{name: a, key: [ip], limit: 1/s, match: {ip: ['2001:db8::/64', 192.0.2.1, '::ffff:192.0.2.2', 10.0.0.0/8, '2001:*', unknown]}}]\n", ""},
		{"a path", "limits: [{name: a, key: [], limit: 1/s, match: {path: orders}}]\n", "paths begin with /"},
		{"a method", "limits: [{name: a, key: [], limit: 1/s, match: {method: [GET, post]}}]\n", `"post" never matches: want POST`},
		{"of a limit", "limits: [{name: a, key: [], limit: 900001/s}]\n", "sluice.yaml:1: "},
	}
	for _, tt := range tests {
		c, err := decode(t, tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := strings.Join(c.Warnings, "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: warnings %q, want %q in them", tt.name, got, tt.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(leastYAML)
	f.Add(demoYAML)
	f.Add("identity: {a: {header: X, keys: x}}\ngateway: {routes: [{}, {match: /}]}\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "..") || strings.Contains(text, "/dev") || strings.Contains(text, "/proc") {
			return // no reading of what never ends
		}
		d := decoder{dir: dir}
		c, err := d.parse("sluice.yaml", []byte(text))
		if err == nil && c.Set == nil {
			t.Error("a configuration without limits or an error")
		}
	})
}

func ExampleLoad() {
	_, err := Load(filepath.Join("testdata", "mistyped.yaml"))
	os.Stdout.WriteString(err.Error())
	// Output:
	// testdata/mistyped.yaml:1: prefx: unknown field: did you mean prefix?
	// testdata/mistyped.yaml:5: gateway.listen: "8080": want an address with a port, such as :8080 or 127.0.0.1:9090
}
