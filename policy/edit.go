package policy

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// An Editor makes a set with other rows, beside the one it began with. What an
// edit costs goes by the rows that it changes, not by those there are. It
// serves one goroutine.
type Editor struct {
	set     *Set
	rows    rows
	entries *shelver
	ids     *shelver
	names   *shelver
	scratch []byte
}

// Edit begins with the rows of the set.
func (s *Set) Edit() *Editor {
	if s.rows == nil {
		return s.Refill(0)
	}
	return s.editor(*s.rows)
}

// The bytes of a packed row, as tables usually have them, and of an entry of
// ids.
const (
	usualEntry = 64
	knownEntry = 13
)

// Refill begins with no rows and makes room for about so many.
func (s *Set) Refill(expected int) *Editor {
	e := s.editor(rows{counts: make([][shapes]uint32, len(s.limits))})
	e.entries, e.ids = shelve(expected, usualEntry), shelve(expected, knownEntry)
	return e
}

func (s *Set) editor(r rows) *Editor {
	next := *s
	if next.seed == (maphash.Seed{}) {
		next.seed = maphash.MakeSeed() // of the set without limits
	}
	next.attributes = slices.Clone(s.attributes)
	r.tenant, r.route = next.number("tenant"), next.number("route")
	r.counts = slices.Clone(r.counts)
	return &Editor{set: &next, rows: r, entries: r.entries.edit(), ids: r.ids.edit(), names: r.names.edit()}
}

// Set returns the set with the rows as they are now. The editor must not be used
// any more.
func (e *Editor) Set() *Set {
	e.rows.entries, e.rows.ids, e.rows.names = e.entries.done(), e.ids.done(), e.names.done()
	e.set.rows = &e.rows
	return e.set
}

// Adopt returns the set with the rows of another.
func (s *Set) Adopt(from *Set) *Set {
	if from.rows == nil {
		return s
	}
	e := s.Refill(from.RowCount())
	for r := range from.Rows() {
		_ = e.Put(r) // BadRows tells of those that do not fit these limits
	}
	return e.Set()
}

// Same says whether two sets have the same limits and differ at most in their
// rows.
func (s *Set) Same(other *Set) bool {
	return len(s.limits) == len(other.limits) && s.seed == other.seed
}

// Put adds a row, or puts it in the place of the one with its number. One that
// makes no sense is kept and does not count; the error says why, and so does
// [Set.BadRows].
func (e *Editor) Put(r Row) error {
	e.Remove(r.ID)
	r = r.clip()
	limit, rate, err := e.set.resolve(&r)
	shape := r.shape()
	if err != nil {
		limit, shape = 0, badShape
		e.rows.bad++
	} else {
		e.rows.counts[limit][shape]++
	}
	tag := r.tag(e.set.seed, limit, shape)
	e.scratch = appendEntry(e.scratch[:0], &r, shape, limit, rate)
	e.entries.insert(tag, e.place(tag, &r, shape, limit), e.scratch)
	e.rows.sum += r.Sum
	known := binary.LittleEndian.AppendUint64(e.scratch[:0], uint64(r.ID))
	e.ids.insert(idTag(r.ID), e.ids.page(idTag(r.ID)).len(), binary.LittleEndian.AppendUint32(known, tag))
	e.count(r.Tenant, shape, 1)
	return err
}

// place returns the slot for a row: before those of the same tenant and route
// that it comes before.
func (e *Editor) place(tag uint32, r *Row, shape, limit int) int {
	p := e.entries.page(tag)
	if shape == badShape {
		return p.len()
	}
	for i := p.next(tag, 0); i >= 0; i = p.next(tag, i+1) {
		other := cutEntry(p.entry(i))
		if other.shape != shape || other.limit != limit {
			continue
		}
		if o, _, err := CutRow(other.row); err == nil && o.Tenant == r.Tenant && o.Route == r.Route && r.before(&o) {
			return i
		}
	}
	return p.len()
}

// before says which of two rows for the same is in force: one that expires, then
// the one with the larger number.
func (r *Row) before(o *Row) bool {
	if r.Expires.IsZero() != o.Expires.IsZero() {
		return o.Expires.IsZero()
	}
	return r.ID > o.ID
}

// Remove takes a row away and says whether it was there.
func (e *Editor) Remove(id int64) bool {
	now := rows{entries: e.entries.shelf, ids: e.ids.shelf}
	tag, slot, entry, ok := now.locate(id)
	if !ok {
		return false
	}
	r, _, err := CutRow(entry.row)
	if err != nil {
		return false
	}
	if entry.shape == badShape {
		e.rows.bad--
	} else {
		e.rows.counts[entry.limit][entry.shape]--
	}
	e.rows.sum -= r.Sum
	e.count(r.Tenant, entry.shape, -1)
	e.entries.remove(tag, slot)
	at := e.ids.page(idTag(id))
	for i := at.next(idTag(id), 0); i >= 0; i = at.next(idTag(id), i+1) {
		if idOf(at.entry(i)) == id {
			e.ids.remove(idTag(id), i)
			break
		}
	}
	return true
}

// count notes in how many rows that count a tenant is named.
func (e *Editor) count(name string, shape, by int) {
	if shape == badShape || shape&tenantShape == 0 {
		return
	}
	tag := nameTag(e.set.seed, name)
	slot, n, ok := e.names.name(tag, name)
	if ok {
		e.names.remove(tag, slot)
	}
	if n += uint64(by); n > 0 {
		text := appendText(e.scratch[:0], name)
		e.names.insert(tag, e.names.page(tag).len(), binary.AppendUvarint(text, n))
	}
}
