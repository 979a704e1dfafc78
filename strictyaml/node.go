package strictyaml

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Node is a value at its place. The zero Node is a value that is not there:
// it reads as the default of whatever is asked of it and is no problem.
type Node struct {
	doc  *Document
	node *yaml.Node
	path string
}

// Exists says whether the value is there. A field without a value, as in
// "burst:", is there.
func (n Node) Exists() bool { return n.node != nil }

// Line returns the line on which the value stands; 0 if it is not there.
func (n Node) Line() int {
	if n.node == nil {
		return 0
	}
	return n.node.Line
}

// Field returns the dotted path of the value, "limits[2].burst".
func (n Node) Field() string { return n.path }

// Source returns "file:line"; "" if the value is not there.
func (n Node) Source() string {
	if n.node == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", n.doc.name, n.node.Line)
}

// Problem records that something is wrong with the value. The message should
// say what would be right. It does nothing if the value is not there.
func (n Node) Problem(format string, args ...any) {
	if n.node != nil {
		n.doc.problem(n.node.Line, n.path, format, args...)
	}
}

// IsMapping says whether the value has fields.
func (n Node) IsMapping() bool { return n.node != nil && n.node.Kind == yaml.MappingNode }

// IsList says whether the value is a list.
func (n Node) IsList() bool { return n.node != nil && n.node.Kind == yaml.SequenceNode }

// IsText says whether the value is a single one; it may be empty in quotes.
func (n Node) IsText() bool {
	return n.node != nil && n.node.Kind == yaml.ScalarNode && !n.isNull()
}

// isNull says whether nothing stands where a value should.
func (n Node) isNull() bool { return n.node.Kind == yaml.ScalarNode && n.node.Tag == "!!null" }

// kind names what stands there, and never what it says.
func (n Node) kind() string {
	switch {
	case n.IsMapping():
		return "a mapping"
	case n.IsList():
		return "a list"
	case n.isNull():
		return "nothing"
	}
	return "a single value"
}

// Items returns the values of a list.
func (n Node) Items() []Node {
	if n.node == nil {
		return nil
	}
	if !n.IsList() {
		n.Problem("want a list, not %s", n.kind())
		return nil
	}
	items := make([]Node, len(n.node.Content))
	for i := range items {
		items[i] = n.Item(i)
	}
	return items
}

// Item returns the value at an index of a list; the zero Node if there is none.
func (n Node) Item(i int) Node {
	if !n.IsList() || i < 0 || i >= len(n.node.Content) {
		return Node{}
	}
	return Node{doc: n.doc, node: resolve(n.node.Content[i]), path: n.path + "[" + strconv.Itoa(i) + "]"}
}

// A Mapping is a value with fields. The zero Mapping has none.
type Mapping struct {
	node   Node
	fields []Entry
	meant  []string // known names that an unknown field was probably meant to be
}

// An Entry is a field: its name as written, and its value.
type Entry struct {
	Name  string
	Value Node
	Line  int // of the name
}

// Mapping reads a value whose fields have the names given; another field is a
// problem.
func (n Node) Mapping(names ...string) Mapping {
	m := Mapping{node: n, fields: n.Entries()}
	for _, e := range m.fields {
		if !contains(names, e.Name) {
			n.doc.problem(e.Line, e.Value.path, "unknown field%s", hint(e.Name, names))
			if name := Closest(e.Name, names); name != "" {
				m.meant = append(m.meant, name)
			}
		}
	}
	return m
}

// Get returns the value of a field; the zero Node if it is not there.
func (m Mapping) Get(name string) Node {
	for _, e := range m.fields {
		if e.Name == name {
			return e.Value
		}
	}
	return Node{}
}

// Misspelt says whether a field is not there and an unknown one was probably
// meant to be it. That is a problem already, so that what follows from the
// field's absence is none.
func (m Mapping) Misspelt(name string) bool {
	return contains(m.meant, name) && !m.Get(name).Exists()
}

// Need returns the value of a field that must be there. want says what is
// missing, "a name such as login". A field that is misspelt is a problem
// already.
func (m Mapping) Need(name, want string) Node {
	n := m.Get(name)
	if !n.Exists() && m.node.IsMapping() && !m.Misspelt(name) {
		m.node.doc.problem(m.node.Line(), join(m.node.path, name), "missing: want %s", want)
	}
	return n
}

// Problem records that something is wrong with a field, at its place or, if it
// is not there, at that of the mapping.
func (m Mapping) Problem(name, format string, args ...any) {
	if n := m.Get(name); n.Exists() {
		n.Problem(format, args...)
	} else if m.node.Exists() {
		m.node.doc.problem(m.node.Line(), join(m.node.path, name), format, args...)
	}
}

// Entries returns the fields of a value whose names are the writer's own, in
// the order of the file; of a name that stands twice, which is a problem, the
// first. Fields merged by << stand last and give way to the value's own.
func (n Node) Entries() []Entry {
	if n.node == nil {
		return nil
	}
	if !n.IsMapping() {
		n.Problem("want fields, each as \"name: value\", not %s", n.kind())
		return nil
	}
	f := fieldWalk{node: n}
	if len(n.node.Content) > 32 {
		f.seen = make(map[string]bool, len(n.node.Content)/2)
	}
	f.add(n.node)
	return f.entries
}

type fieldWalk struct {
	node    Node
	entries []Entry
	seen    map[string]bool // nil while there are few
}

func (f *fieldWalk) add(mapping *yaml.Node) {
	var merged []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := resolve(mapping.Content[i]), resolve(mapping.Content[i+1])
		if key.Kind != yaml.ScalarNode || key.Tag == "!!null" {
			continue // a problem already
		}
		if isMerge(key) {
			merged = append(merged, value)
			continue
		}
		if !f.has(key.Value) {
			f.entries = append(f.entries, Entry{
				Name:  key.Value,
				Value: Node{doc: f.node.doc, node: value, path: join(f.node.path, key.Value)},
				Line:  mapping.Content[i].Line,
			})
		}
	}
	for _, value := range merged {
		f.merge(value)
	}
}

func (f *fieldWalk) merge(value *yaml.Node) {
	switch value.Kind {
	case yaml.MappingNode:
		f.add(value)
	case yaml.SequenceNode:
		for _, item := range value.Content {
			if item = resolve(item); item.Kind == yaml.MappingNode {
				f.add(item)
			}
		}
	}
}

// has says whether a name was met before, and remembers it.
func (f *fieldWalk) has(name string) bool {
	if f.seen != nil {
		had := f.seen[name]
		f.seen[name] = true
		return had
	}
	for _, e := range f.entries {
		if e.Name == name {
			return true
		}
	}
	return false
}

// join adds a field's name to a path, in quotes where it could be misread.
func join(path, name string) string {
	if name == "" || len(name) > 60 || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == '.' || r == '[' || r == ']' || r == '"' || r > '~'
	}) {
		return path + "[" + strconv.Quote(clip(name)) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// clip keeps a message readable when the text is not.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}
