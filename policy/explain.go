package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-limiter/sluice"
)

// An Explanation says what one limit makes of a request, and why.
type Explanation struct {
	Limit *Limit
	// Met says whether the limit applies to the request at all.
	Met bool
	// Unmet are the attributes of the limit's match whose conditions the
	// request does not meet; of a limit that is not met because the request
	// lacks its identity, that identity.
	Unmet []string
	// Key names the counter; "" if the limit is not met.
	Key string
	// Chosen is what holds for the request; the zero value if it is not met.
	Chosen Candidate
	// Lost are the overrides and rows that match too, the strongest first.
	Lost []Candidate
}

// A Candidate is a rule that matches a request: an override, a row, or with
// neither the limit's default.
type Candidate struct {
	Rule *Rule
	Row  Found
	// Limit is how much may pass; zero if unlimited.
	Limit     sluice.Limit
	Unlimited bool
	// Matched are the attributes that count.
	Matched []string
	// Why says what the candidate won or lost by.
	Why string
}

// Explain says of every limit, in the order of the configuration, whether it
// applies to a request and which rule wins. It reads all overrides one by one:
// it is for people, not for requests.
func (s *Set) Explain(r Request) []Explanation {
	var q reader
	q.begin(s, &r)
	all := make([]Explanation, 0, len(s.limits))
	for i := range s.limits {
		all = append(all, s.explain(&s.limits[i], &q))
	}
	return all
}

func (s *Set) explain(l *compiled, q *reader) Explanation {
	x := Explanation{Limit: l.Limit}
	if q.without != "" && l.needs(q.without) {
		x.Unmet = []string{q.without}
		return x
	}
	if !l.matches(q) {
		for _, c := range l.Match {
			if holds, _ := c.holds(s, q); !holds {
				x.Unmet = append(x.Unmet, c.Attribute)
			}
		}
		return x
	}
	x.Met = true
	text, c := l.appendKey(nil, q)
	x.Key = string(text[c.start:c.end])
	ranked := slices.Concat(s.rowCandidates(l, q), s.ruleCandidates(l, q))
	slices.SortStableFunc(ranked, func(a, b Candidate) int { return len(b.Matched) - len(a.Matched) })
	if len(ranked) == 0 {
		x.Chosen = Candidate{Limit: l.Default, Unlimited: l.Unlimited, Why: "no override matches: the default of the limit"}
		return x
	}
	x.Chosen, x.Lost = ranked[0], ranked[1:]
	x.Chosen.Why = "it matches the most attributes: " + strings.Join(x.Chosen.Matched, ", ")
	if len(x.Chosen.Matched) == 0 {
		x.Chosen.Why = "it matches every request, and nothing matches more"
	}
	for i := range x.Lost {
		x.Lost[i].Why = x.Lost[i].lostTo(&x.Chosen)
	}
	return x
}

// rowCandidates returns the rows that match, in the order of their strength.
func (s *Set) rowCandidates(l *compiled, q *reader) []Candidate {
	if s.rows == nil {
		return nil
	}
	var found []Candidate
	t := s.rows
	for shape := shapes - 1; shape >= 0; shape-- {
		if t.counts[l.number][shape] == 0 {
			continue
		}
		for _, e := range t.all(q, l.number, shape) {
			if e.rate.Calendar.Unit != sluice.CalendarNone {
				e.rate.Calendar.Zone = l.Default.Calendar.Zone
			}
			found = append(found, Candidate{Row: Found{e.row}, Limit: e.rate, Matched: e.matchedNames()})
		}
	}
	return found
}

// matchedNames returns the attributes that a row asks for.
func (e *entry) matchedNames() []string {
	var names []string
	if e.shape&tenantShape != 0 {
		names = append(names, "tenant")
	}
	if e.shape&routeShape != 0 {
		names = append(names, "route")
	}
	return names
}

