package policy

import (
	"slices"
	"strings"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// DecodeLimits reads the limits of a file from its list "limits" and records
// all that is wrong with them in the document of the list. If attributes are
// given, a name that is neither one of them nor of the form "header:NAME" is a
// problem. What it returns is fit for [NewSet] if the document has no problems.
func DecodeLimits(list strictyaml.Node, attributes ...string) []Limit {
	d := decoder{known: attributes, broken: map[spot]bool{}, partial: map[spot]bool{}}
	items := list.Items()
	limits := make([]Limit, len(items))
	for i, item := range items {
		d.at = spot{limit: i, rule: -1}
		limits[i] = d.limit(item)
	}
	d.review(limits, items)
	return limits
}

// A decoder reads limits; what is wrong goes to the document.
type decoder struct {
	known   []string
	at      spot          // what is being read
	broken  map[spot]bool // fields of which nothing more can be judged: what is wrong with them is told
	partial map[spot]bool // matches of which some of the conditions could not be read
}

// A spot is a field of a limit or, if rule is not negative, of an override.
type spot struct {
	limit, rule int
	field       string
}

func (d *decoder) fail(fields ...string) {
	for _, field := range fields {
		d.broken[d.spot(field)] = true
	}
}

// spot is a field of what is being read.
func (d *decoder) spot(field string) spot { return spot{d.at.limit, d.at.rule, field} }

var (
	limitFields    = []string{"name", "match", "key", "limit", "burst", "algorithm", "calendar", "overrides", "cost", "shadow", "on_store_failure", "tolerance", "shards"}
	overrideFields = []string{"match", "limit", "burst", "tolerance", "shards"}
)

const wantLimit = "a rate such as 100/s, 5/15m or 1000/day, or unlimited"

func (d *decoder) limit(n strictyaml.Node) Limit {
	m := n.Mapping(limitFields...)
	how := d.counting(m)
	l := Limit{
		Name:      d.name(m),
		Match:     d.match(m),
		Key:       d.key(m),
		Cost:      d.cost(m.Get("cost")),
		Shadow:    m.Get("shadow").Bool(false),
		Tolerance: tolerance(m),
		Shards:    shards(m),
		Source:    n.Source(),
	}
	mode := m.Get("on_store_failure").OneOf("local", failureNames[:]...)
	l.OnFailure = FailureMode(max(0, slices.Index(failureNames[:], mode)))
	l.Default, l.Unlimited = d.rate(m, how)
	overrides := m.Get("overrides")
	if l.Unlimited && (m.Misspelt("overrides") || overrides.Exists() && !overrides.IsList()) {
		d.fail("limit") // whom it limits cannot be told
	}
	for i, item := range overrides.Items() {
		d.at.rule = i
		l.Overrides = append(l.Overrides, d.override(item, how))
	}
	return l
}

func (d *decoder) override(n strictyaml.Node, how counting) Rule {
	m := n.Mapping(overrideFields...)
	if !n.IsMapping() {
		d.fail("match")
	}
	r := Rule{
		Match:     d.match(m),
		Tolerance: tolerance(m),
		Shards:    shards(m),
		Source:    n.Source(),
	}
	r.Limit, r.Unlimited = d.rate(m, how)
	return r
}

func (d *decoder) name(m strictyaml.Mapping) string {
	n := m.Need("name", "a name such as tenant-route")
	if !n.IsText() {
		d.fail("name")
	}
	return n.TextAs("a name such as tenant-route")
}

// key reads a list, which may be empty, or a single attribute.
func (d *decoder) key(m strictyaml.Mapping) []string {
	key := m.Need("key", "the attributes whose values share a counter, such as [tenant, route], or [] for one counter for all")
	names := key.Texts()
	for i, name := range names {
		n := key
		if key.IsList() {
			n = key.Item(i)
		}
		d.attribute(n, name)
	}
	return names
}

// attribute checks that a name is one that the edges can read.
func (d *decoder) attribute(n strictyaml.Node, name string) {
	if len(d.known) == 0 || checkAttribute(name) != "" || slices.Contains(d.known, name) || strings.HasPrefix(name, "header:") {
		return
	}
	if closest := strictyaml.Closest(name, d.known); closest != "" {
		n.Problem("unknown attribute %q: did you mean %s?", name, closest)
	} else {
		n.Problem("unknown attribute %q: want %s, or header:NAME", name, strings.Join(d.known, ", "))
	}
}

// match reads conditions. Those that can be read are judged without the others.
func (d *decoder) match(m strictyaml.Mapping) []Condition {
	n := m.Get("match")
	whole := !m.Misspelt("match") && (!n.Exists() || n.IsMapping())
	var match []Condition
	for _, e := range n.Entries() {
		d.attribute(e.Value, e.Name)
		values := 1
		if e.Value.IsList() {
			values = len(e.Value.Items())
		}
		patterns := e.Value.Texts()
		whole = whole && len(patterns) == values
		if len(patterns) > 0 || values == 0 {
			match = append(match, Condition{Attribute: e.Name, Patterns: patterns})
		}
	}
	if !whole {
		d.partial[d.spot("match")] = true
		if len(match) == 0 {
			d.fail("match")
		}
	}
	return match
}

// cost reads a plain number, or which header says the cost.
func (d *decoder) cost(n strictyaml.Node) Cost {
	if !n.Exists() {
		return Cost{}
	}
	if !n.IsMapping() {
		return Cost{Default: n.Int(0, 1, sluice.MaxTokens)}
	}
	m := n.Mapping("header", "default", "min", "max")
	c := Cost{
		Default: m.Get("default").Int(0, 1, sluice.MaxTokens),
		Min:     m.Get("min").Int(0, 1, sluice.MaxTokens),
		Max:     m.Get("max").Int(0, 1, sluice.MaxTokens),
	}
	if header := m.Need("header", "the header that says the cost, such as X-Request-Cost").Text(); header != "" {
		c.Attribute = canonical("header:" + header)
	} else {
		d.fail("cost")
	}
	return c
}

// review records what is wrong with limits that could be read, at the fields
// where it stands.
func (d *decoder) review(limits []Limit, items []strictyaml.Node) {
	set, problems := compile(limits)
	for _, p := range problems {
		if !d.broken[spot{p.limit, p.rule, p.field}] {
			p.within(items).Problem(p.field, "%s", p.message)
		}
	}
	for i := range set.limits {
		l := &set.limits[i]
		for j := range l.Overrides {
			if first, ok := l.hider(set, j); ok && !d.partial[spot{i, j, "match"}] && !d.partial[spot{i, first, "match"}] {
				p := problem{limit: i, rule: j}
				p.within(items).Problem("match", "%s", hiddenMessage(l.Limit, first))
			}
		}
	}
}

// within returns the mapping that a problem is about.
func (p *problem) within(items []strictyaml.Node) strictyaml.Mapping {
	m := items[p.limit].Mapping(limitFields...)
	if p.rule >= 0 {
		m = m.Get("overrides").Item(p.rule).Mapping(overrideFields...)
	}
	return m
}
