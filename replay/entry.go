package replay

import "bytes"

// An entry is one request of a log: its time, its line, and where the fields
// stand in the line. Fields are offsets, so that copying an entry needs no
// string of its own.
type entry struct {
	at    int64 // Unix time in nanoseconds
	line  []byte
	known [numFields]span
	extra []extra
}

// A span is a part of an entry's line; the zero value is an absent field.
type span struct{ from, to uint32 }

// An extra is a field that only this log has.
type extra struct{ name, value span }

// A field is one that every log may have.
type field uint8

const (
	fieldIP field = iota
	fieldUser
	fieldMethod
	fieldPath
	fieldStatus
	fieldReferer
	fieldAgent
	fieldHost
	fieldTenant
	numFields
)

func (e *entry) text(s span) []byte { return e.line[s.from:s.to] }

// reset makes the entry empty and keeps its memory.
func (e *entry) reset(line []byte) {
	e.at, e.line, e.known, e.extra = 0, line, [numFields]span{}, e.extra[:0]
}

// copyFrom makes the entry independent of what the other's line lies in.
func (e *entry) copyFrom(from *entry) {
	e.at, e.known = from.at, from.known
	e.line = append(e.line[:0], from.line...)
	e.extra = append(e.extra[:0], from.extra...)
}

// setRequest splits a request line such as "GET /a?b HTTP/1.1". A request that
// is none, as a probe that speaks TLS to a plain port leaves it, has neither
// method nor path.
func (e *entry) setRequest(s span) {
	text := e.text(s)
	space := bytes.IndexByte(text, ' ')
	if space <= 0 || !isMethod(text[:space]) {
		return
	}
	end := len(text)
	if last := bytes.LastIndexByte(text, ' '); last > space && bytes.HasPrefix(text[last+1:], []byte("HTTP/")) {
		end = last
	}
	e.known[fieldMethod] = span{s.from, s.from + uint32(space)}
	e.setTarget(span{s.from + uint32(space) + 1, s.from + uint32(end)})
}

func isMethod(text []byte) bool {
	for _, c := range text {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// setTarget takes the path from what was asked for: without the query, and
// without the scheme and host that a proxy is sent. Percent escapes stay.
func (e *entry) setTarget(s span) {
	text := e.text(s)
	if i := bytes.IndexByte(text, '?'); i >= 0 {
		text = text[:i]
	}
	if i := bytes.IndexByte(text, '#'); i >= 0 {
		text = text[:i]
	}
	from := s.from
	for _, scheme := range [...]string{"http://", "https://"} {
		if len(text) <= len(scheme) || !bytes.EqualFold(text[:len(scheme)], []byte(scheme)) {
			continue
		}
		from += uint32(len(scheme))
		text = text[len(scheme):]
		slash := bytes.IndexByte(text, '/')
		if slash < 0 {
			slash = len(text)
		}
		if e.known[fieldHost] == (span{}) {
			e.known[fieldHost] = span{from, from + uint32(slash)}
		}
		from, text = from+uint32(slash), text[slash:]
		break
	}
	e.known[fieldPath] = span{from, from + uint32(len(text))}
}

// hexByte reads two hexadecimal digits.
func hexByte(text []byte) (byte, bool) {
	if len(text) < 2 {
		return 0, false
	}
	high, ok1 := hexDigit(text[0])
	low, ok2 := hexDigit(text[1])
	return high<<4 | low, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
