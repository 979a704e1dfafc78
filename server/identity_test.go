package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gatewayYAML is a gateway whose one route takes everything.
const gatewayYAML = `
gateway:
  listen: 127.0.0.1:0
  routes: [{id: all, match: /, upstream: "UPSTREAM"}]
`

func wantStatuses(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: statuses %v, want %v", what, got, want)
	}
}

// The limit by address holds for those whom nobody knows too: they must not be
// able to ask for a 401 as often as they like.
func TestLimitsByAddressAreChargedBeforeThe401(t *testing.T) {
	s := start(t, `
limits:
  - {name: by-ip, key: [ip], limit: 3/h}
  - {name: by-tenant, key: [tenant], limit: 1/h}
identity: {tenant: {header: X-Api-Key, required: true}}
`+gatewayYAML)
	res, body := s.body("/")
	if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") == "" || !strings.Contains(body, `"status":401`) {
		t.Errorf("status %d, WWW-Authenticate %q, body %s", res.StatusCode, res.Header.Get("WWW-Authenticate"), body)
	}
	if got := res.Header.Get("X-RateLimit-Remaining"); got != "2" {
		t.Errorf("X-RateLimit-Remaining = %q, want 2: the address was charged", got)
	}
	wantStatuses(t, "with a key", s.statuses(2, "/", "X-Api-Key: k1"), 200, 429)
	// A refused call took nothing from the address.
	wantStatuses(t, "without", s.statuses(2, "/"), 401, 429)
}

func TestUnknownIdentities(t *testing.T) {
	const limits = `
limits:
  - name: by-tenant
    key: [tenant]
    limit: 2/h
    overrides:
      - {match: {tenant: known-key}, limit: 3/h}
      - {match: {tenant: "shop-*"}, limit: 4/h}
`
	identity := func(unknown string) string {
		return "identity: {tenant: {header: X-Api-Key, unknown: " + unknown + "}}\n"
	}
	t.Run("ip", func(t *testing.T) {
		s := start(t, limits+identity("ip")+gatewayYAML)
		// However many keys are made up, they are one address.
		for n, want := range []int{200, 200, 429, 429} {
			if got := s.get("/", fmt.Sprint("X-Api-Key: made-up-", n)).StatusCode; got != want {
				t.Errorf("made up key %d: %d, want %d", n, got, want)
			}
		}
		wantStatuses(t, "none", s.statuses(1, "/"), 429)
		wantStatuses(t, "a known key", s.statuses(4, "/", "X-Api-Key: known-key"), 200, 200, 200, 429)
		// Who writes the pattern is not named by it.
		wantStatuses(t, "the pattern's text", s.statuses(1, "/", "X-Api-Key: shop-*"), 429)
	})
	t.Run("401", func(t *testing.T) {
		s := start(t, limits+identity(`"401"`)+gatewayYAML)
		wantStatuses(t, "a made up key", s.statuses(1, "/", "X-Api-Key: made-up"), 401)
		wantStatuses(t, "the pattern's text", s.statuses(1, "/", "X-Api-Key: shop-*"), 401)
		wantStatuses(t, "a known key", s.statuses(4, "/", "X-Api-Key: known-key"), 200, 200, 200, 429)
	})
	t.Run("401, not secret", func(t *testing.T) {
		s := start(t, limits+"identity: {tenant: {header: X-Tenant, unknown: \"401\"}}\n"+gatewayYAML)
		// A pattern names nobody, least of all who writes it down.
		wantStatuses(t, "the pattern's text", s.statuses(1, "/", "X-Tenant: shop-*"), 401)
		wantStatuses(t, "what it matches", s.statuses(1, "/", "X-Tenant: shop-a"), 401)
		wantStatuses(t, "a known name", s.statuses(1, "/", "X-Tenant: known-key"), 200)
	})
	t.Run("default", func(t *testing.T) {
		s := start(t, limits+identity("default")+gatewayYAML)
		wantStatuses(t, "one key", s.statuses(3, "/", "X-Api-Key: one"), 200, 200, 429)
		wantStatuses(t, "another", s.statuses(3, "/", "X-Api-Key: two"), 200, 200, 429)
		wantStatuses(t, "none", s.statuses(3, "/"), 200, 200, 429)
	})
}

// G103: a tenant that calls itself by an address must not share its counter.
func TestTenantNamedLikeAnAddress(t *testing.T) {
	s := start(t, `
limits: [{name: by-tenant, key: [tenant], limit: 1/h}]
identity: {tenant: {header: X-Tenant, unknown: ip}}
`+gatewayYAML)
	wantStatuses(t, "by address", s.statuses(2, "/"), 200, 429)
	s = start(t, `
limits: [{name: by-tenant, key: [tenant], limit: 1/h}]
identity: {tenant: {header: X-Tenant}}
`+gatewayYAML)
	for _, name := range []string{"127.0.0.1", "ip:127.0.0.1", "value:ip:127.0.0.1", "key:00", "value:"} {
		wantStatuses(t, name, s.statuses(2, "/", "X-Tenant: "+name), 200, 429)
	}
}

