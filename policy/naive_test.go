package policy

import (
	"net/netip"
	"strings"
)

// The naive matcher is what the index must equal: it reads the rules as they
// are documented, one by one.

// naiveRule returns the number of the override in force; -1: none.
func naiveRule(l *Limit, ask Attributes) int {
	best, most := -1, -1
	for i := range l.Overrides {
		if matched, ok := naiveMatch(l.Overrides[i].Match, ask); ok && matched > most {
			best, most = i, matched
		}
	}
	return best
}

// naiveMatch says whether all conditions hold and how many count.
func naiveMatch(match []Condition, ask Attributes) (matched int, ok bool) {
	for _, c := range match {
		value := ask(c.Attribute)
		holds, counts := false, false
		for _, p := range c.Patterns {
			if strings.Trim(p, "*") == "" && p != "" {
				holds = holds || value != ""
			} else if naivePattern(p, value) {
				holds, counts = true, true
			}
		}
		if !holds {
			return 0, false
		}
		if counts {
			matched++
		}
	}
	return matched, true
}

func naivePattern(p, value string) bool {
	if prefix, err := netip.ParsePrefix(p); err == nil {
		if a := prefix.Addr(); a.Is4In6() { // the tests have only ones of 96 bits or more
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		addr, err := netip.ParseAddr(value)
		if err != nil {
			// An address of which only a prefix is known.
			known, err := netip.ParsePrefix(value)
			return err == nil && known.Bits() >= prefix.Bits() && prefix.Contains(known.Addr())
		}
		return prefix.Contains(addr.Unmap().WithZone(""))
	}
	return naiveGlob(p, value)
}

func naiveGlob(p, value string) bool {
	switch {
	case p == "":
		return value == ""
	case p[0] == '*':
		for i := range len(value) + 1 {
			if naiveGlob(p[1:], value[i:]) {
				return true
			}
		}
		return false
	case p[0] == '\\' && len(p) > 1 && (p[1] == '*' || p[1] == '\\'):
		p = p[1:]
	}
	return value != "" && value[0] == p[0] && naiveGlob(p[1:], value[1:])
}
