package replay

import (
	"bytes"
	"errors"
)

var errNoField = errors.New("no field holds the time: want time, ts, timestamp or @timestamp, or name yours")

// An object reads lines of JSON into entries.
type object struct {
	scanner
	fields map[string]alias
	times  *stamper
	e      *entry
	prefix []byte // the names of the objects around, "request.headers."
	ranks  [numFields + 2]uint8
	err    error // of the time
}

func newObject(fields map[string]string, times *stamper) *object {
	return &object{fields: aliases(fields), times: times}
}

// read reads a line, which stays as it is: the entry's line is a copy.
func (o *object) read(e *entry) error {
	line := e.line
	// Room for a last character that is written whole before it is cut.
	o.buf = append(append(o.buf[:0], line...), 0, 0, 0, 0)
	o.end, o.i, o.e = len(line), 0, e
	o.prefix, o.ranks, o.err = o.prefix[:0], [numFields + 2]uint8{}, errNoField
	e.line = o.buf
	if err := o.object(0); err != nil {
		e.line = line
		return err
	}
	if o.peek(); o.i != o.end {
		e.line = line
		return errJSON
	}
	e.line = o.buf
	return o.err
}

// object reads the object at hand, all its members.
func (o *object) object(depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if !o.next('{') {
		return errJSON
	}
	if o.next('}') {
		return nil
	}
	for {
		o.peek()
		name, ok := o.text()
		if !ok || !o.next(':') {
			return errJSON
		}
		outer := len(o.prefix)
		o.prefix = append(o.prefix, o.buf[name.from:name.to]...)
		err := o.value(name, depth)
		o.prefix = o.prefix[:outer]
		if err != nil {
			return err
		}
		if o.next('}') {
			return nil
		}
		if !o.next(',') {
			return errJSON
		}
	}
}

// value reads the value of the name that ends the prefix; name is where it
// stands in the line, if it stands there whole.
func (o *object) value(name span, depth int) error {
	k, ok := o.kind()
	switch {
	case !ok:
		return errJSON
	case k == kindObject:
		o.prefix = append(o.prefix, '.')
		return o.object(depth + 1)
	case k == kindArray:
		return o.array(name, depth+1)
	}
	value, ok := o.scalar(k)
	if !ok {
		return errJSON
	}
	if k != kindNone {
		o.keep(name, value, k)
	}
	return nil
}

// array reads an array and keeps its first element, if that is no object: logs
// of headers hold lists of values.
func (o *object) array(name span, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	o.next('[')
	if o.next(']') {
		return nil
	}
	for first := true; ; first = false {
		k, ok := o.kind()
		var err error
		switch {
		case !ok:
			err = errJSON
		case k == kindObject:
			// Named by nobody, but the line must be sound.
			outer := len(o.prefix)
			o.prefix = append(o.prefix, "[]."...)
			err = o.object(depth)
			o.prefix = o.prefix[:outer]
		case k == kindArray:
			outer := len(o.prefix)
			o.prefix = append(o.prefix, "[]"...)
			err = o.array(span{}, depth+1)
			o.prefix = o.prefix[:outer]
		case first:
			err = o.value(name, depth)
		default:
			if _, ok := o.scalar(k); !ok {
				err = errJSON
			}
		}
		if err != nil {
			return err
		}
		if o.next(']') {
			return nil
		}
		if !o.next(',') {
			return errJSON
		}
	}
}

// keep stores a value under the name that the prefix holds.
func (o *object) keep(name, value span, k kind) {
	a, known := o.fields[string(o.prefix)]
	if !known {
		o.keepExtra(name, value)
		return
	}
	if r := o.ranks[a.to]; r != 0 && r < a.rank {
		return
	}
	o.ranks[a.to] = a.rank
	switch a.to {
	case aliasTime:
		o.e.at, o.err = o.times.read(o.buf[value.from:value.to])
	case aliasRequest:
		if k == kindText {
			o.request(value)
		}
	case fieldPath:
		o.e.setTarget(value)
	default:
		o.e.known[a.to] = value
	}
}

// request splits a request line; fields of their own tell more.
func (o *object) request(value span) {
	before := o.e.known
	o.e.setRequest(value)
	for _, f := range [...]field{fieldMethod, fieldPath} {
		if o.ranks[f] != 0 {
			o.e.known[f] = before[f]
		}
	}
}

// keepExtra stores a value that only this log has. A nested name is written
// behind the line, where it stands whole.
func (o *object) keepExtra(name, value span) {
	if len(o.prefix) != int(name.to-name.from) {
		from := len(o.buf)
		o.buf = append(o.buf, o.prefix...)
		name = span{uint32(from), uint32(len(o.buf))}
		o.e.line = o.buf
	}
	o.e.extra = append(o.e.extra, extra{name, value})
}

// header returns the value of a header by its name, in the ways that logs spell
// it: Caddy's request.headers.X-A, Traefik's request_X-A, nginx' http_x_a, and
// X-A itself.
func (e *entry) header(name string) []byte {
	for i := len(e.extra) - 1; i >= 0; i-- {
		spelled := e.text(e.extra[i].name)
		for _, prefix := range [...]string{"request.headers.", "headers.", "request_", "http_", ""} {
			if rest, ok := bytes.CutPrefix(spelled, []byte(prefix)); ok && sameHeader(rest, name) {
				return e.text(e.extra[i].value)
			}
		}
	}
	return nil
}

// sameHeader compares names without regard to case, and _ as -.
func sameHeader(spelled []byte, name string) bool {
	if len(spelled) != len(name) {
		return false
	}
	fold := func(c byte) byte {
		switch {
		case c == '_':
			return '-'
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return c
	}
	for i, c := range spelled {
		if fold(c) != fold(name[i]) {
			return false
		}
	}
	return true
}
