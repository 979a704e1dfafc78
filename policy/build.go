package policy

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

// A clause is a condition made ready: the attribute's number and its patterns.
type clause struct {
	attribute int
	patterns  []pattern
}

const (
	// maxCombinations bounds the entries that the lists of one match make.
	maxCombinations = 100_000
	// maxEntry bounds the bytes of one entry behind its header.
	maxEntry = math.MaxUint16
)

// A builder makes an index. Rules are added in their order.
type builder struct {
	seed   maphash.Seed
	shapes []*shapeBuilder
	byName map[string]*shapeBuilder
	name   []byte // scratch
	body   []byte // scratch
	choice []int  // scratch
}

// A shapeBuilder holds the entries of a shape in the order of their rules.
type shapeBuilder struct {
	shape
	hashes []uint64
	data   []byte // the entries
}

func newBuilder(seed maphash.Seed) *builder {
	return &builder{seed: seed, byName: map[string]*shapeBuilder{}}
}

// add takes the clauses of a rule, sorted by attribute, each with at least one
// pattern, together at most maxCombinations.
func (b *builder) add(rule uint32, clauses []clause) error {
	b.choice = append(b.choice[:0], make([]int, len(clauses))...)
	for {
		if err := b.addEntry(rule, clauses); err != nil {
			return err
		}
		i := 0
		for ; i < len(clauses); i++ {
			if b.choice[i]++; b.choice[i] < len(clauses[i].patterns) {
				break
			}
			b.choice[i] = 0
		}
		if i == len(clauses) {
			return nil
		}
	}
}

// addEntry adds the combination of the clauses' patterns that is chosen.
func (b *builder) addEntry(rule uint32, clauses []clause) error {
	s := b.shapeOf(clauses)
	if len(s.hashes) == 0 {
		s.first = rule
	}
	hash := uint64(0)
	b.body = b.body[:0]
	for i := range clauses {
		p := &clauses[i].patterns[b.choice[i]]
		b.body = appendPart(b.body, p)
		hash = mixPart(hash, b.seed, p)
	}
	if len(b.body) > maxEntry {
		return fmt.Errorf("the values are %d bytes long together: want at most %d", len(b.body), maxEntry)
	}
	if len(s.data)+len(b.body)+entryHeader > math.MaxUint32 {
		return fmt.Errorf("the overrides take over 4 GiB: want fewer")
	}
	s.hashes = append(s.hashes, hash)
	header := hash&0xffff | uint64(len(b.body))<<16 | uint64(rule)<<32
	s.data = append(binary.LittleEndian.AppendUint64(s.data, header), b.body...)
	return nil
}

// shapeOf returns the shape of the combination that is chosen.
func (b *builder) shapeOf(clauses []clause) *shapeBuilder {
	b.name = b.name[:0]
	for i := range clauses {
		p := partOf(clauses[i].attribute, &clauses[i].patterns[b.choice[i]])
		for _, n := range [...]int{p.attribute, int(p.kind), p.prefix, p.suffix, p.bits} {
			b.name = binary.AppendUvarint(b.name, uint64(n))
		}
		if p.v6 {
			b.name = append(b.name, '6')
		} else {
			b.name = append(b.name, '4')
		}
	}
	if s, ok := b.byName[string(b.name)]; ok {
		return s
	}
	s := &shapeBuilder{}
	for i := range clauses {
		p := partOf(clauses[i].attribute, &clauses[i].patterns[b.choice[i]])
		s.parts = append(s.parts, p)
		if p.kind != anyValue {
			s.matched++
		}
	}
	b.byName[string(b.name)] = s
	b.shapes = append(b.shapes, s)
	return s
}

// finish returns the index, and for each rule of which no entry can ever be
// found the rule before it that stands in its way.
func (b *builder) finish(rules int) (x *index, hidden map[uint32]uint32) {
	live := make([]bool, rules)
	hidden = map[uint32]uint32{}
	slices.SortStableFunc(b.shapes, func(s, t *shapeBuilder) int {
		return cmp.Or(cmp.Compare(t.matched, s.matched), cmp.Compare(s.first, t.first))
	})
	x = &index{shapes: make([]shape, 0, len(b.shapes))}
	for _, s := range b.shapes {
		s.fill(live, hidden)
		x.shapes = append(x.shapes, s.shape)
	}
	for rule := range hidden {
		if live[rule] {
			delete(hidden, rule)
		}
	}
	return x, hidden
}

