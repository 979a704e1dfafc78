package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Addresses says how the address of a client is found and which addresses count
// as one. The zero value believes no proxy and groups IPv6 by /64. Its methods
// may be called from many goroutines.
type Addresses struct {
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is
	// believed; none: it is not read at all.
	TrustedProxies []netip.Prefix
	// TrustUnix believes also peers without an address: those connected
	// through a Unix socket.
	TrustUnix bool
	// IPv6Prefix is how many bits of an IPv6 address tell one client from
	// another, as a client is usually given a whole network; 0 means 64.
	IPv6Prefix int
}

// UnknownAddress is the address, as limits see it, of a client that has none:
// all that come through a Unix socket without a believed X-Forwarded-For share
// it.
const UnknownAddress = "unknown"

const forwardedFor = "X-Forwarded-For"

// Validate reports all that is wrong, each error naming the field.
func (a *Addresses) Validate() error {
	var errs []error
	for i, p := range a.TrustedProxies {
		if !p.IsValid() {
			errs = append(errs, fmt.Errorf("trusted proxy %d is not a network: want one such as 10.0.0.0/8", i+1))
		}
	}
	if a.IPv6Prefix < 0 || a.IPv6Prefix > 128 {
		errs = append(errs, fmt.Errorf("IPv6 prefix is %d: want 1 to 128, or 0 for 64", a.IPv6Prefix))
	}
	return errors.Join(errs...)
}

// Client returns the address of the client: the peer's, unless that is a
// trusted proxy; then the last address in X-Forwarded-For that is none. A hop
// that is no address ends the search at the proxy that reported it. The result
// is never an IPv4 address mapped into IPv6 and has no zone; it is the zero Addr
// if the peer has no address.
func (a *Addresses) Client(r *http.Request) netip.Addr {
	peer := parseHop(r.RemoteAddr)
	if !a.trusts(peer) {
		return peer
	}
	client := peer
	lines := r.Header[forwardedFor]
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var hop string
			rest, hop, more = cutLast(rest)
			addr := parseHop(hop)
			if !addr.IsValid() {
				return client
			}
			if client = addr; !a.trusts(addr) {
				return client
			}
		}
	}
	return client
}

// Ignored says whether the request has an X-Forwarded-For that is not believed
// since the peer is no trusted proxy. Where that is the operator's own proxy,
// all its clients share one address, which deserves a warning.
func (a *Addresses) Ignored(r *http.Request) bool {
	return len(r.Header[forwardedFor]) > 0 && !a.TrustsPeer(r)
}

// TrustsPeer says whether the request comes directly from a trusted proxy.
func (a *Addresses) TrustsPeer(r *http.Request) bool {
	return a.trusts(parseHop(r.RemoteAddr))
}

// Key returns the address as limits see it: an IPv4 address, the client's IPv6
// network as in 2001:db8:0:1::/64, or [UnknownAddress].
func (a *Addresses) Key(addr netip.Addr) string {
	if !addr.IsValid() {
		return UnknownAddress
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		bits := a.IPv6Prefix
		if bits == 0 {
			bits = 64
		}
		if p, err := addr.Prefix(bits); err == nil && bits < 128 {
			return p.String()
		}
	}
	return addr.String()
}

func (a *Addresses) trusts(addr netip.Addr) bool {
	if !addr.IsValid() {
		return a.TrustUnix
	}
	for _, p := range a.TrustedProxies {
		if mapped := p.Addr(); mapped.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(mapped.Unmap(), p.Bits()-96)
		}
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// cutLast parts the last element of a list from those before it.
func cutLast(list string) (before, last string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], list[i+1:], true
	}
	return "", list, false
}

// parseHop reads an address with or without a port: 203.0.113.7,
// 203.0.113.7:50001, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:443. What is
// none of these is the zero Addr.
func parseHop(s string) netip.Addr {
	s = strings.Trim(s, " \t")
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, port, ok := strings.Cut(rest, "]")
		if !ok || port != "" && !isPort(port) {
			return netip.Addr{}
		}
		addr := parseAddr(host)
		if strings.IndexByte(host, ':') < 0 { // brackets are for IPv6
			return netip.Addr{}
		}
		return addr
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		if !isPort(s[i:]) {
			return netip.Addr{}
		}
		s = s[:i]
	}
	return parseAddr(s)
}

func parseAddr(s string) netip.Addr {
	// The parser's error would hold a copy of what a client wrote; a look at
	// the first byte spares that for words such as "unknown".
	if s == "" || s[0] > 'f' {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// isPort says whether s is a colon and a port.
func isPort(s string) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != ':' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
