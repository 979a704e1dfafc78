package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
)

// attributes reads the attributes of the entry at hand for the policy. The
// texts it returns stay valid; those met lately are not made again.
type attributes struct {
	e      *entry
	bits   int // that tell one IPv6 client from another
	route  func(method, path string) string
	texts  interner
	ips    interner
	paths  interner
	hosts  interner
	hashes interner
	names  []string // that the policy reads
	filled []bool   // beside names: some request had it
}

func newAttributes(o *Options, names []string) *attributes {
	a := &attributes{bits: o.IPv6Prefix, route: o.Route, names: names, filled: make([]bool, len(names))}
	a.texts = newInterner(func(b []byte) string { return string(b) })
	a.ips = newInterner(func(b []byte) string { return clientKey(b, a.bits) })
	a.paths, a.hosts, a.hashes = newInterner(cleanPath), newInterner(hostName), newInterner(hashed)
	return a
}

// get returns an attribute by its name; "" if the request has none.
func (a *attributes) get(name string) string {
	value := a.read(name)
	if value != "" {
		for i := range a.names {
			if a.names[i] == name {
				a.filled[i] = true
			}
		}
	}
	return value
}

// missing says whether no request so far had an attribute.
func (a *attributes) missing(name string) bool {
	i := slices.Index(a.names, name)
	return i >= 0 && !a.filled[i]
}

func (a *attributes) read(name string) string {
	switch name {
	case "ip":
		if ip := a.e.text(a.e.known[fieldIP]); len(ip) > 0 {
			return a.ips.get(ip)
		}
		return ""
	case "user":
		return a.optional(fieldUser)
	case "tenant":
		if tenant := a.optional(fieldTenant); tenant != "" {
			return tenant
		}
		return a.optional(fieldUser)
	case "method":
		return a.known(fieldMethod)
	case "path":
		return a.path()
	case "status":
		return a.known(fieldStatus)
	case "host":
		return a.hosts.get(a.e.text(a.e.known[fieldHost]))
	case "route":
		if a.route != nil {
			return a.route(a.known(fieldMethod), a.known(fieldPath))
		}
	case "user_agent":
		return a.optional(fieldAgent)
	}
	if header, ok := strings.CutPrefix(name, "header:"); ok {
		return a.header(header)
	}
	return a.extra(name)
}

func (a *attributes) known(f field) string { return a.texts.get(a.e.text(a.e.known[f])) }

// optional returns a field in which a lone - stands for nothing.
func (a *attributes) optional(f field) string {
	if text := a.e.text(a.e.known[f]); len(text) != 1 || text[0] != '-' {
		return a.texts.get(text)
	}
	return ""
}

// path returns the path as a gateway's limits see it. A request line that is
// none has no path.
func (a *attributes) path() string {
	raw := a.e.text(a.e.known[fieldPath])
	if string(a.e.text(a.e.known[fieldMethod])) == "CONNECT" {
		return a.texts.get(raw)
	}
	return a.paths.get(raw)
}

func (a *attributes) header(name string) string {
	switch {
	case strings.EqualFold(name, "User-Agent"):
		return a.optional(fieldAgent)
	case strings.EqualFold(name, "Referer"):
		return a.optional(fieldReferer)
	case strings.EqualFold(name, "Host"):
		return a.known(fieldHost)
	}
	return a.texts.get(a.e.header(name))
}

// extra returns a field that only this log has, the last of its name.
func (a *attributes) extra(name string) string {
	for i := len(a.e.extra) - 1; i >= 0; i-- {
		if x := &a.e.extra[i]; string(a.e.text(x.name)) == name {
			return a.texts.get(a.e.text(x.value))
		}
	}
	return ""
}

// secretHeaders carry what opens doors: a result shows their hashes, as the keys
// of counters do.
var secretHeaders = []string{"header:Authorization", "header:Proxy-Authorization", "header:Cookie", "header:X-Api-Key"}

// shown returns an attribute as it may be shown.
func (a *attributes) shown(name string) string {
	value := a.get(name)
	if value != "" && slices.Contains(secretHeaders, name) {
		return a.hashes.get([]byte(value))
	}
	return value
}

// hashed returns # and half of the SHA-256 of a value.
func hashed(value []byte) string {
	sum := sha256.Sum256(value)
	return "#" + hex.EncodeToString(sum[:16])
}

// clientKey returns an address as limits see it: without a port or a zone, a
// v4-mapped address as IPv4, an IPv6 address as the first of its network. What
// is no address, such as a name that the server looked up, stays as it is.
func clientKey(text []byte, bits int) string {
	s := string(text)
	addr, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		port, err := netip.ParseAddrPort(s)
		if err != nil {
			return s
		}
		addr = port.Addr()
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(bits); err == nil {
			addr = p.Addr()
		}
	}
	return addr.String()
}

// An interner makes texts of bytes and remembers the latest of them, so that
// the values that come again and again in a log are made once. Its memory is
// bounded.
type interner struct {
	make func([]byte) string
	seed maphash.Seed
	seen []interned
}

type interned struct{ raw, text string }

const (
	internSlots = 1 << 13
	internBytes = 256 // longer texts are not remembered
)

func newInterner(make func([]byte) string) interner {
	return interner{make: make, seed: maphash.MakeSeed()}
}

func (t *interner) get(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if len(raw) > internBytes {
		return t.make(raw)
	}
	if t.seen == nil {
		t.seen = make([]interned, internSlots)
	}
	slot := &t.seen[maphash.Bytes(t.seed, raw)%internSlots]
	if slot.raw != string(raw) {
		slot.text = t.make(raw)
		slot.raw = slot.text
		if slot.text != string(raw) {
			slot.raw = string(raw)
		}
	}
	return slot.text
}