func TestKeysFile(t *testing.T) {
	sum := sha256.Sum256([]byte("s3cr3t"))
	dir := t.TempDir()
	keys := filepath.Join(dir, "tenants.yaml")
	write(t, keys, hex.EncodeToString(sum[:])+": shop-a\n")
	s := start(t, `
limits:
  - name: by-tenant
    key: [tenant]
    limit: 1/h
    overrides: [{match: {tenant: shop-a}, limit: 2/h}]
identity: {tenant: {header: X-Api-Key, required: true, unknown: "401", keys: "`+keys+`"}}
`+gatewayYAML)
	wantStatuses(t, "by key", s.statuses(3, "/", "X-Api-Key: s3cr3t"), 200, 200, 429)
	// The name is no key: who knows it is not let in by it.
	wantStatuses(t, "by name", s.statuses(1, "/", "X-Api-Key: shop-a"), 401)

	other := sha256.Sum256([]byte("n3w"))
	replace(t, keys, hex.EncodeToString(other[:])+": shop-a\n")
	s.waitLog("configuration reloaded", 1)
	wantStatuses(t, "the old key", s.statuses(1, "/", "X-Api-Key: s3cr3t"), 401)
	wantStatuses(t, "the new key of the same tenant", s.statuses(1, "/", "X-Api-Key: n3w"), 429)
}

func TestKeysFileErrors(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(dir, "tenants.yaml")
	write(t, keys, "my-secret-api-key-1234: shop-a\nother-secret-key-98765: [x]\nmy-secret-api-key-1234: shop-b\n")
	file := filepath.Join(dir, "sluice.yaml")
	write(t, file, leastYAML+"identity: {tenant: {header: X-Api-Key, keys: tenants.yaml}}\n")
	_, err := Load(file)
	if err == nil || !strings.Contains(err.Error(), "sluice.yaml:2: identity.tenant.keys: ") || !strings.Contains(err.Error(), "64 hex digits") {
		t.Errorf("error %v", err)
	}
	for at := range 60 { // nor by a slip of the pen
		for _, secret := range []string{"secret-api", "secret-key"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Fatalf("error %q tells a secret", err)
			}
		}
		text := "my-secret-api-key-1234: shop-a\nother-secret-key-98765: shop-b\n"
		write(t, keys, text[:at]+[]string{"", "{", "[", ":", "\"", "\n"}[at%6]+text[at+1:])
		_, err = Load(file)
	}
}

func TestHashKeyFile(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "sluice.yaml"), filepath.Join(dir, "hash.key")
	write(t, file, leastYAML+"identity: {tenant: {header: X-Api-Key}, hash_key_file: hash.key}\n")
	value := func(text string) string {
		t.Helper()
		write(t, key, text)
		c, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return c.Value("tenant", "s3cr3t")
	}
	one, again, other := value(strings.Repeat("a", 16)), value(strings.Repeat("a", 16)+"\n"), value(strings.Repeat("b", 16))
	if one != again || one == other {
		t.Errorf("hashes %s, %s, %s: want the first two equal, the third not", one, again, other)
	}
	write(t, key, "short\n")
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "holds 5 bytes: want at least 16") || strings.Contains(err.Error(), "short") {
		t.Errorf("a short key: %v", err)
	}
}

// What is secret in the rules is in no error, warning, log or key.
func TestSecretsAreNeverTold(t *testing.T) {
	const secret = "s3cr3t-v4lue"
	bad := `
limits:
  - name: a
    key: [tenant]
    limit: 1/s
    overrides:
      - {match: {tenant: ` + secret + `}, limit: 1/s}
      - {match: {tenant: ` + secret + `}, limit: 2/s}
      - {match: {tenant: [` + secret + `, ` + secret + `]}, limit: never}
      - {match: {tenant: {` + secret + `: 1}}, limt: 3/s}
identity: {tenant: {header: X-Api-Key, unknown: what}}
`
	if _, err := decode(t, bad); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	// Nor is it told by a slip of the pen anywhere in the file.
	good := `limits:
  - name: a
    key: [tenant]
    limit: 1/h
    overrides:
      - {match: {tenant: "` + secret + `"}, limit: 2/h}
      - match:
          tenant: [ ` + secret + ` , other ]
        limit: 2/h
identity: {tenant: {header: X-Api-Key, unknown: ip}}
`
	dir := t.TempDir()
	for at := range len(good) {
		for _, slip := range []string{"", "\"", "{", "]", "\n", ":", "\t", "*", "&"} {
			text := good[:at] + slip + good[at+1:]
			d := decoder{dir: dir}
			_, err := d.parse("sluice.yaml", []byte(text))
			// Where the colon is lost the value is a field's name, which is
			// what people must see to find it.
			if err != nil && strings.Contains(err.Error(), secret) && !strings.Contains(err.Error(), `["tenant`) {
				t.Fatalf("%q for byte %d: error %q tells the secret", slip, at, err)
			}
		}
	}
	s := start(t, `
limits:
  - name: a
    key: [tenant]
    limit: 1/h
    overrides:
      - {match: {tenant: `+secret+`}, limit: 2/h}
      - {match: {tenant: "*", ip: 127.0.0.1}, limit: 100/h}
identity: {tenant: {header: X-Api-Key}}
`+gatewayYAML)
	res, body := s.body("/", "X-Api-Key: "+secret)
	s.statuses(3, "/", "X-Api-Key: "+secret)
	s.edit("limit: 1/h", "limit: 1/x")
	s.waitLog("configuration not reloaded", 1)
	s.edit("limit: 1/x", "limit: 3/h")
	s.waitLog("configuration reloaded", 1)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	set := s.now.Load().config.Set
	for what, text := range map[string]string{
		"the log": s.log.String(), "the answer": body + fmt.Sprint(res.Header), "the limits": fmt.Sprintf("%+v", set.Limits()),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s tells the secret: %s", what, text)
		}
	}
}

