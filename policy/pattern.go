package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// A pattern is one way in which an attribute's value may match.
type pattern struct {
	kind     patternKind
	text     string       // exactValue: the value
	segments []string     // globValue: what stands between the stars, at least 2, the first and the last maybe empty
	prefix   netip.Prefix // addressRange
}

// unknownAddress is the value of ip for a client without an address.
const unknownAddress = "unknown"

type patternKind uint8

const (
	anyValue     patternKind = iota // all but ""
	exactValue                      // one value
	globValue                       // literal text and any text in turn
	addressRange                    // the addresses of a CIDR
)

func parsePattern(s string) (pattern, error) {
	segments := splitStars(s)
	if len(segments) == 1 {
		if strings.Contains(s, "/") && !strings.Contains(s, `\`) {
			if prefix, err := netip.ParsePrefix(s); err == nil {
				return rangePattern(s, prefix)
			}
		}
		return pattern{kind: exactValue, text: segments[0]}, nil
	}
	if strings.Trim(s, "*") == "" {
		return pattern{kind: anyValue}, nil
	}
	return pattern{kind: globValue, segments: segments}, nil
}

// parseFor parses a pattern for the values of an attribute. Those of ip are
// addresses, so that what is none could never match, and one address written in
// another way is the same address.
func parseFor(attribute, s string) (pattern, error) {
	p, err := parsePattern(s)
	if err != nil || attribute != "ip" || p.kind != exactValue || p.text == "" || p.text == unknownAddress {
		return p, err
	}
	addr, err := netip.ParseAddr(p.text)
	if err != nil {
		return pattern{}, fmt.Errorf("%q is no address and no network: want one such as 192.0.2.7 or 10.0.0.0/8, or a pattern with *", s)
	}
	p.text = addr.Unmap().WithZone("").String()
	return p, nil
}

func rangePattern(s string, prefix netip.Prefix) (pattern, error) {
	prefix = unmapPrefix(prefix)
	if prefix.Masked() != prefix {
		return pattern{}, fmt.Errorf("%q has address bits behind the prefix: want %v", s, prefix.Masked())
	}
	return pattern{kind: addressRange, prefix: prefix}, nil
}

// splitStars parts a pattern at its stars and resolves \* and \\. Stars that
// stand together are one. A pattern without a star is one segment.
func splitStars(s string) []string {
	if !strings.ContainsAny(s, `*\`) {
		return []string{s}
	}
	var segments []string
	var b strings.Builder
	starred := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '*' {
			if !starred {
				segments = append(segments, b.String())
				b.Reset()
			}
			starred = true
			continue
		}
		if c == '\\' && i+1 < len(s) && (s[i+1] == '*' || s[i+1] == '\\') {
			i++
			c = s[i]
		}
		b.WriteByte(c)
		starred = false
	}
	return append(segments, b.String())
}
