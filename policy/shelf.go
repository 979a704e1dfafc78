package policy

import (
	"encoding/binary"
	"slices"
)

// A shelf is a persistent hash table of packed entries: a copy with a few
// changes shares all pages but those that were written to. A reader touches the
// head of a page, its list of tags and one entry. The zero value is empty.
type shelf struct {
	chunks [][]page // 64 pages each, or one chunk of fewer; the number of pages is a power of two
	log    uint8    // of the number of pages
	count  int
}

// A page holds the entries whose tags begin with its number.
type page struct {
	slots []uint64 // tag and, in the low half, where the entry begins in data
	data  []byte   // each entry behind its length
}

const (
	chunkLog  = 6
	chunkSize = 1 << chunkLog
	fullPage  = 32 // entries a page, on average, before the pages are doubled
)

// page returns the page of a tag, which must not be changed.
func (s *shelf) page(tag uint32) *page {
	if s.chunks == nil {
		return &noPage
	}
	n := uint64(tag) >> (32 - s.log)
	return &s.chunks[n>>chunkLog][n&(chunkSize-1)]
}

// noPage is the page of an empty shelf; nobody writes to it.
var noPage page

// next returns the first slot from i on that has a tag; -1: none.
func (p *page) next(tag uint32, i int) int {
	for ; i < len(p.slots); i++ {
		if uint32(p.slots[i]>>32) == tag {
			return i
		}
	}
	return -1
}

// entry returns the entry of a slot.
func (p *page) entry(i int) []byte {
	data := p.data[uint32(p.slots[i]):]
	n, size := binary.Uvarint(data)
	return data[size : size+int(n)]
}

// each calls f with every entry until f returns false.
func (s *shelf) each(f func(entry []byte) bool) {
	for _, chunk := range s.chunks {
		for i := range chunk {
			for j := range chunk[i].slots {
				if !f(chunk[i].entry(j)) {
					return
				}
			}
		}
	}
}

// A shelver changes a shelf that nobody else sees yet.
type shelver struct {
	shelf
	chunkOwned []bool
	pageOwned  []bool
}

// edit begins a changed copy.
func (s shelf) edit() *shelver {
	e := &shelver{shelf: s}
	if s.chunks == nil {
		e.chunks = [][]page{make([]page, 1)}
	}
	e.chunks = slices.Clone(e.chunks)
	e.chunkOwned = make([]bool, len(e.chunks))
	e.pageOwned = make([]bool, 1<<e.log)
	return e
}

// own returns the page of a tag, which may be changed.
func (e *shelver) own(tag uint32) *page {
	n := uint64(tag) >> (32 - e.log)
	if c := n >> chunkLog; !e.chunkOwned[c] {
		e.chunks[c] = slices.Clone(e.chunks[c])
		e.chunkOwned[c] = true
	}
	p := &e.chunks[n>>chunkLog][n&(chunkSize-1)]
	if !e.pageOwned[n] {
		// Room for one entry more: most edits add or replace one.
		p.slots = append(make([]uint64, 0, len(p.slots)+1), p.slots...)
		p.data = append(make([]byte, 0, len(p.data)+128), p.data...)
		e.pageOwned[n] = true
	}
	return p
}

// insert puts an entry into a slot of its tag's page; those from there on move.
func (e *shelver) insert(tag uint32, slot int, entry []byte) {
	p := e.own(tag)
	p.slots = slices.Insert(p.slots, slot, uint64(tag)<<32|uint64(len(p.data)))
	p.data = appendSized(p.data, entry)
	if e.count++; e.count > fullPage<<e.log {
		e.grow()
	}
}

// remove takes the entry of a slot away.
func (e *shelver) remove(tag uint32, slot int) {
	p := e.own(tag)
	start := uint32(p.slots[slot])
	n, size := binary.Uvarint(p.data[start:])
	length := uint32(size) + uint32(n)
	p.slots = slices.Delete(p.slots, slot, slot+1)
	p.data = slices.Delete(p.data, int(start), int(start+length))
	for i := range p.slots {
		if uint32(p.slots[i]) > start {
			p.slots[i] -= uint64(length)
		}
	}
	e.count--
}

// grow doubles the pages. Entries of one tag stay in their order.
func (e *shelver) grow() {
	old := e.shelf
	e.log++
	pages := 1 << e.log
	e.chunks = make([][]page, (pages+chunkSize-1)/chunkSize)
	for i := range e.chunks {
		e.chunks[i] = make([]page, min(pages, chunkSize))
	}
	e.chunkOwned, e.pageOwned = owned(len(e.chunks)), owned(pages)
	for _, chunk := range old.chunks {
		for i := range chunk {
			e.split(&chunk[i])
		}
	}
}

// split spreads the entries of a page over the two that take its place.
func (e *shelver) split(old *page) {
	for i, slot := range old.slots {
		p := e.own(uint32(slot >> 32))
		if p.slots == nil {
			p.slots = make([]uint64, 0, len(old.slots))
			p.data = make([]byte, 0, len(old.data))
		}
		p.slots = append(p.slots, slot&^uint64(1<<32-1)|uint64(len(p.data)))
		p.data = appendSized(p.data, old.entry(i))
	}
}

func appendSized(dst, entry []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(entry))), entry...)
}

func owned(n int) []bool { return slices.Repeat([]bool{true}, n) }

// done returns the changed shelf. The shelver must not be used any more. Pages
// that were written to are trimmed.
func (e *shelver) done() shelf {
	for n, owned := range e.pageOwned {
		if !owned {
			continue
		}
		p := &e.chunks[n>>chunkLog][n&(chunkSize-1)]
		if cap(p.data)-len(p.data) > len(p.data)/8 {
			p.data = append(make([]byte, 0, len(p.data)), p.data...)
		}
		if cap(p.slots)-len(p.slots) > len(p.slots)/8 {
			p.slots = append(make([]uint64, 0, len(p.slots)), p.slots...)
		}
	}
	return e.shelf
}