// fill sorts the entries into buckets, two to four a bucket, and leaves out
// those that an equal one stands before.
func (s *shapeBuilder) fill(live []bool, hidden map[uint32]uint32) {
	s.shorten()
	log := max(1, bits.Len(uint(len(s.hashes)))-1) - 1
	s.shift = uint8(64 - log)
	next, order := s.sort(1 << log)
	s.starts = make([]uint32, 1, 1<<log+1)
	s.entries = make([]byte, 0, len(s.data))
	for bucket, i := 0, 0; bucket < 1<<log; bucket++ {
		start := len(s.entries)
		var seen map[string]uint32 // of a large bucket
		if next[bucket]-i > 16 {
			seen = make(map[string]uint32, next[bucket]-i)
		}
		for ; i < next[bucket]; i++ {
			entry := s.data[order[i]:]
			entry = entry[:entrySize(entry)]
			rule := entryRule(entry)
			if first, ok := twin(s.entries[start:], entry, seen); !ok {
				s.entries = append(s.entries, entry...)
				live[rule] = true
			} else if _, ok := hidden[rule]; !ok && first != rule {
				hidden[rule] = first
			}
		}
		s.starts = append(s.starts, uint32(len(s.entries)))
	}
	s.hashes, s.data = nil, nil
}

const (
	manyEntries = 1000 // below, a table fits the processor's cache as it is
	fewWords    = 16
)

// shorten replaces the values of exact parts that have only a few by their
// numbers, if there are many entries.
func (s *shapeBuilder) shorten() {
	if len(s.hashes) < manyEntries || slices.ContainsFunc(s.parts, func(p part) bool { return p.kind == globValue }) {
		return
	}
	words := s.words()
	short := make([]byte, 0, len(s.data))
	for data := s.data; len(data) > 0; {
		end := entrySize(data)
		entry, start := data[:end], len(short)
		short = append(short, entry[:entryHeader]...)
		s.eachPart(entry, func(i int, text, raw []byte) {
			if words[i] == nil {
				short = append(short, raw...)
			} else {
				short = append(short, byte(slices.Index(words[i], string(text))))
			}
		})
		binary.LittleEndian.PutUint16(short[start+2:], uint16(len(short)-start-entryHeader))
		data = data[end:]
	}
	s.data = short
	for i := range s.parts {
		s.parts[i].words = words[i]
	}
}

// words returns the values of each exact part; nil for one with many.
func (s *shapeBuilder) words() [][]string {
	words := make([][]string, len(s.parts))
	many := make([]bool, len(s.parts))
	for data := s.data; len(data) > 0; data = data[entrySize(data):] {
		s.eachPart(data[:entrySize(data)], func(i int, text, _ []byte) {
			if s.parts[i].kind != exactValue || many[i] || slices.Contains(words[i], string(text)) {
				return
			}
			if many[i] = len(words[i]) == fewWords; many[i] {
				words[i] = nil
				return
			}
			words[i] = append(words[i], string(text))
		})
	}
	return words
}

// eachPart calls f for each part of an entry without globs: with the text of an
// exact one, and with all its bytes.
func (s *shapeBuilder) eachPart(entry []byte, f func(i int, text, raw []byte)) {
	rest := entry[entryHeader:]
	for i := range s.parts {
		before := rest
		var text []byte
		switch s.parts[i].kind {
		case exactValue:
			text, rest = cutText(rest)
		case addressRange:
			rest = rest[16:]
		}
		f(i, text, before[:len(before)-len(rest)])
	}
}

// sort returns the offsets of all entries in the order of their buckets and,
// within one, of their rules; and for each bucket the end of its share.
func (s *shapeBuilder) sort(buckets int) (ends []int, order []uint32) {
	ends = make([]int, buckets+1)
	for _, hash := range s.hashes {
		ends[hash>>s.shift+1]++
	}
	for i := range buckets {
		ends[i+1] += ends[i]
	}
	order = make([]uint32, len(s.hashes))
	offset := 0
	for _, hash := range s.hashes {
		bucket := hash >> s.shift
		order[ends[bucket]] = uint32(offset)
		ends[bucket]++
		offset += entrySize(s.data[offset:])
	}
	return ends, order
}

func entrySize(entry []byte) int {
	return entryHeader + int(binary.LittleEndian.Uint16(entry[2:]))
}

func entryRule(entry []byte) uint32 { return binary.LittleEndian.Uint32(entry[4:]) }

// twin returns the rule of an entry of the bucket that equals one. If the
// bucket is large, seen holds its entries.
func twin(bucket, entry []byte, seen map[string]uint32) (rule uint32, ok bool) {
	body := entry[entryHeader:]
	if seen != nil {
		if rule, ok = seen[string(body)]; !ok {
			seen[string(body)] = entryRule(entry)
		}
		return rule, ok
	}
	for ; len(bucket) > 0; bucket = bucket[entrySize(bucket):] {
		if bytes.Equal(bucket[entryHeader:entrySize(bucket)], body) {
			return entryRule(bucket), true
		}
	}
	return 0, false
}