func TestValue(t *testing.T) {
	c, err := decode(t, leastYAML+`identity:
  tenant: {header: X-Api-Key}
  user: {header: X-User, lower: true}
  ip: {ipv6_prefix: 48}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, text := range map[string]string{"user": "A@Example.org", "ip": "2001:db8:1:2::3", "route": "Orders", "tenant": ""} {
		got[name] = c.Value(name, text)
	}
	want := map[string]string{"user": "a@example.org", "ip": "2001:db8:1::/48", "route": "Orders", "tenant": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.Value("tenant", "x"); !strings.HasPrefix(got, "key:") || c.Value("tenant", got) != got {
		t.Errorf("tenant x is %s", got)
	}
}

// Rules are written by people: what stands there is one value, however it is
// spelled and whatever characters it has.
func TestRulesNameIdentitiesAsTheyCome(t *testing.T) {
	s := start(t, `
limits:
  - name: a
    key: [tenant, user]
    limit: 1/h
    overrides:
      - {match: {tenant: 'st\*r\\'}, limit: 2/h}
      - {match: {user: Anna@Example.org}, limit: 3/h}
      - {match: {user: 'x\*'}, limit: 4/h}
identity:
  tenant: {header: X-Api-Key}
  user: {header: X-User, lower: true, secret: false}
`+gatewayYAML)
	wantStatuses(t, "a secret with a star", s.statuses(3, "/", `X-Api-Key: st*r\`), 200, 200, 429)
	wantStatuses(t, "any case", s.statuses(3, "/", "X-User: anna@example.ORG"), 200, 200, 200)
	wantStatuses(t, "any case, again", s.statuses(1, "/", "X-User: Anna@example.org"), 429)
	wantStatuses(t, "a star", s.statuses(5, "/", "X-User: X*"), 200, 200, 200, 200, 429)
	wantStatuses(t, "no star", s.statuses(2, "/", "X-User: xy"), 200, 429)
}

// What a person is told of a caller is what a gateway makes of one.
func TestCallerIsWhatTheGatewaySees(t *testing.T) {
	c, err := decode(t, `limits:
  - {name: a, key: [user, tenant], limit: 1/s, match: {user: Known, "header:X-User": [s3cr3t]}}
identity:
  user: {header: X-User, secret: true, lower: true, unknown: ip}
  tenant: {header: X-Tenant, required: true, unknown: "401"}
  other: {header: X-Other, required: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	hashed := c.hasher.Hash("known")
	for _, tt := range []struct {
		given           map[string]string
		user, without   string
		reason, hasNote string
	}{
		{map[string]string{"user": "KNOWN", "ip": "192.0.2.1"}, hashed, "tenant", "tenant is required and missing", ""},
		{map[string]string{"user": hashed, "other": "x"}, hashed, "tenant", "tenant is required and missing", ""},
		{map[string]string{"user": "no", "ip": "2001:db8::1", "tenant": "x", "other": "x"}, "ip:2001:db8::/64", "tenant", "tenant x is named neither by the keys nor by a limit", "as ip:2001:db8::/64"},
	} {
		got, err := c.Caller(tt.given)
		if err != nil {
			t.Fatal(err)
		}
		if got.Attributes["user"] != tt.user || got.Without != tt.without || got.Reason != tt.reason || !strings.Contains(strings.Join(got.Notes, "; "), tt.hasNote) {
			t.Errorf("Caller(%v) = %+v, want %+v", tt.given, got, tt)
		}
	}
	// The header of a secret identity is matched by its hash, as it is read.
	if got := c.Set.Limits()[0].Match[1].Patterns[0]; got != c.hasher.Hash("s3cr3t") || c.Value("header:x-user", "s3cr3t") != got {
		t.Errorf("pattern of the header = %q, want a hash", got)
	}
}

func TestSecretHeaderInARuleMatches(t *testing.T) {
	s := start(t, `
limits: [{name: a, match: {"header:X-Api-Key": s3cr3t}, key: [], limit: 1/h}]
identity: {tenant: {header: X-Api-Key, unknown: ip}}
`+gatewayYAML)
	wantStatuses(t, "the key that the rule names", s.statuses(2, "/", "X-Api-Key: s3cr3t"), 200, 429)
	wantStatuses(t, "another", s.statuses(2, "/", "X-Api-Key: other"), 200, 200)
}