// ruleCandidates returns the overrides that match, in their order.
func (s *Set) ruleCandidates(l *compiled, q *reader) []Candidate {
	var found []Candidate
	for i := range l.Overrides {
		r := &l.Overrides[i]
		if names, ok := r.meets(s, q); ok {
			found = append(found, Candidate{Rule: r, Limit: r.Limit, Unlimited: r.Unlimited, Matched: names})
		}
	}
	return found
}

// meets says whether a request meets all conditions of an override, and which of
// them count.
func (r *Rule) meets(s *Set, q *reader) (matched []string, ok bool) {
	for i := range r.Match {
		c := &r.Match[i]
		holds, counts := c.holds(s, q)
		if !holds {
			return nil, false
		}
		if counts {
			matched = append(matched, c.Attribute)
		}
	}
	return matched, true
}

// holds says whether a request meets a condition, and whether by more than
// having the attribute. The attribute is one that the set reads.
func (c *Condition) holds(s *Set, q *reader) (holds, counts bool) {
	number := slices.Index(s.attributes, c.Attribute)
	if number < 0 {
		return false, false
	}
	for _, text := range c.Patterns {
		p, err := parseFor(c.Attribute, text)
		if err != nil || !p.matches(q, number) {
			continue
		}
		holds = true
		counts = counts || p.kind != anyValue
	}
	return holds, counts
}

// matches says whether a pattern matches an attribute of a request.
func (p *pattern) matches(q *reader, attribute int) bool {
	value := q.value(attribute)
	switch p.kind {
	case anyValue:
		return value != ""
	case exactValue:
		return value == p.text
	case addressRange:
		addr, bits, ok := q.address(attribute)
		return ok && bits >= p.prefix.Bits() && p.prefix.Contains(addr)
	}
	return matchSegments(value, p.segments)
}

// matchSegments says whether a value is the segments in turn with any text
// between them.
func matchSegments(value string, segments []string) bool {
	last := len(segments) - 1
	rest, ok := strings.CutPrefix(value, segments[0])
	if !ok {
		return false
	}
	for _, middle := range segments[1:last] {
		_, behind, ok := strings.Cut(rest, middle)
		if !ok {
			return false
		}
		rest = behind
	}
	return strings.HasSuffix(rest, segments[last])
}

// lostTo says why a candidate stands behind the one that won.
func (c *Candidate) lostTo(winner *Candidate) string {
	row, isRow := c.Row.Row()
	won, winnerIsRow := winner.Row.Row()
	switch {
	case len(c.Matched) < len(winner.Matched):
		return fmt.Sprintf("it matches %d of the request's attributes, the winner %d", len(c.Matched), len(winner.Matched))
	case !isRow && winnerIsRow:
		return "of two that match as many attributes, a row of the table wins over an override of the file"
	case !isRow:
		return "of two that match as many attributes, the first in the file wins"
	case !slices.Equal(c.Matched, winner.Matched):
		return "a row for the tenant wins over one for the route"
	case row.Expires.IsZero() != won.Expires.IsZero():
		return "a row that expires wins over one that does not"
	}
	return fmt.Sprintf("of two rows for the same, the one with the larger id wins: %d over %d", won.ID, row.ID)
}

// all returns the rows of one shape that match, the one in force first.
func (t *rows) all(q *reader, limit, shape int) []entry {
	want := Row{Tenant: AnyValue, Route: AnyValue}
	if shape&tenantShape != 0 {
		want.Tenant = q.value(t.tenant)
	}
	if shape&routeShape != 0 {
		want.Route = q.value(t.route)
	}
	var found []entry
	tag := want.tag(q.set.seed, limit, shape)
	p := t.entries.page(tag)
	for i := p.next(tag, 0); i >= 0; i = p.next(tag, i+1) {
		e := cutEntry(p.entry(i))
		tenant, rest := cutText(e.row)
		route, _ := cutText(rest)
		if e.shape == shape && e.limit == limit && string(tenant) == want.Tenant && string(route) == want.Route {
			found = append(found, e)
		}
	}
	return found
}
