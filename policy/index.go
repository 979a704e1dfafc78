package policy

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
)

// An index finds the rule in force for a request among any number of rules, by
// tuple space search (Srinivasan, Suri, Varghese: Packet Classification using
// Tuple Space Search, 1999). The conditions of a rule have a shape: which
// attributes they ask for, and for each whether the value is exact, begins and
// ends with so many literal bytes, or lies in an address range of so many bits.
// All rules of a shape stand in one hash table, under the hash of those parts
// of the value that the shape looks at; lists make an entry for each
// combination. A look-up tries the shapes, those with the most matched
// attributes first, and stops when no later one can win.
//
// Its cost is bounded by the number of distinct shapes, not by that of rules.
// Only globs that agree in all but their middle, as *a* and *b* do, share a
// bucket and are tried one by one.
type index struct {
	shapes []shape
}

// A shape is the table of all entries of one shape. With many rules the time
// goes to waiting for memory, so that a look-up should touch two places: the
// start of a bucket in a small directory, and the bucket, whose entries are
// contiguous and hold all there is to compare.
type shape struct {
	parts   []part
	matched int      // conditions that count, those that ask for more than any value
	first   uint32   // the rule that stands first
	starts  []uint32 // where each bucket starts in entries, and the end of the last; their number is a power of two
	entries []byte   // in each bucket, those of rules that stand first come first
	shift   uint8    // 64 - log2(number of buckets)
}

// An entry has a header, two bytes each of its tag, the low bits of the hash,
// and of its size behind the header, and four of the number of its rule; and a
// part for each condition (see appendPart).
const entryHeader = 8

// A part is what a shape asks of one attribute.
type part struct {
	attribute      int
	kind           patternKind
	prefix, suffix int  // globValue: literal bytes
	bits           int  // addressRange: length of the prefix
	v6             bool // addressRange
	// words, if there are any, are all values of an exact part. Entries then
	// hold their numbers, which keeps the table of many rules small.
	words []string
}

// none is the number of no rule.
const none = ^uint32(0)

// met says whether any rule matches.
func (x *index) met(q *reader) bool {
	rule, _ := x.find(q)
	return rule != none
}

// find returns the rule in force: of those that match, one with the most
// matched attributes, and of these the first; and how many attributes it
// matches. It allocates nothing.
func (x *index) find(q *reader) (best uint32, matched int) {
	best = none
	for i := range x.shapes {
		s := &x.shapes[i]
		if best != none && s.matched < matched {
			break
		}
		if s.first > best {
			continue
		}
		if rule := s.lookup(q); rule < best {
			best, matched = rule, s.matched
		}
	}
	return best, matched
}

// lookup returns the first rule of a shape that matches.
func (s *shape) lookup(q *reader) uint32 {
	hash, ok := s.hash(q)
	if !ok {
		return none
	}
	bucket := hash >> s.shift
	entries := s.entries[s.starts[bucket]:s.starts[bucket+1]]
	for len(entries) > 0 {
		header := binary.LittleEndian.Uint64(entries)
		end := entryHeader + int(header>>16&0xffff)
		if uint16(header) == uint16(hash) && s.verify(q, entries[entryHeader:end]) {
			return uint32(header >> 32)
		}
		entries = entries[end:]
	}
	return none
}

// mix adds to a hash. The values mixed in are seeded hashes already, so that it
// need only keep apart their order.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// hash returns the hash of what the shape looks at; ok is false if the request
// cannot match any rule of the shape.
func (s *shape) hash(q *reader) (h uint64, ok bool) {
	for i := range s.parts {
		p := &s.parts[i]
		switch p.kind {
		case anyValue:
			if q.value(p.attribute) == "" {
				return 0, false
			}
		case exactValue:
			if p.words != nil {
				r := q.read(p.attribute)
				if r.word = slices.Index(p.words, r.value); r.word < 0 {
					return 0, false
				}
			}
			h = mix(h, q.hash(p.attribute))
		case globValue:
			value := q.value(p.attribute)
			if len(value) < p.prefix+p.suffix {
				return 0, false
			}
			h = mixGlob(h, q.set.seed, value[:p.prefix], value[len(value)-p.suffix:])
		case addressRange:
			prefix, ok := p.mask(q)
			if !ok {
				return 0, false
			}
			h = mixRange(h, q.set.seed, prefix)
		}
	}
	return h, true
}

