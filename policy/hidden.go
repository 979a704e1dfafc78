package policy

import "slices"

// hider returns an override that always wins over another: one before it of
// which it repeats every value, or one before it that matches as many
// attributes by a wider pattern. The second is looked for behind overrides with
// one exact value an attribute, the usual mistake.
func (l *compiled) hider(s *Set, rule int) (first int, ok bool) {
	if n, ok := l.hidden[uint32(rule)]; ok {
		return int(n), true
	}
	if !l.overrides.mixed() {
		return 0, false
	}
	q := reader{set: s, readings: make([]reading, len(s.attributes))}
	for i := range q.readings {
		q.readings[i].asked = true
	}
	for _, m := range l.Overrides[rule].Match {
		attribute := slices.Index(s.attributes, m.Attribute)
		if len(m.Patterns) != 1 || attribute < 0 {
			return 0, false
		}
		p, err := parseFor(m.Attribute, m.Patterns[0])
		if err != nil || p.kind != exactValue {
			return 0, false
		}
		q.readings[attribute].value = p.text
	}
	n, _ := l.overrides.find(&q)
	if n == none || int(n) >= rule || !within(l.Overrides[n].Match, l.Overrides[rule].Match) {
		return 0, false
	}
	return int(n), true
}

// mixed says whether some rule matches other than by exact values.
func (x *index) mixed() bool {
	return slices.ContainsFunc(x.shapes, func(s shape) bool {
		return slices.ContainsFunc(s.parts, func(p part) bool { return p.kind != exactValue })
	})
}

// within says whether one match asks only for attributes that another asks for.
func within(a, b []Condition) bool {
	for _, m := range a {
		if !slices.ContainsFunc(b, func(c Condition) bool { return c.Attribute == m.Attribute }) {
			return false
		}
	}
	return true
}
