package policy

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"net/textproto"
	"slices"
	"strings"
)

// A Set is an immutable, indexed set of limits. The zero value has none. It may
// be used from many goroutines.
type Set struct {
	source     []Limit
	limits     []compiled
	attributes []string // every attribute that a limit reads, by number
	seed       maphash.Seed
	warnings   []string
	rows       *rows // of a table; nil: none
}

// NewSet checks and indexes limits; the error joins all that is wrong, a line
// for each. The limits belong to the set and must not be changed afterwards.
func NewSet(limits []Limit) (*Set, error) {
	s, problems := compile(limits)
	if len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, p := range problems {
			errs[i] = errors.New(p.describe(limits))
		}
		return nil, errors.Join(errs...)
	}
	s.warn()
	return s, nil
}

// Limits returns the limits in the order of the configuration. They must not be
// changed.
func (s *Set) Limits() []Limit { return s.source }

// Attributes returns the names of all attributes that the limits read.
func (s *Set) Attributes() []string { return slices.Clone(s.attributes) }

// Warnings returns what is allowed but may not be meant, one line each in the
// form of an error's: place, field, what is the case and what helps.
func (s *Set) Warnings() []string { return slices.Clone(s.warnings) }

// A compiled limit is a limit made ready to be met.
type compiled struct {
	*Limit
	number        int
	key           []int    // numbers of the key's attributes
	labels        []string // "|tenant=", beside key
	secret        []bool   // beside key: only a hash of the value may be kept
	cost          Cost     // with zero values spelled out
	costAttribute int      // -1: none
	match         *index   // nil: all requests
	overrides     *index   // nil: none
	hidden        map[uint32]uint32
}

// matches says whether a limit applies to a request.
func (l *compiled) matches(q *reader) bool {
	return l.match == nil || l.match.met(q)
}

// override returns the override in force and how many attributes it matches;
// nil: none.
func (l *compiled) override(q *reader) (rule *Rule, matched int) {
	if l.overrides == nil {
		return nil, 0
	}
	n, matched := l.overrides.find(q)
	if n == none {
		return nil, 0
	}
	return &l.Overrides[n], matched
}

// mostMatched returns the most attributes that an override matches.
func (l *compiled) mostMatched() int {
	if l.overrides == nil || len(l.overrides.shapes) == 0 {
		return 0
	}
	return l.overrides.shapes[0].matched
}

// needs says whether a limit cannot be decided without an attribute.
func (l *compiled) needs(attribute string) bool {
	if slices.Contains(l.Key, attribute) || l.Cost.Attribute == attribute {
		return true
	}
	return slices.ContainsFunc(l.Match, func(c Condition) bool { return c.Attribute == attribute })
}

// secretHeaders carry what opens doors. Their values are matched as they are,
// but a key, which stores and displays see, never spells them out.
var secretHeaders = []string{"header:Authorization", "header:Proxy-Authorization", "header:Cookie", "header:X-Api-Key"}

// A compiler turns limits into a set and collects what is wrong with them.
type compiler struct {
	set      *Set
	problems []problem
}

// A problem is one thing that is wrong with a limit.
type problem struct {
	limit, rule int // rule -1: the limit itself
	field       string
	message     string
}

// path returns the field's place in the configuration.
func (p *problem) path() string {
	path := fmt.Sprintf("limits[%d]", p.limit)
	if p.rule >= 0 {
		path += fmt.Sprintf(".overrides[%d]", p.rule)
	}
	if p.field != "" {
		path += "." + p.field
	}
	return path
}

// describe returns the problem as a line.
func (p *problem) describe(limits []Limit) string {
	source := limits[p.limit].Source
	if p.rule >= 0 {
		source = cmp.Or(limits[p.limit].Overrides[p.rule].Source, source)
	}
	line := p.path() + ": " + p.message
	if source != "" {
		line = source + ": " + line
	}
	return line
}

// compile makes a set of limits. It is sound only if there are no problems.
func compile(limits []Limit) (*Set, []problem) {
	c := compiler{set: &Set{source: limits, seed: maphash.MakeSeed()}}
	c.checkNames(limits)
	c.set.limits = make([]compiled, 0, len(limits))
	for i := range limits {
		c.check(i, &limits[i])
		c.set.limits = append(c.set.limits, c.compile(i, &limits[i]))
	}
	return c.set, c.problems
}

