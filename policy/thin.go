package policy

import "slices"

func (l *compiled) matches(q *reader) bool { return holds(l.Match, q) }

func (l *compiled) override(q *reader) *Rule {
	var best *Rule
	for i := range l.Overrides {
		r := &l.Overrides[i]
		if holds(r.Match, q) && (best == nil || len(r.Match) > len(best.Match)) {
			best = r
		}
	}
	return best
}

func holds(match []Condition, q *reader) bool {
	for _, c := range match {
		v := ""
		if q.ask != nil && c.Attribute != q.without {
			v = q.ask(c.Attribute)
		}
		if !slices.Contains(c.Patterns, v) && !(v != "" && slices.Contains(c.Patterns, "*")) {
			return false
		}
	}
	return true
}
