package policy

import (
	"hash/maphash"
	"slices"
)

// A Set is an immutable, indexed set of limits. The zero value has none.
type Set struct {
	source     []Limit
	limits     []compiled
	attributes []string // every attribute that a limit reads, by number
	seed       maphash.Seed
	warnings   []string
}

// Limits returns the limits in the order of the configuration. They must not be
// changed.
func (s *Set) Limits() []Limit { return s.source }

// Attributes returns the names of all attributes that the limits read.
func (s *Set) Attributes() []string { return slices.Clone(s.attributes) }

// Warnings returns what is allowed but may not be meant, one sentence each with
// its place.
func (s *Set) Warnings() []string { return slices.Clone(s.warnings) }

// A compiled limit is a limit made ready to be met.
type compiled struct {
	*Limit
	key           []int    // numbers of the key's attributes
	labels        []string // "|tenant=", beside key
	cost          Cost     // with zero values spelled out
	costAttribute int      // -1: none
}

// needs says whether a limit cannot be decided without an attribute.
func (l *compiled) needs(attribute string) bool {
	if slices.Contains(l.Key, attribute) || l.Cost.Attribute == attribute {
		return true
	}
	return slices.ContainsFunc(l.Match, func(c Condition) bool { return c.Attribute == attribute })
}

// NewSet checks and indexes limits; the error joins all that is wrong. The
// limits belong to the set and must not be changed afterwards.
func NewSet(limits []Limit) (*Set, error) {
	s := &Set{source: limits, seed: maphash.MakeSeed()}
	for i := range limits {
		s.limits = append(s.limits, s.compile(&limits[i]))
	}
	return s, nil
}

func (s *Set) compile(l *Limit) compiled {
	c := compiled{Limit: l, cost: l.Cost.normal(), costAttribute: -1}
	for _, name := range l.Key {
		c.key = append(c.key, s.number(name))
		c.labels = append(c.labels, "|"+name+"=")
	}
	if l.Cost.Attribute != "" {
		c.costAttribute = s.number(l.Cost.Attribute)
	}
	return c
}

// number returns the number of an attribute in the set.
func (s *Set) number(name string) int {
	if i := slices.Index(s.attributes, name); i >= 0 {
		return i
	}
	s.attributes = append(s.attributes, name)
	return len(s.attributes) - 1
}
