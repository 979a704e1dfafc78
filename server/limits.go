package server

import (
	"strings"

	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// limits reads the limits, with secrets hidden. Everything else is read before,
// since it says which of the attributes are secret.
func (c *Config) limits(n strictyaml.Node, attributes []string) []policy.Limit {
	limits := policy.DecodeLimits(n, attributes...)
	for i := range limits {
		c.hide(limits[i].Match)
		for j := range limits[i].Overrides {
			c.hide(limits[i].Overrides[j].Match)
		}
	}
	return limits
}

// index makes a set of limits that were found right.
func (c *Config) index(limits []policy.Limit) error {
	set, err := policy.NewSet(limits)
	if err != nil {
		return err
	}
	c.Set = set
	c.nameValues()
	c.warn()
	return nil
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

// hide writes values of identities as limits see them: secrets as their hashes,
// letters in lower case where case does not matter. Patterns with a * speak of
// names or hashes.
func (c *Config) hide(match []policy.Condition) {
	for _, condition := range match {
		for j, text := range condition.Patterns {
			if value, ok := literal(text); ok && (c.identity(condition.Attribute) != nil || c.headerOf(condition.Attribute) != nil) {
				condition.Patterns[j] = escape(c.Value(condition.Attribute, value))
			}
		}
	}
}

// literal returns the one value that a pattern matches; false if it has a *.
func literal(pattern string) (value string, ok bool) {
	if !strings.ContainsAny(pattern, `*\`) {
		return pattern, true
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			return "", false
		case c == '\\' && i+1 < len(pattern) && strings.IndexByte(`*\`, pattern[i+1]) >= 0:
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), true
}

// escape returns the pattern that matches one value.
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(value)
}

// headerOf returns the identity whose header a limit reads as header:NAME, nil
// if there is none.
func (c *Config) headerOf(attribute string) *httplimit.Identity {
	name, ok := strings.CutPrefix(attribute, "header:")
	if !ok {
		return nil
	}
	for _, i := range c.identities {
		if i != nil && strings.EqualFold(i.Header(), name) {
			return i
		}
	}
	return nil
}

// identity returns an identity by its name, nil if there is none.
func (c *Config) identity(name string) *httplimit.Identity {
	for i, a := range c.Identity.Attributes {
		if a.Name == name {
			return c.identities[i]
		}
	}
	return nil
}

// nameValues notes which values of identities the limits name by themselves
// rather than by a pattern: these are not unknown.
func (c *Config) nameValues() {
	c.namedValues = make(map[string]map[string]bool)
	for _, a := range c.Identity.Attributes {
		c.namedValues[a.Name] = make(map[string]bool)
	}
	for _, l := range c.Set.Limits() {
		c.name(l.Match)
		for _, r := range l.Overrides {
			c.name(r.Match)
		}
	}
}

func (c *Config) name(match []policy.Condition) {
	for _, condition := range match {
		values := c.namedValues[condition.Attribute]
		if values == nil {
			continue
		}
		for _, text := range condition.Patterns {
			if value, ok := literal(text); ok {
				values[value] = true
			}
		}
	}
}