// problem records that something is wrong with a limit, or with its override
// if rule is not negative.
func (c *compiler) problem(limit, rule int, field, format string, args ...any) {
	c.problems = append(c.problems, problem{limit, rule, field, fmt.Sprintf(format, args...)})
}

func (c *compiler) compile(number int, l *Limit) compiled {
	l.Cost.Attribute = canonical(l.Cost.Attribute)
	for i := range l.Key {
		l.Key[i] = canonical(l.Key[i])
	}
	out := compiled{Limit: l, number: number, cost: l.Cost.normal(), costAttribute: -1}
	for _, name := range l.Key {
		out.key = append(out.key, c.set.number(name))
		out.labels = append(out.labels, "|"+name+"=")
		out.secret = append(out.secret, slices.Contains(secretHeaders, name))
	}
	if l.Cost.Attribute != "" {
		out.costAttribute = c.set.number(l.Cost.Attribute)
	}
	if len(l.Match) > 0 {
		b := newBuilder(c.set.seed)
		c.index(b, number, -1, l.Match)
		out.match, _ = b.finish(1)
	}
	if len(l.Overrides) > 0 {
		b := newBuilder(c.set.seed)
		for i := range l.Overrides {
			c.index(b, number, i, l.Overrides[i].Match)
		}
		out.overrides, out.hidden = b.finish(len(l.Overrides))
	}
	return out
}

// index adds the conditions of a limit or of an override to an index, unless
// they are wrong.
func (c *compiler) index(b *builder, limit, rule int, match []Condition) {
	clauses, ok := c.clauses(limit, rule, match)
	if !ok || len(clauses) == 0 {
		return
	}
	if err := b.add(uint32(max(rule, 0)), clauses); err != nil {
		c.problem(limit, rule, "match", "%v", err)
	}
}

// clauses makes conditions ready and records what is wrong with them.
func (c *compiler) clauses(limit, rule int, match []Condition) (clauses []clause, ok bool) {
	before := len(c.problems)
	fail := func(format string, args ...any) { c.problem(limit, rule, "match", format, args...) }
	combinations := 1
	clauses = make([]clause, 0, len(match))
	for i := range match {
		m := &match[i]
		m.Attribute = canonical(m.Attribute)
		if message := checkAttribute(m.Attribute); message != "" {
			fail("%s", message)
			continue
		}
		patterns := make([]pattern, 0, len(m.Patterns))
		for _, text := range m.Patterns {
			p, err := parseFor(m.Attribute, text)
			if err != nil {
				fail("%s: %v", m.Attribute, err)
			}
			patterns = append(patterns, p)
		}
		if len(patterns) == 0 {
			fail("%s: no value to match: want one, a list of some, or * for any", m.Attribute)
		}
		clauses = append(clauses, clause{c.set.number(m.Attribute), patterns})
		combinations = min(combinations*max(len(patterns), 1), maxCombinations+1)
	}
	slices.SortFunc(clauses, func(a, b clause) int { return cmp.Compare(a.attribute, b.attribute) })
	for i := 1; i < len(clauses); i++ {
		if clauses[i].attribute == clauses[i-1].attribute {
			fail("%s stands twice: want one list of values", c.set.attributes[clauses[i].attribute])
		}
	}
	if combinations > maxCombinations {
		fail("the lists make over %d combinations: want fewer values, or patterns with *", maxCombinations)
	}
	return clauses, len(c.problems) == before
}

// number returns the number of an attribute in the set.
func (s *Set) number(name string) int {
	if i := slices.Index(s.attributes, name); i >= 0 {
		return i
	}
	s.attributes = append(s.attributes, name)
	return len(s.attributes) - 1
}

// canonical returns the one spelling of an attribute: header names do not
// depend on case.
func canonical(attribute string) string {
	if name, ok := strings.CutPrefix(attribute, "header:"); ok {
		if c := textproto.CanonicalMIMEHeaderKey(name); c != name {
			return "header:" + c
		}
	}
	return attribute
}
