package replay

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errJSON  = errors.New("not a JSON object: cut off, or a letter where none may be")
	errDepth = errors.New("JSON nested deeper than 64")
)

// maxDepth bounds the nesting of a line, and so the stack.
const maxDepth = 64

// A scanner reads the text of one JSON value. Strings are unescaped in place,
// which never makes them longer.
type scanner struct {
	buf []byte // the value is in buf[:end]; names may be appended behind
	end int
	i   int
}

// A kind is what a JSON value is.
type kind uint8

const (
	kindNone kind = iota // null
	kindText
	kindNumber
	kindBool
	kindObject
	kindArray
)

// peek skips white space and returns the byte at hand, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.i < s.end; s.i++ {
		if c := s.buf[s.i]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// next skips white space and the byte c, and says whether it was there.
func (s *scanner) next(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// kind tells the value at hand by its first byte.
func (s *scanner) kind() (kind, bool) {
	switch c := s.peek(); {
	case c == '"':
		return kindText, true
	case c == '{':
		return kindObject, true
	case c == '[':
		return kindArray, true
	case c == 't' || c == 'f':
		return kindBool, true
	case c == 'n':
		return kindNone, true
	case c == '-' || c >= '0' && c <= '9':
		return kindNumber, true
	}
	return kindNone, false
}

// scalar reads a value that is neither object nor array.
func (s *scanner) scalar(k kind) (span, bool) {
	switch k {
	case kindText:
		return s.text()
	case kindNumber:
		return s.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.buf[s.i:s.end], []byte(word)) {
			from := s.i
			s.i += len(word)
			return span{uint32(from), uint32(s.i)}, true
		}
	}
	return span{}, false
}

// number reads a number by the grammar of RFC 8259.
func (s *scanner) number() (span, bool) {
	from := s.i
	if s.at() == '-' {
		s.i++
	}
	if s.at() == '0' {
		s.i++
	} else if !s.digits() {
		return span{}, false
	}
	if s.at() == '.' {
		if s.i++; !s.digits() {
			return span{}, false
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.i++
		if c := s.at(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return span{}, false
		}
	}
	return span{uint32(from), uint32(s.i)}, true
}

// at returns the byte at hand, 0 at the end.
func (s *scanner) at() byte {
	if s.i < s.end {
		return s.buf[s.i]
	}
	return 0
}

// digits skips digits and says whether there was one.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < s.end && s.buf[s.i] >= '0' && s.buf[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// text reads the string at hand and unescapes it.
func (s *scanner) text() (span, bool) {
	if s.at() != '"' {
		return span{}, false
	}
	s.i++
	from := s.i
	for ; s.i < s.end; s.i++ {
		switch c := s.buf[s.i]; {
		case c == '"':
			s.i++
			return span{uint32(from), uint32(s.i - 1)}, true
		case c == '\\':
			return s.escapedText(from)
		case c < ' ':
			return span{}, false
		}
	}
	return span{}, false
}

// escapedText reads the rest of a string from its first backslash on.
func (s *scanner) escapedText(from int) (span, bool) {
	to := s.i
	for s.i < s.end {
		c := s.buf[s.i]
		s.i++
		switch {
		case c == '"':
			return span{uint32(from), uint32(to)}, true
		case c < ' ':
			return span{}, false
		case c != '\\':
			s.buf[to] = c
			to++
			continue
		}
		r, ok := s.escape()
		if !ok {
			return span{}, false
		}
		to += utf8.EncodeRune(s.buf[to:to+utf8.UTFMax], r)
	}
	return span{}, false
}

// escape reads what follows a backslash.
func (s *scanner) escape() (rune, bool) {
	c := s.at()
	s.i++
	if c == 'u' {
		return s.unicodeEscape()
	}
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), c); i >= 0 && c != 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	return 0, false
}

// unicodeEscape reads four digits, and a second escape where two make one
// character; half of a pair becomes the replacement character.
func (s *scanner) unicodeEscape() (rune, bool) {
	r, ok := s.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if s.i+1 < s.end && s.buf[s.i] == '\\' && s.buf[s.i+1] == 'u' {
		back := s.i
		s.i += 2
		low, ok := s.hex4()
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return pair, true
		}
		s.i = back
	}
	return utf8.RuneError, true
}

func (s *scanner) hex4() (rune, bool) {
	if s.i+4 > s.end {
		return 0, false
	}
	high, ok1 := hexByte(s.buf[s.i:])
	low, ok2 := hexByte(s.buf[s.i+2:])
	s.i += 4
	return rune(high)<<8 | rune(low), ok1 && ok2
}
