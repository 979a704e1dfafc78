package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"
)

// A key names one counter: the limit's name and each key attribute with its
// value, as in "tenant-route|tenant=shop-a|route=create-order". Different
// limits, attributes or values never share a key (long values but for a
// collision of SHA-256), and an operator can read it. The attributes' names are
// part of it, so that a changed list meets no old counter.

const (
	// maxValue is the longest value, in bytes, that a key spells out.
	maxValue = 64
	// hashBytes of SHA-256 stand for a longer value.
	hashBytes = 16
)

// appendValue writes an attribute's value: bytes that could be mistaken for
// structure, or that spoil a terminal or a cluster's hash tag, become %XX, and
// a value that is too long becomes # and its hash.
func appendValue(dst []byte, value string) []byte {
	if len(value) > maxValue {
		return appendHash(dst, value)
	}
	for i := 0; i < len(value); {
		c := value[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(value[i:])
			if r == utf8.RuneError && size == 1 {
				dst = appendEscape(dst, c)
			} else {
				dst = append(dst, value[i:i+size]...)
			}
			i += size
			continue
		case c < 0x21 || c == 0x7f || c == '%' || c == '|' || c == '{' || c == '}' || c == '#' && i == 0:
			dst = appendEscape(dst, c)
		default:
			dst = append(dst, c)
		}
		i++
	}
	return dst
}

const hexDigits = "0123456789ABCDEF"

func appendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
}

// appendHash writes # and the hash of a value. dst is the scratch space too, so
// that nothing is allocated.
func appendHash(dst []byte, value string) []byte {
	start := len(dst)
	dst = append(dst, value...)
	sum := sha256.Sum256(dst[start:])
	dst = append(dst[:start], '#')
	return hex.AppendEncode(dst, sum[:hashBytes])
}

// A cut marks a key, and its tag, in the text of all keys of a request.
type cut struct {
	start, end, tag, tagEnd int
	never                   bool // a shadow whose cost can never pass
}

// appendKey writes a limit's key for a request.
func (l *compiled) appendKey(dst []byte, q *reader) ([]byte, cut) {
	c := cut{start: len(dst)}
	dst = append(dst, l.Name...)
	for i, a := range l.key {
		dst = append(dst, l.labels[i]...)
		start := len(dst)
		if value := q.value(a); l.secret[i] && value != "" {
			dst = appendHash(dst, value)
		} else {
			dst = appendValue(dst, value)
		}
		if l.Key[i] == "tenant" {
			c.tag, c.tagEnd = start, len(dst)
		}
	}
	c.end = len(dst)
	return dst, c
}
