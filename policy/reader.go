package policy

import (
	"hash/maphash"
	"net/netip"
	"strings"
)

// A reader asks a request for its attributes, each at most once, and keeps what
// is computed from them. Attributes are known by their number in the set.
type reader struct {
	set      *Set
	ask      Attributes
	without  string
	readings []reading
}

// A reading is what is known of one attribute's value.
type reading struct {
	value  string
	hash   uint64
	addr   netip.Addr // not valid: the value is no address
	bits   int        // of the address, less where the value is a prefix
	word   int        // the value's number among the words of the shape that is tried
	asked  bool
	hashed bool
	parsed bool
}

func (q *reader) begin(set *Set, r *Request) {
	q.set, q.ask, q.without = set, r.Attributes, r.Without
	n := len(set.attributes)
	if cap(q.readings) < n {
		q.readings = make([]reading, n)
		return
	}
	q.readings = q.readings[:n]
	for i := range q.readings {
		q.readings[i].asked = false
	}
}

// read returns the reading of an attribute with its value.
func (q *reader) read(attribute int) *reading {
	r := &q.readings[attribute]
	if r.asked {
		return r
	}
	r.asked, r.hashed, r.parsed = true, false, false
	r.value = ""
	if name := q.set.attributes[attribute]; q.ask != nil && name != q.without {
		r.value = q.ask(name)
	}
	return r
}

func (q *reader) value(attribute int) string { return q.read(attribute).value }

// hash returns the hash of an attribute's whole value.
func (q *reader) hash(attribute int) uint64 {
	r := q.read(attribute)
	if !r.hashed {
		r.hash, r.hashed = maphash.String(q.set.seed, r.value), true
	}
	return r.hash
}

// address returns an attribute's value as an address and the number of its bits
// that are known: all, unless the value is a prefix, as the group of an IPv6
// client is. A v4-mapped address is a v4 one. ok is false for other values.
func (q *reader) address(attribute int) (addr netip.Addr, bits int, ok bool) {
	r := q.read(attribute)
	if !r.parsed {
		r.addr, r.bits = parseAddress(r.value)
		r.parsed = true
	}
	return r.addr, r.bits, r.addr.IsValid()
}

func parseAddress(s string) (netip.Addr, int) {
	// A parse error would allocate; most values that are no addresses do not
	// look like one.
	if s == "" || len(s) > 64 || strings.IndexByte(s, '.') < 0 && strings.IndexByte(s, ':') < 0 {
		return netip.Addr{}, 0
	}
	if strings.IndexByte(s, '/') >= 0 {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return netip.Addr{}, 0
		}
		p = unmapPrefix(p)
		return p.Addr(), p.Bits()
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, 0
	}
	addr = addr.Unmap().WithZone("")
	return addr, addr.BitLen()
}

// unmapPrefix returns the v4 form of a prefix of v4-mapped addresses.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
