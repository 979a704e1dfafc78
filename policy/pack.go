package policy

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/sluice-limiter/sluice"
)

// Rows are kept as bytes: as structs, 300,000 of them would be three times as
// large and work for each garbage collection. What a request needs stands
// first: the shape of the row, the number of its limit and the rate; behind it
// the row itself.

// The shapes of a row say which of its values a request must have.
const (
	tenantShape = 2
	routeShape  = 1
	shapes      = 4
	badShape    = shapes // of rows that do not count: they have no limit and no rate
)

func (r *Row) shape() int {
	shape := 0
	if r.Tenant != AnyValue {
		shape |= tenantShape
	}
	if r.Route != AnyValue {
		shape |= routeShape
	}
	return shape
}

// appendEntry packs a row and what it was resolved to.
func appendEntry(dst []byte, r *Row, shape, limit int, rate sluice.Limit) []byte {
	dst = append(dst, byte(shape))
	if shape != badShape {
		dst = binary.AppendUvarint(dst, uint64(limit))
		dst = append(dst, byte(rate.Algorithm), byte(rate.Calendar.Unit))
		dst = binary.AppendUvarint(dst, uint64(rate.Tokens))
		dst = binary.AppendUvarint(dst, uint64(rate.Burst))
		dst = binary.AppendUvarint(dst, uint64(rate.Per/time.Microsecond))
	}
	return r.AppendTo(dst)
}

// An entry is a packed row as far as a request needs it.
type entry struct {
	shape, limit int
	rate         sluice.Limit // the zone of a calendar is the limit's, and left out
	row          []byte
}

func cutEntry(data []byte) (e entry) {
	e.shape = int(data[0])
	if e.shape == badShape {
		e.row = data[1:]
		return e
	}
	limit, size := binary.Uvarint(data[1:])
	e.limit, data = int(limit), data[1+size:]
	e.rate.Algorithm, e.rate.Calendar.Unit = sluice.Algorithm(data[0]), sluice.CalendarUnit(data[1])
	data = data[2:]
	tokens, size := binary.Uvarint(data)
	data = data[size:]
	burst, size := binary.Uvarint(data)
	data = data[size:]
	micros, size := binary.Uvarint(data)
	e.rate.Tokens, e.rate.Burst, e.rate.Per = int64(tokens), int64(burst), time.Duration(micros)*time.Microsecond
	e.row = data[size:]
	return e
}

// AppendTo appends a form of the row that [CutRow] reads.
func (r *Row) AppendTo(dst []byte) []byte {
	dst = appendText(dst, r.Tenant)
	dst = appendText(dst, r.Route)
	dst = binary.AppendVarint(dst, r.ID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Sum))
	dst = binary.AppendVarint(dst, r.Capacity)
	dst = binary.AppendVarint(dst, r.Refill)
	expires := int64(0)
	if !r.Expires.IsZero() {
		expires = r.Expires.UnixMicro()
	}
	dst = binary.AppendVarint(dst, expires)
	for _, text := range [...]string{r.Limit, r.Period, r.Algorithm, r.Fault} {
		dst = appendText(dst, text)
	}
	return dst
}

// ErrRow says that bytes are no row.
var ErrRow = errors.New("not a row in the form of AppendTo")

// CutRow reads a row that [Row.AppendTo] wrote at the beginning of data and
// returns what follows it. The error is [ErrRow].
func CutRow(data []byte) (r Row, rest []byte, err error) {
	c := cutter{rest: data}
	r.Tenant, r.Route = c.text(), c.text()
	r.ID, r.Sum = c.varint(), c.fixed()
	r.Capacity, r.Refill = c.varint(), c.varint()
	if expires := c.varint(); expires != 0 {
		r.Expires = time.UnixMicro(expires)
	}
	r.Limit, r.Period, r.Algorithm, r.Fault = c.text(), c.text(), c.text(), c.text()
	if c.failed {
		return Row{}, nil, ErrRow
	}
	return r, c.rest, nil
}

// A cutter reads values one by one; once it failed it returns zeros.
type cutter struct {
	rest   []byte
	failed bool
}

func (c *cutter) take(n int) []byte {
	if c.failed || n < 0 || n > len(c.rest) {
		c.failed = true
		return nil
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cutter) text() string {
	n, size := binary.Uvarint(c.rest)
	if size <= 0 || n > uint64(len(c.rest)) {
		c.failed = true
		return ""
	}
	c.take(size)
	return string(c.take(int(n)))
}

func (c *cutter) varint() int64 {
	n, size := binary.Varint(c.rest)
	if size <= 0 {
		c.failed = true
		return 0
	}
	c.take(size)
	return n
}

func (c *cutter) fixed() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}
