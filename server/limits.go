package server

import (
	"strings"

	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// limits reads the limits and indexes them. Everything else is read before,
// since it says which attributes there are and which of them are secret.
func (c *Config) limits(n strictyaml.Node) {
	limits := policy.DecodeLimits(n, c.attributes()...)
	for i := range limits {
		c.hide(limits[i].Match)
		for j := range limits[i].Overrides {
			c.hide(limits[i].Overrides[j].Match)
		}
	}
	set, err := policy.NewSet(limits)
	if err != nil {
		// What is wrong was recorded where it stands; a set that is refused
		// without a record would be a mistake of this program.
		n.Problem("%v", err)
		return
	}
	c.Set = set
	c.nameValues()
	c.warn()
}

// attributes returns the attributes that the gateway reads, by which mistyped
// names are found; none if there is no gateway, as logs have others.
func (c *Config) attributes() []string {
	if c.Gateway == nil {
		return nil
	}
	names := []string{"ip", "method", "path", "host", "route"}
	for _, a := range c.Identity.Attributes {
		names = append(names, a.Name)
	}
	return names
}

// hide replaces secrets written in conditions by their hashes, which is what
// limits see of them. Patterns with a * speak of names or hashes and stay.
func (c *Config) hide(match []policy.Condition) {
	for _, condition := range match {
		i := c.identity(condition.Attribute)
		if i == nil {
			continue
		}
		for j, text := range condition.Patterns {
			if !strings.Contains(text, "*") {
				condition.Patterns[j] = i.RuleValue(text)
			}
		}
	}
}

// identity returns an identity by its name, nil if there is none.
func (c *Config) identity(name string) *httplimit.Identity {
	for _, i := range c.identities {
		if i.Name() == name {
			return i
		}
	}
	return nil
}

// nameValues notes which values of identities the rules name by themselves
// rather than by a pattern: these are not unknown.
func (c *Config) nameValues() {
	c.namedValues = make(map[string]map[string]bool)
	add := func(match []policy.Condition) {
		for _, condition := range match {
			values := c.namedValues[condition.Attribute]
			if values == nil {
				values = make(map[string]bool)
				c.namedValues[condition.Attribute] = values
			}
			for _, text := range condition.Patterns {
				values[text] = true
			}
		}
	}
	for _, l := range c.Set.Limits() {
		add(l.Match)
		for _, r := range l.Overrides {
			add(r.Match)
		}
	}
}
