package policy

import (
	"encoding/binary"
	"slices"
)

// A shelf is a persistent hash table of packed entries: a copy with a few
// changes shares all pages but those that were written to. With many entries
// the time of a look-up goes to waiting for memory, so there are few heads of
// pages, and the slots of a page lie before its entries. The zero value is
// empty.
type shelf struct {
	chunks [][]page // 64 pages each, or one chunk of fewer; the number of pages is a power of two
	log    uint8    // of the number of pages
	count  int
}

// A page holds the entries whose tags begin with its number.
type page struct {
	slots []byte // of each entry its tag, and before it where the entry begins in data
	data  []byte // each entry behind its length
}

const (
	chunkLog  = 6
	chunkSize = 1 << chunkLog
	fullPage  = 32 // entries a page, on average, before the pages are doubled
	slotSize  = 8
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

// len returns the number of entries.
func (p *page) len() int { return len(p.slots) / slotSize }

// next returns the first slot from i on that has a tag; -1: none.
func (p *page) next(tag uint32, i int) int {
	for at := i*slotSize + 4; at < len(p.slots); at += slotSize {
		if binary.LittleEndian.Uint32(p.slots[at:]) == tag {
			return at / slotSize
		}
	}
	return -1
}

// start returns where the entry of a slot begins.
func (p *page) start(i int) uint32 { return binary.LittleEndian.Uint32(p.slots[i*slotSize:]) }

// entry returns the entry of a slot.
func (p *page) entry(i int) []byte {
	data := p.data[p.start(i):]
	n, size := binary.Uvarint(data)
	return data[size : size+int(n)]
}

// each calls f with every entry until f returns false.
func (s *shelf) each(f func(entry []byte) bool) {
	for _, chunk := range s.chunks {
		for i := range chunk {
			for j := range chunk[i].len() {
				if !f(chunk[i].entry(j)) {
					return
				}
			}
		}
	}
}

// insert puts an entry into a slot; those from there on move.
func (p *page) insert(slot int, tag uint32, entry []byte) {
	var head [slotSize]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(p.data)))
	binary.LittleEndian.PutUint32(head[4:], tag)
	p.slots = slices.Insert(p.slots, slot*slotSize, head[:]...)
	p.data = append(binary.AppendUvarint(p.data, uint64(len(entry))), entry...)
}

// remove takes the entry of a slot away.
func (p *page) remove(slot int) {
	start := p.start(slot)
	n, size := binary.Uvarint(p.data[start:])
	length := uint32(size) + uint32(n)
	p.slots = slices.Delete(p.slots, slot*slotSize, (slot+1)*slotSize)
	p.data = slices.Delete(p.data, int(start), int(start+length))
	for i := range p.len() {
		if other := p.start(i); other > start {
			binary.LittleEndian.PutUint32(p.slots[i*slotSize:], other-length)
		}
	}
}

// copy returns a page that may be changed, with room for one entry more.
func (p *page) copy() page {
	return page{
		slots: append(make([]byte, 0, len(p.slots)+slotSize), p.slots...),
		data:  append(make([]byte, 0, len(p.data)+2*usualEntry), p.data...),
	}
}

// pack puts slots and entries side by side, without room for more.
func (p *page) pack() {
	all := append(append(make([]byte, 0, len(p.slots)+len(p.data)), p.slots...), p.data...)
	n := len(p.slots)
	p.slots, p.data = all[:n:n], all[n:]
}

// A shelver changes a shelf that nobody else sees yet.
type shelver struct {
	shelf
	// Which chunks and pages are not shared. While a shelf is filled, all are.
	all    bool
	chunks map[uint32]bool
	pages  map[uint32]bool
	// What a page is made for when it is written to first: entries, and the
	// bytes of each.
	room, size int
}

// shelve begins a shelf for about so many entries of a size.
func shelve(entries, size int) *shelver {
	e := &shelver{size: size}
	for fullPage<<e.log < entries {
		e.log++
	}
	e.allocate()
	e.room = (entries>>e.log)*9/8 + 1
	return e
}

// allocate makes empty pages.
func (e *shelver) allocate() {
	pages := 1 << e.log
	e.shelf.chunks = make([][]page, (pages+chunkSize-1)/chunkSize)
	for i := range e.shelf.chunks {
		e.shelf.chunks[i] = make([]page, min(pages, chunkSize))
	}
	e.all = true
}

// edit begins a changed copy.
func (s shelf) edit() *shelver {
	if s.chunks == nil {
		return shelve(0, 0)
	}
	e := &shelver{shelf: s, chunks: make(map[uint32]bool), pages: make(map[uint32]bool)}
	e.shelf.chunks = slices.Clone(s.chunks)
	return e
}

// own returns the page of a tag, which may be changed.
func (e *shelver) own(tag uint32) *page {
	n := uint32(uint64(tag) >> (32 - e.log))
	chunk := n >> chunkLog
	if !e.all && !e.chunks[chunk] {
		e.shelf.chunks[chunk] = slices.Clone(e.shelf.chunks[chunk])
		e.chunks[chunk] = true
	}
	p := &e.shelf.chunks[chunk][n&(chunkSize-1)]
	if e.all {
		if p.slots == nil {
			p.slots = make([]byte, 0, e.room*slotSize)
			p.data = make([]byte, 0, e.room*e.size)
		}
		return p
	}
	if !e.pages[n] {
		*p = p.copy()
		e.pages[n] = true
	}
	return p
}

// insert puts an entry into a slot of its tag's page; those from there on move.
func (e *shelver) insert(tag uint32, slot int, entry []byte) {
	e.own(tag).insert(slot, tag, entry)
	if e.count++; e.count > fullPage<<e.log {
		e.grow()
	}
}

// remove takes the entry of a slot of its tag's page away.
func (e *shelver) remove(tag uint32, slot int) {
	e.own(tag).remove(slot)
	e.count--
}

// grow doubles the pages. Entries of one tag stay in their order.
func (e *shelver) grow() {
	old := e.shelf
	e.log++
	e.room, e.size = fullPage, usualEntry
	e.allocate()
	for _, chunk := range old.chunks {
		for i := range chunk {
			for j := range chunk[i].len() {
				tag := binary.LittleEndian.Uint32(chunk[i].slots[j*slotSize+4:])
				p := e.own(tag)
				p.insert(p.len(), tag, chunk[i].entry(j))
			}
		}
	}
}

// done returns the changed shelf. The shelver must not be used any more.
func (e *shelver) done() shelf {
	if !e.all {
		for n := range e.pages {
			e.shelf.chunks[n>>chunkLog][n&(chunkSize-1)].pack()
		}
		return e.shelf
	}
	for _, chunk := range e.shelf.chunks {
		for i := range chunk {
			chunk[i].pack()
		}
	}
	return e.shelf
}
