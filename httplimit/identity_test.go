package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func sum(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

func keys(t *testing.T, names map[string]string) *Keys {
	t.Helper()
	hashes := make(map[string]string)
	for secret, name := range names {
		hashes[sum(secret)] = name
	}
	k, err := ParseKeys(hashes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func identity(t testing.TB, o IdentityOptions) *Identity {
	t.Helper()
	if o.Name == "" {
		o.Name = "tenant"
	}
	i, err := NewIdentity(o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func with(header string, values ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for _, v := range values {
		r.Header.Add(header, v)
	}
	return r
}

func address() string { return "203.0.113.7" }

func TestResolve(t *testing.T) {
	k := map[string]string{"K1": "shop-a", "K2": "shop-a", "K3": "shop-b"}
	hasher := NewHasher([]byte("salt"))
	hashed := hasher.Hash("K9")
	for _, tt := range []struct {
		name    string
		o       IdentityOptions
		keys    map[string]string
		headers []string
		want    string
		denied  denial
	}{
		{name: "a key has its holder's name", keys: k, headers: []string{"K1"}, want: "shop-a"},
		{name: "two keys of one holder", keys: k, headers: []string{"K2"}, want: "shop-a"},
		{name: "an unknown key by itself", keys: k, headers: []string{"K9"}, want: hashed},
		{name: "without keys", headers: []string{"K9"}, want: hashed},
		{name: "unknown by address", o: IdentityOptions{Unknown: UnknownAddressed}, keys: k, headers: []string{"K9"}, want: "ip:203.0.113.7"},
		{name: "missing by address", o: IdentityOptions{Unknown: UnknownAddressed}, keys: k, want: "ip:203.0.113.7"},
		{name: "unknown refused", o: IdentityOptions{Unknown: UnknownRefused}, keys: k, headers: []string{"K9"}, denied: rejected},
		{name: "known where unknown is refused", o: IdentityOptions{Unknown: UnknownRefused}, keys: k, headers: []string{"K3"}, want: "shop-b"},
		{name: "missing", keys: k, want: ""},
		{name: "empty is missing", o: IdentityOptions{Required: true}, headers: []string{""}, denied: missing},
		{name: "required and missing", o: IdentityOptions{Required: true, Unknown: UnknownAddressed}, denied: missing},
		{name: "twice", keys: k, headers: []string{"K1", "K3"}, denied: repeated},
		{name: "twice the same", keys: k, headers: []string{"K1", "K1"}, denied: repeated},
		{
			name: "a rule names the hash", o: IdentityOptions{Unknown: UnknownRefused, Named: func(v string) bool { return v == hashed }},
			headers: []string{"K9"}, want: hashed,
		},
		{name: "plain", o: IdentityOptions{Secret: NotSecret}, headers: []string{"shop-x"}, want: "shop-x"},
		{
			name: "plain, unknown, refused", o: IdentityOptions{Secret: NotSecret, Unknown: UnknownRefused},
			headers: []string{"shop-x"}, denied: rejected,
		},
		{
			name: "plain, named by a rule", o: IdentityOptions{Secret: NotSecret, Unknown: UnknownRefused, Named: func(v string) bool { return v == "shop-x" }},
			headers: []string{"shop-x"}, want: "shop-x",
		},
		{name: "a plain holder's name is not the holder", o: IdentityOptions{Secret: NotSecret}, keys: k, headers: []string{"shop-a"}, want: "value:shop-a"},
		{name: "a long value", headers: []string{strings.Repeat("x", 64<<10)}, want: hasher.Hash(strings.Repeat("x", 64<<10))},
	} {
		tt.o.Header, tt.o.Hasher = "X-Api-Key", hasher
		if tt.keys != nil {
			tt.o.Keys = keys(t, tt.keys)
		}
		got, denied := identity(t, tt.o).resolve(with("X-Api-Key", tt.headers...), nil, address)
		if got != tt.want || denied != tt.denied {
			t.Errorf("%s: %q, %d, want %q, %d", tt.name, got, denied, tt.want, tt.denied)
		}
	}
}

// Case G103: a caller cannot be counted as an address, as a hashed key or as
// the holder of a key by its choice of name.
func TestCaseG103Namespaces(t *testing.T) {
	hasher := NewHasher([]byte("salt"))
	i := identity(t, IdentityOptions{Header: "X-Tenant", Hasher: hasher})
	seen := map[string]string{"ip:203.0.113.7": "an address", hasher.Hash("K"): "a key"}
	for _, raw := range []string{
		"203.0.113.7", "ip:203.0.113.7", hasher.Hash("K"), "value:ip:203.0.113.7", "value:value:x", "value:x", "x",
	} {
		got, _ := i.resolve(with("X-Tenant", raw), nil, address)
		if other, ok := seen[got]; ok {
			t.Errorf("tenant %q is counted as %q, as is %q", raw, got, other)
		}
		seen[got] = raw
	}
}

// Case G104: keys that begin alike are different.
func TestCaseG104WholeKey(t *testing.T) {
	h := NewHasher([]byte("salt"))
	if a, b := h.Hash("tess_live_A"), h.Hash("tess_live_B"); a == b {
		t.Errorf("two keys have one hash, %s", a)
	}
}

// Case G119: the scheme's case, and the scheme, are not part of who asks.
func TestCaseG119Schemes(t *testing.T) {
	for in, want := range map[string]string{
		"ApiKey K": "K", "apikey K": "K", "APIKEY  K": "K", "Bearer K": "K", "bearer\tK": "K", "K": "K",
		"Basic dXNlcjpw": "dXNlcjpw", "bearer": "", "Bearer ": "", "": "", "Digest a=1, b=2": "a=1, b=2",
	} {
		if got := credentials(in); got != want {
			t.Errorf("credentials(%q) = %q, want %q", in, got, want)
		}
	}
	i := identity(t, IdentityOptions{Header: "authorization"})
	one, _ := i.resolve(with("Authorization", "apikey K"), nil, address)
	two, _ := i.resolve(with("Authorization", "ApiKey K"), nil, address)
	if one != two || !strings.HasPrefix(one, "key:") {
		t.Errorf("apikey K is %q and ApiKey K is %q, want one hash", one, two)
	}
}

// Case G118: spellings of one identity are one value.
func TestCaseG118Normalize(t *testing.T) {
	i := identity(t, IdentityOptions{Header: "X-User"})
	normalize := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "")) }
	for _, raw := range []string{"A@x.org", "a@x.org", "a@x. org"} {
		if got, _ := i.resolve(with("X-User", raw), normalize, address); got != "a@x.org" {
			t.Errorf("%q is %q, want a@x.org", raw, got)
		}
	}
}

func TestHasher(t *testing.T) {
	a, b := NewHasher([]byte("salt")), NewHasher([]byte("salt"))
	// printf %s K | openssl dgst -sha256 -hmac salt
	if got, want := a.Hash("K"), "key:09cb877f45d604a88e4134c35b5e386b"; got != want || b.Hash("K") != want {
		t.Errorf("Hash = %s and %s, want %s twice", got, b.Hash("K"), want)
	}
	if c, d := NewHasher(nil), NewHasher(nil); c.Hash("K") == d.Hash("K") {
		t.Error("two random hashers agree")
	}
}

func TestSetKeys(t *testing.T) {
	i := identity(t, IdentityOptions{Header: "X-Api-Key", Unknown: UnknownRefused})
	if _, d := i.resolve(with("X-Api-Key", "K1"), nil, address); d != rejected {
		t.Errorf("before: %d, want rejected", d)
	}
	i.SetKeys(keys(t, map[string]string{"K1": "shop-a"}))
	if got, _ := i.resolve(with("X-Api-Key", "K1"), nil, address); got != "shop-a" {
		t.Errorf("after: %q, want shop-a", got)
	}
}

func TestRuleValue(t *testing.T) {
	h := NewHasher([]byte("salt"))
	secret := identity(t, IdentityOptions{Header: "X-Api-Key", Hasher: h})
	plain := identity(t, IdentityOptions{Header: "X-Tenant"})
	named := identity(t, IdentityOptions{Header: "X-Api-Key", Keys: keys(t, map[string]string{"K": "shop-a"})})
	got, _ := secret.resolve(with("X-Api-Key", "K"), nil, address)
	if want := secret.RuleValue("K"); got != want || want != h.Hash("K") {
		t.Errorf("K is %q, and a rule's K is %q, want one hash", got, want)
	}
	if got := secret.RuleValue(h.Hash("K")); got != h.Hash("K") {
		t.Errorf("a rule's hash became %q", got)
	}
	if plain.RuleValue("K") != "K" || named.RuleValue("shop-a") != "shop-a" {
		t.Error("a rule's name did not stay")
	}
}

// A person writes names, keys, values and hashes; what is shown is no key.
func TestJudge(t *testing.T) {
	h := NewHasher([]byte("k"))
	named := func(value string) bool { return value == h.Hash("N") || value == "plain" || value == "ip:named" }
	secret := identity(t, IdentityOptions{Header: "X-Api-Key", Hasher: h, Keys: keys(t, map[string]string{"K": "shop-a"}), Named: named})
	plain := identity(t, IdentityOptions{Header: "X-Tenant", Named: named})
	for _, tt := range []struct {
		i           *Identity
		text, value string
		known       bool
	}{
		{secret, "shop-a", "shop-a", true},
		{secret, "K", "shop-a", true},
		{secret, "N", h.Hash("N"), true},
		{secret, h.Hash("N"), h.Hash("N"), true},
		{secret, h.Hash("x"), h.Hash("x"), false},
		{secret, "x", h.Hash("x"), false},
		{secret, "key:x", h.Hash("key:x"), false},
		{secret, "ip:named", h.Hash("ip:named"), false},
		{plain, "plain", "plain", true},
		{plain, "x", "x", false},
		{plain, "ip:named", "ip:named", true},
	} {
		if value, known := tt.i.Judge(tt.text); value != tt.value || known != tt.known {
			t.Errorf("Judge(%q) = %q, %v, want %q, %v", tt.text, value, known, tt.value, tt.known)
		}
	}
	if secret.HeaderValue("K") != h.Hash("K") || secret.HeaderValue(h.Hash("K")) != h.Hash("K") || secret.HeaderValue("") != "" || plain.HeaderValue("K") != "K" {
		t.Error("the header of a secret identity is seen as its hash, another as it is")
	}
}

func TestNewIdentityErrors(t *testing.T) {
	_, err := NewIdentity(IdentityOptions{Header: "X Api"})
	if err == nil || !strings.Contains(err.Error(), "attribute") || !strings.Contains(err.Error(), "X Api") {
		t.Errorf("NewIdentity = %v, want both faults", err)
	}
}

func TestParseKeysErrors(t *testing.T) {
	const secret = "sk_live_0123456789"
	_, err := ParseKeys(map[string]string{
		secret:                             "shop-a",
		sum("a"):                           "",
		sum("b"):                           "ip:1.2.3.4",
		sum("c"):                           "x",
		"sha256:" + sum("c"):               "y",
		strings.Repeat("g", 2*sha256.Size): "z",
		"shop-turned":                      secret,
		"shop-swapped":                     sum("d"),
	})
	if err == nil {
		t.Fatal("ParseKeys = nil, want errors")
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 7 {
		t.Errorf("%d errors, want 7: %v", n, err)
	}
	if !strings.Contains(err.Error(), "key shop...: it stands where the hash should") {
		t.Errorf("the error does not say that hash and name are the wrong way round: %v", err)
	}
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), sum("d")) {
		t.Errorf("the error shows a secret: %v", err)
	}
	k, err := ParseKeys(map[string]string{"SHA256:" + sum("a"): "x"})
	if err == nil {
		t.Errorf("SHA256: was taken: %v", k)
	}
	k, err = ParseKeys(map[string]string{strings.ToUpper(sum("a")): "x", "sha256:" + sum("b"): "y"})
	if err != nil || k.Len() != 2 || !k.Has("y") || k.Has("z") {
		t.Errorf("ParseKeys = %v, %v, want two keys", k, err)
	}
}

func TestParseUnknown(t *testing.T) {
	for s, want := range map[string]Unknown{"default": UnknownDefault, "ip": UnknownAddressed, "401": UnknownRefused} {
		if got, err := ParseUnknown(s); got != want || err != nil {
			t.Errorf("ParseUnknown(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	if _, err := ParseUnknown("deny"); err == nil {
		t.Error("ParseUnknown(deny) = nil, want an error")
	}
}

// The scheme never changes who asks, and no value can pass for another kind.
func FuzzCredentials(f *testing.F) {
	f.Add("Bearer", "K")
	f.Add("apikey", "a b ")
	f.Add("", "ip:203.0.113.7")
	i := identity(f, IdentityOptions{Header: "Authorization", Secret: NotSecret})
	f.Fuzz(func(t *testing.T, scheme, token string) {
		token = strings.Trim(token, " \t")
		if scheme == "" || strings.ContainsAny(scheme, " \t") || token == "" {
			return
		}
		if got := credentials(scheme + " " + token); got != token {
			t.Fatalf("credentials(%q) = %q, want %q", scheme+" "+token, got, token)
		}
		r := with("Authorization")
		r.Header["Authorization"] = []string{scheme + " " + token}
		got, _ := i.resolve(r, nil, address)
		if strings.HasPrefix(got, prefixAddress) || strings.HasPrefix(got, prefixSecret) {
			t.Fatalf("%q passes for another kind of value: %q", token, got)
		}
		if strings.TrimPrefix(got, prefixValue) != token && got != token {
			t.Fatalf("%q is %q", token, got)
		}
	})
}

// What is taken as a keys file is found again by the hash, and what is not is
// never shown.
func FuzzParseKeys(f *testing.F) {
	f.Add(sum("a"), "shop-a")
	f.Add("sha256:"+strings.ToUpper(sum("a")), "x")
	f.Add("sk_live_0123456789", "shop-a")
	f.Fuzz(func(t *testing.T, hash, name string) {
		k, err := ParseKeys(map[string]string{hash: name})
		if err == nil {
			if k.Len() != 1 || !k.Has(name) || reserved(name) {
				t.Fatalf("ParseKeys(%q: %q) = %v", hash, name, k)
			}
			return
		}
		if len(hash) > 40 && !strings.Contains(name, hash[5:]) && strings.Contains(err.Error(), hash[5:]) {
			t.Fatalf("the error shows the entry: %v", err)
		}
	})
}
