package policy

import (
	"errors"
	"fmt"
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
	d := decoder{known: attributes}
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
	known  []string
	at     spot          // what is being read
	broken map[spot]bool // fields that could not be read: what is wrong with them is told
}

// A spot is a field of a limit or, if rule is not negative, of an override.
type spot struct {
	limit, rule int
	field       string
}

func (d *decoder) fail(field string) {
	if d.broken == nil {
		d.broken = map[spot]bool{}
	}
	d.broken[spot{d.at.limit, d.at.rule, field}] = true
}

var (
	limitFields    = []string{"name", "match", "key", "limit", "burst", "algorithm", "calendar", "overrides", "cost", "shadow", "on_store_failure", "tolerance", "shards"}
	overrideFields = []string{"match", "limit", "burst", "tolerance", "shards"}
)

const wantLimit = "a rate such as 100/s, 5/15m or 1000/day, or unlimited"

func (d *decoder) limit(n strictyaml.Node) Limit {
	m := n.Mapping(limitFields...)
	algorithm, ok := d.algorithm(m)
	l := Limit{
		Name:      d.name(m),
		Match:     d.match(m.Get("match")),
		Key:       d.key(m),
		Cost:      d.cost(m.Get("cost")),
		Shadow:    m.Get("shadow").Bool(false),
		Tolerance: tolerance(m),
		Shards:    shards(m),
		Source:    n.Source(),
	}
	mode := m.Get("on_store_failure").OneOf("local", failureNames[:]...)
	l.OnFailure = FailureMode(max(0, slices.Index(failureNames[:], mode)))
	l.Default, l.Unlimited = d.rate(m, algorithm, ok)
	for i, item := range m.Get("overrides").Items() {
		d.at.rule = i
		l.Overrides = append(l.Overrides, d.override(item, algorithm, ok))
	}
	return l
}

func (d *decoder) override(n strictyaml.Node, algorithm string, ok bool) Rule {
	m := n.Mapping(overrideFields...)
	r := Rule{
		Match:     d.match(m.Get("match")),
		Tolerance: tolerance(m),
		Shards:    shards(m),
		Source:    n.Source(),
	}
	r.Limit, r.Unlimited = d.rate(m, algorithm, ok)
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

func (d *decoder) match(n strictyaml.Node) []Condition {
	if n.Exists() && !n.IsMapping() {
		d.fail("match")
	}
	var match []Condition
	for _, e := range n.Entries() {
		d.attribute(e.Value, e.Name)
		c := Condition{Attribute: e.Name, Patterns: e.Value.Texts()}
		if len(c.Patterns) == 0 && !(e.Value.IsList() && !e.Value.Item(0).Exists()) {
			d.fail("match")
		}
		match = append(match, c)
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
	}
	return c
}

// tolerance is read without its bounds, which are told with the burst they
// belong to.
func tolerance(m strictyaml.Mapping) int64 {
	n := m.Get("tolerance")
	v := n.Millionths(-1, 0, million)
	if v == 0 {
		n.Problem("want more than 0 and at most 50%%; for an exact limit leave it out")
	}
	return max(v, 0)
}

func shards(m strictyaml.Mapping) int {
	return int(m.Get("shards").Int(0, 1, maxShards))
}

// algorithm returns how the limit and its overrides count, in the words that
// [sluice.ParseLimit] takes behind a rate.
func (d *decoder) algorithm(m strictyaml.Mapping) (words string, ok bool) {
	calendar := m.Get("calendar")
	name := m.Get("algorithm").OneOf("", "token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_log")
	if !calendar.Exists() {
		return name, name != "" || !m.Get("algorithm").Exists()
	}
	if name != "" && name != "fixed_window" {
		m.Get("algorithm").Problem("%s beside a calendar: want fixed_window, or leave the algorithm out", name)
		return "", false
	}
	zone := calendar.Mapping("zone").Get("zone")
	text := zone.Text()
	if text == "" {
		if zone.Exists() {
			return "", false
		}
		text = "UTC"
	}
	words = "fixed_window calendar " + text
	// A zone that is not known is told where it stands, and once.
	if _, err := sluice.ParseLimit("1/day " + words); err != nil || len(strings.Fields(text)) != 1 {
		zone.Problem("unknown time zone: want an IANA name such as Asia/Ho_Chi_Minh or UTC")
		return "", false
	}
	return words, calendar.IsMapping()
}

// rate reads limit and burst; how they count is in words, unless that is wrong
// itself.
func (d *decoder) rate(m strictyaml.Mapping, words string, ok bool) (limit sluice.Limit, unlimited bool) {
	n, burst := m.Need("limit", wantLimit), m.Get("burst")
	text := n.TextAs(wantLimit)
	size := burst.Int(0, 1, sluice.MaxTokens)
	if text == "unlimited" {
		if burst.Exists() {
			burst.Problem("beside unlimited: want none")
		}
		return limit, true
	}
	algorithm, _, _ := strings.Cut(words, " ")
	bucket := algorithm == "" || algorithm == "token_bucket" || algorithm == "gcra"
	switch {
	case !n.IsText() || !ok:
	case burst.Exists() && !bucket:
		burst.Problem("only a token_bucket has a burst: leave it out, since a %s lets through its limit", algorithm)
	case hasOptions(text):
		n.Problem("%q: want the rate only; burst, algorithm and calendar are fields of their own", text)
	default:
		limit, err := sluice.ParseLimit(strings.TrimSpace(text + burstWords(size) + " " + words))
		if err == nil {
			return limit, false
		}
		cause := firstCause(err)
		m.Problem(fieldOf(cause), "%s", cause)
	}
	d.fail("limit")
	return limit, false
}

// hasOptions says whether words stand behind the rate.
func hasOptions(text string) bool {
	for word := range strings.FieldsSeq(text) {
		if _, err := sluice.ParseAlgorithm(word); err == nil || word == "burst" || word == "calendar" {
			return true
		}
	}
	return false
}

func burstWords(size int64) string {
	if size == 0 {
		return ""
	}
	return fmt.Sprintf(" burst %d", size)
}

// firstCause returns what a rate's error says behind the text that was parsed,
// which is not quite the one in the file.
func firstCause(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
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
			if first, ok := l.hider(set, j); ok {
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
