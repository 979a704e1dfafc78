package httplimit

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func networks(t testing.TB, list ...string) []netip.Prefix {
	t.Helper()
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func from(remote string, forwarded ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = remote
	for _, line := range forwarded {
		r.Header.Add("X-Forwarded-For", line)
	}
	return r
}

func TestClient(t *testing.T) {
	trusted := Addresses{TrustedProxies: networks(t, "10.0.0.0/8", "2001:db8:ffff::/48", "::ffff:192.0.2.0/120")}
	unix := Addresses{TrustUnix: true}
	for _, tt := range []struct {
		name      string
		addresses Addresses
		remote    string
		forwarded []string
		want      string
	}{
		{"no proxy", trusted, "203.0.113.7:50001", nil, "203.0.113.7"},
		{"a peer that is no proxy is not believed", trusted, "203.0.113.7:1", []string{"1.2.3.4"}, "203.0.113.7"},
		{"none is believed by default", Addresses{}, "10.0.0.1:1", []string{"1.2.3.4"}, "10.0.0.1"},
		{"one proxy", trusted, "10.0.0.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a proxy without the header", trusted, "10.0.0.1:1", nil, "10.0.0.1"},
		{"the leftmost is the client's own word", trusted, "10.0.0.1:1", []string{"1.2.3.4, 203.0.113.7"}, "203.0.113.7"},
		{"past two proxies", trusted, "10.0.0.1:1", []string{"203.0.113.7, 10.0.0.2"}, "203.0.113.7"},
		{"several lines are one list", trusted, "10.0.0.1:1", []string{"1.2.3.4,203.0.113.7", "10.0.0.3, 10.0.0.2"}, "203.0.113.7"},
		{"all proxies: the first of them", trusted, "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"a port", trusted, "10.0.0.1:1", []string{"203.0.113.7:50001"}, "203.0.113.7"},
		{"a bracketed port", trusted, "10.0.0.1:1", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"brackets", trusted, "10.0.0.1:1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"a word stops the walk", trusted, "10.0.0.1:1", []string{"1.2.3.4, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"rubbish stops the walk", trusted, "10.0.0.1:1", []string{"1.2.3.4, 999.1.1.1"}, "10.0.0.1"},
		{"an empty hop stops the walk", trusted, "10.0.0.1:1", []string{"1.2.3.4,"}, "10.0.0.1"},
		{"an empty line stops the walk", trusted, "10.0.0.1:1", []string{"1.2.3.4", ""}, "10.0.0.1"},
		{"a mapped client is v4", trusted, "10.0.0.1:1", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"a mapped proxy is v4", trusted, "[::ffff:10.0.0.1]:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a mapped network is v4", trusted, "192.0.2.9:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a zone is dropped", trusted, "[2001:db8:ffff::1%eth0]:1", []string{"fe80::1%eth1"}, "fe80::1"},
		{"spaces and tabs", trusted, "10.0.0.1:1", []string{"1.1.1.1,\t 203.0.113.7 ,10.0.0.2 "}, "203.0.113.7"},
		{"a Unix socket", trusted, "@", []string{"203.0.113.7"}, "invalid IP"},
		{"no remote address", Addresses{}, "", nil, "invalid IP"},
		{"a trusted Unix socket", unix, "@", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a trusted Unix socket without the header", unix, "", nil, "invalid IP"},
		{"trusting sockets trusts no address", unix, "10.0.0.1:1", []string{"203.0.113.7"}, "10.0.0.1"},
	} {
		if got := tt.addresses.Client(from(tt.remote, tt.forwarded...)); got.String() != tt.want {
			t.Errorf("%s: Client(%q, %q) = %v, want %s", tt.name, tt.remote, tt.forwarded, got, tt.want)
		}
	}
}

// Case G111: a new port must not be a new bucket.
func TestCaseG111PortIsNotIdentity(t *testing.T) {
	a := Addresses{TrustedProxies: networks(t, "10.0.0.0/8")}
	for _, pair := range [][2]string{
		{"203.0.113.7:50001", "203.0.113.7:50002"},
		{"[2001:db8::1]:443", "[2001:db8::1]:444"},
		{"[2001:db8::1]:443", "2001:db8::1"},
	} {
		one, two := a.Key(a.Client(from("10.0.0.1:1", pair[0]))), a.Key(a.Client(from("10.0.0.1:1", pair[1])))
		if one != two || one == UnknownAddress {
			t.Errorf("%q and %q are %q and %q, want one address", pair[0], pair[1], one, two)
		}
	}
}

// Case G112: who rotates the leftmost entry stays in one bucket.
func TestCaseG112LeftmostIsNotTrusted(t *testing.T) {
	a := Addresses{TrustedProxies: networks(t, "10.0.0.0/8")}
	for _, forged := range []string{"1.2.3.1", "1.2.3.2", "10.0.0.9", "nonsense", ""} {
		got := a.Key(a.Client(from("10.0.0.1:1", forged+", 192.0.2.1")))
		if got != "192.0.2.1" {
			t.Errorf("with %q in front the client is %q, want 192.0.2.1", forged, got)
		}
	}
}

// Case G115: an IPv6 client owns its network; a mapped address is v4.
func TestCaseG115Groups(t *testing.T) {
	for _, tt := range []struct {
		bits     int
		in, want string
	}{
		{0, "2001:db8:0:1::1", "2001:db8:0:1::/64"},
		{0, "2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"},
		{0, "2001:db8:0:2::1", "2001:db8:0:2::/64"},
		{56, "2001:db8:0:1ff::1", "2001:db8:0:100::/56"},
		{128, "2001:db8::1", "2001:db8::1"},
		{0, "::ffff:203.0.113.7", "203.0.113.7"},
		{0, "203.0.113.7", "203.0.113.7"},
		{0, "fe80::1%eth0", "fe80::/64"},
	} {
		a := Addresses{IPv6Prefix: tt.bits}
		if got := a.Key(netip.MustParseAddr(tt.in)); got != tt.want {
			t.Errorf("/%d: Key(%s) = %q, want %q", tt.bits, tt.in, got, tt.want)
		}
	}
	a := Addresses{}
	if got := a.Key(netip.Addr{}); got != UnknownAddress {
		t.Errorf("Key of no address = %q, want %q", got, UnknownAddress)
	}
}

func TestParseHop(t *testing.T) {
	for _, bad := range []string{
		"", " ", "unknown", "_hidden", "1.2.3", "01.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456",
		"[1.2.3.4]", "[1.2.3.4]:80", "[::1", "[::1]x", "[::1]:", "[]", ":80", "::g", "1.2.3.4:-1", `"1.2.3.4"`,
	} {
		if got := parseHop(bad); got.IsValid() {
			t.Errorf("parseHop(%q) = %v, want none", bad, got)
		}
	}
}

func TestAddressesValidate(t *testing.T) {
	a := Addresses{TrustedProxies: []netip.Prefix{{}}, IPv6Prefix: 129}
	err := a.Validate()
	if err == nil || !strings.Contains(err.Error(), "trusted proxy 1") || !strings.Contains(err.Error(), "129") {
		t.Errorf("Validate() = %v, want both faults", err)
	}
}

// Whatever a client writes, behind a trusted proxy that appends the peer it
// sees the client is that peer; and what comes out is a plain address.
func FuzzForwardedFor(f *testing.F) {
	f.Add("1.2.3.4", "unknown, 10.0.0.1", "203.0.113.7")
	f.Add("[2001:db8::1]:443", "203.0.113.7:50001,,", "::ffff:203.0.113.7")
	f.Add("fe80::1%eth0", "10.0.0.2", "10.0.0.3")
	a := Addresses{TrustedProxies: networks(f, "10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, one, two, seen string) {
		r := from("10.0.0.1:1")
		r.Header["X-Forwarded-For"] = []string{one, two}
		got := a.Client(r)
		if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("Client(%q, %q) = %v, want a plain address", one, two, got)
		}
		if p, err := netip.ParsePrefix(a.Key(got)); err != nil {
			if _, err := netip.ParseAddr(a.Key(got)); err != nil {
				t.Fatalf("Key(%v) = %q, want an address or a network", got, a.Key(got))
			}
		} else if !p.Contains(got) {
			t.Fatalf("Key(%v) = %v, want a network that holds it", got, p)
		}
		peer := parseHop(seen)
		if !peer.IsValid() || a.trusts(peer) {
			return
		}
		r.Header["X-Forwarded-For"] = []string{one, two + ", " + peer.String()}
		if got := a.Client(r); got != peer {
			t.Fatalf("Client(%q, %q, %v) = %v, want what the proxy saw", one, two, peer, got)
		}
	})
}
