package policy

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"

	"github.com/sluice-limiter/sluice"
)

// rows are the rows that a set was given. They are immutable: an edit makes
// others, which share all pages that it left alone.
type rows struct {
	entries shelf            // by limit, shape, tenant and route; of equals the one in force first
	ids     shelf            // the tag in entries of each row
	names   shelf            // the tenants that rows name, and in how many rows
	counts  [][shapes]uint32 // rows that count, by limit and shape
	bad     int
	sum     int64
	tenant  int // numbers of these attributes
	route   int
}

// A Found is the row in force for a request. The zero value is none.
type Found struct{ row []byte }

// Row returns the row; ok is false if there is none.
func (f Found) Row() (r Row, ok bool) {
	if f.row == nil {
		return Row{}, false
	}
	r, _, err := CutRow(f.row)
	return r, err == nil
}

// row returns the row in force for a limit: of those that match, the one with
// the most values that are not *, a tenant rather than a route.
func (s *Set) row(q *reader, limit int) (e entry, ok bool) {
	if s.rows == nil {
		return entry{}, false
	}
	counts := &s.rows.counts[limit]
	for shape := shapes - 1; shape >= 0; shape-- {
		if counts[shape] == 0 {
			continue
		}
		if e, ok := s.rows.find(q, limit, shape); ok {
			if e.rate.Calendar.Unit != sluice.CalendarNone {
				e.rate.Calendar.Zone = s.limits[limit].Default.Calendar.Zone
			}
			return e, true
		}
	}
	return entry{}, false
}

// find returns the row of one shape that matches.
func (t *rows) find(q *reader, limit, shape int) (e entry, ok bool) {
	h := rowHash(limit, shape)
	if shape&tenantShape != 0 {
		h = mix(h, q.hash(t.tenant))
	}
	if shape&routeShape != 0 {
		h = mix(h, q.hash(t.route))
	}
	tag := uint32(h >> 32)
	p := t.entries.page(tag)
	for i := p.next(tag, 0); i >= 0; i = p.next(tag, i+1) {
		e := cutEntry(p.entry(i))
		if e.shape != shape || e.limit != limit {
			continue
		}
		tenant, rest := cutText(e.row)
		route, _ := cutText(rest)
		if (shape&tenantShape == 0 || string(tenant) == q.value(t.tenant)) &&
			(shape&routeShape == 0 || string(route) == q.value(t.route)) {
			return e, true
		}
	}
	return entry{}, false
}

func rowHash(limit, shape int) uint64 { return mix(0, uint64(limit)*(shapes+1)+uint64(shape)+1) }

// matched returns how many values a row asks for.
func (e *entry) matched() int { return bits.OnesCount(uint(e.shape)) }

// tag returns the tag under which a row stands in entries.
func (r *Row) tag(seed maphash.Seed, limit, shape int) uint32 {
	h := rowHash(limit, shape)
	if shape&tenantShape != 0 {
		h = mix(h, maphash.String(seed, r.Tenant))
	}
	if shape&routeShape != 0 {
		h = mix(h, maphash.String(seed, r.Route))
	}
	if shape == badShape {
		h = mix(h, uint64(r.ID)) // nobody looks for them together
	}
	return uint32(h >> 32)
}

// idTag returns the tag under which a row's number stands in ids.
func idTag(id int64) uint32 { return uint32(mix(mix(0, uint64(id)), 1) >> 32) }

func nameTag(seed maphash.Seed, name string) uint32 {
	return uint32(mix(0, maphash.String(seed, name)) >> 32)
}

// RowCount returns how many rows the set has, those that do not count too.
func (s *Set) RowCount() int {
	if s.rows == nil {
		return 0
	}
	return s.rows.entries.count
}

// RowSum returns the sum of all rows' Sum, which wraps around: if it and the
// number of rows are those of where the rows come from, nothing is amiss.
func (s *Set) RowSum() int64 {
	if s.rows == nil {
		return 0
	}
	return s.rows.sum
}

// Rows returns all rows, those that do not count too, in no order.
func (s *Set) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		if s.rows == nil {
			return
		}
		s.rows.entries.each(func(data []byte) bool {
			r, _, err := CutRow(cutEntry(data).row)
			return err != nil || yield(r)
		})
	}
}

// Row returns a row by its number.
func (s *Set) Row(id int64) (r Row, ok bool) {
	if s.rows == nil {
		return Row{}, false
	}
	_, _, e, ok := s.rows.locate(id)
	if !ok {
		return Row{}, false
	}
	r, _, err := CutRow(e.row)
	return r, err == nil
}

// locate finds the entry of a row.
func (t *rows) locate(id int64) (tag uint32, slot int, e entry, ok bool) {
	at := t.ids.page(idTag(id))
	for i := at.next(idTag(id), 0); i >= 0; i = at.next(idTag(id), i+1) {
		if known := at.entry(i); idOf(known) == id {
			tag = binary.LittleEndian.Uint32(known[8:])
			p := t.entries.page(tag)
			for j := p.next(tag, 0); j >= 0; j = p.next(tag, j+1) {
				if e := cutEntry(p.entry(j)); e.id() == id {
					return tag, j, e, true
				}
			}
		}
	}
	return 0, 0, entry{}, false
}

func idOf(known []byte) int64 { return int64(binary.LittleEndian.Uint64(known)) }

// id returns the number of a packed row.
func (e *entry) id() int64 {
	_, rest := cutText(e.row)
	_, rest = cutText(rest)
	id, _ := binary.Varint(rest)
	return id
}

// BadRowCount returns how many rows do not count.
func (s *Set) BadRowCount() int {
	if s.rows == nil {
		return 0
	}
	return s.rows.bad
}

// BadRows returns rows that do not count, at most so many, and why.
func (s *Set) BadRows(most int) []BadRow {
	if s.BadRowCount() == 0 {
		return nil
	}
	var found []BadRow
	s.rows.entries.each(func(data []byte) bool {
		if data[0] != badShape {
			return true
		}
		r, _, err := CutRow(data[1:])
		if err == nil {
			_, _, err = s.resolve(&r)
		}
		if err != nil {
			found = append(found, BadRow{r, err.Error()})
		}
		return len(found) < most
	})
	slices.SortFunc(found, func(a, b BadRow) int { return int(min(1, max(-1, a.ID-b.ID))) })
	return found
}

// Names says whether a row names a value of an attribute: only tenants are
// looked for.
func (s *Set) Names(attribute, value string) bool {
	if s.rows == nil || attribute != "tenant" || s.rows.names.count == 0 {
		return false
	}
	_, _, ok := s.rows.names.name(nameTag(s.seed, value), value)
	return ok
}

// name returns in which slot a name stands and how many rows have it.
func (s *shelf) name(tag uint32, name string) (slot int, n uint64, ok bool) {
	p := s.page(tag)
	for i := p.next(tag, 0); i >= 0; i = p.next(tag, i+1) {
		text, rest := cutText(p.entry(i))
		if string(text) == name {
			n, _ = binary.Uvarint(rest)
			return i, n, true
		}
	}
	return 0, 0, false
}