func mixGlob(h uint64, seed maphash.Seed, prefix, suffix string) uint64 {
	return mix(mix(h, maphash.String(seed, prefix)), maphash.String(seed, suffix))
}

func mixRange(h uint64, seed maphash.Seed, prefix [16]byte) uint64 {
	return mix(h, maphash.Bytes(seed, prefix[:]))
}

// mask returns the leading bits of a request's address.
func (p *part) mask(q *reader) (prefix [16]byte, ok bool) {
	addr, bits, ok := q.address(p.attribute)
	if !ok || addr.Is4() == p.v6 || bits < p.bits {
		return prefix, false
	}
	masked, err := addr.Prefix(p.bits)
	return masked.Addr().As16(), err == nil
}

// verify compares a request with the parts of an entry, byte for byte.
func (s *shape) verify(q *reader, entry []byte) bool {
	for i := range s.parts {
		p := &s.parts[i]
		switch p.kind {
		case exactValue:
			if p.words != nil {
				if int(entry[0]) != q.readings[p.attribute].word {
					return false
				}
				entry = entry[1:]
				continue
			}
			var text []byte
			text, entry = cutText(entry)
			if string(text) != q.value(p.attribute) {
				return false
			}
		case globValue:
			var ok bool
			if entry, ok = verifyGlob(q.value(p.attribute), entry); !ok {
				return false
			}
		case addressRange:
			prefix, _ := p.mask(q)
			if !bytes.Equal(prefix[:], entry[:16]) {
				return false
			}
			entry = entry[16:]
		}
	}
	return true
}

// verifyGlob compares a value with the segments of a glob and returns what
// follows them. The value is long enough for the first and the last.
func verifyGlob(value string, entry []byte) ([]byte, bool) {
	n, size := binary.Uvarint(entry)
	entry = entry[size:]
	for i := range n {
		var segment []byte
		segment, entry = cutText(entry)
		switch i {
		case 0:
			if !strings.HasPrefix(value, string(segment)) {
				return nil, false
			}
			value = value[len(segment):]
		case n - 1:
			if !strings.HasSuffix(value, string(segment)) {
				return nil, false
			}
		default:
			at := strings.Index(value, string(segment))
			if at < 0 {
				return nil, false
			}
			value = value[at+len(segment):]
		}
	}
	return entry, true
}

// cutText parts a text with its length from what follows.
func cutText(entry []byte) (text, rest []byte) {
	n, size := binary.Uvarint(entry)
	end := size + int(n)
	return entry[size:end], entry[end:]
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// appendPart writes a condition of an entry. No writing is the beginning of
// another, so that entries of a shape can be compared as bytes.
func appendPart(dst []byte, p *pattern) []byte {
	switch p.kind {
	case exactValue:
		return appendText(dst, p.text)
	case globValue:
		dst = binary.AppendUvarint(dst, uint64(len(p.segments)))
		for _, s := range p.segments {
			dst = appendText(dst, s)
		}
	case addressRange:
		prefix := p.prefix.Addr().As16()
		dst = append(dst, prefix[:]...)
	}
	return dst
}

// partOf returns the part of a shape that a pattern belongs to.
func partOf(attribute int, p *pattern) part {
	part := part{attribute: attribute, kind: p.kind}
	switch p.kind {
	case globValue:
		part.prefix, part.suffix = len(p.segments[0]), len(p.segments[len(p.segments)-1])
	case addressRange:
		part.bits, part.v6 = p.prefix.Bits(), !p.prefix.Addr().Is4()
	}
	return part
}

// mixPart adds the hash of a pattern, as shape.hash does that of a value.
func mixPart(h uint64, seed maphash.Seed, p *pattern) uint64 {
	switch p.kind {
	case exactValue:
		return mix(h, maphash.String(seed, p.text))
	case globValue:
		return mixGlob(h, seed, p.segments[0], p.segments[len(p.segments)-1])
	case addressRange:
		return mixRange(h, seed, p.prefix.Addr().As16())
	}
	return h
}
