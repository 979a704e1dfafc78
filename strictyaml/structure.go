package strictyaml

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds how deep values may be nested, aliases followed.
	maxDepth = 100
	// maxExpanded bounds the values that aliases may add to a document.
	maxExpanded = 1_000_000
)

// checkAliases follows all aliases once and returns the place of one that leads
// into itself or out of bounds; a line of 0 if there is none. Later walks follow
// them without looking.
func checkAliases(root *yaml.Node) (line int, message string) {
	w := aliasWalk{extents: map[*yaml.Node]extent{}}
	total := w.measure(root)
	switch {
	case w.line > 0:
		return w.line, w.message
	case total.depth > maxDepth:
		return root.Line, fmt.Sprintf("values are nested over %d deep: want fewer levels", maxDepth)
	case total.added > maxExpanded:
		return root.Line, fmt.Sprintf("aliases repeat over %d values: want fewer", maxExpanded)
	}
	return 0, ""
}

// An extent is what a value comes to when its aliases are followed.
type extent struct {
	depth int
	size  int // values
	added int // of these, those that stand elsewhere in the file
	open  bool
}

type aliasWalk struct {
	extents map[*yaml.Node]extent // of anchored values
	line    int
	message string
}

func (w *aliasWalk) measure(n *yaml.Node) extent {
	if n.Kind == yaml.AliasNode {
		e := w.measure(n.Alias)
		if e.open && w.line == 0 {
			w.line, w.message = n.Line, "this alias stands inside the value that it names: a value cannot hold itself"
		}
		return extent{depth: e.depth, size: e.size, added: e.size}
	}
	if e, ok := w.extents[n]; ok {
		return e
	}
	if n.Anchor != "" {
		w.extents[n] = extent{open: true}
	}
	sum := extent{depth: 1, size: 1}
	for _, child := range n.Content {
		e := w.measure(child)
		sum.depth = max(sum.depth, e.depth+1)
		sum.size = saturate(sum.size + e.size)
		sum.added = saturate(sum.added + e.added)
	}
	if n.Anchor != "" {
		w.extents[n] = sum
	}
	return sum
}

func saturate(n int) int { return min(n, math.MaxInt32) }

// checkKeys records duplicate keys, keys that are not text and tags.
func (d *Document) checkKeys(n *yaml.Node, path string) {
	if n.Kind != yaml.AliasNode && n.Style&yaml.TaggedStyle != 0 {
		d.problem(n.Line, path, "a tag (!) stands before the value: remove it, or put quotes around text that begins with !")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, child := range n.Content {
			d.checkKeys(child, fmt.Sprintf("%s[%d]", path, i))
		}
	case yaml.MappingNode:
		d.checkMapping(n, path)
	}
}

func (d *Document) checkMapping(n *yaml.Node, path string) {
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!null" {
			d.problem(n.Content[i].Line, path, "a field's name is not text: want \"name: value\"")
			d.checkKeys(value, path)
			continue
		}
		field := join(path, key.Value)
		if line, ok := lines[key.Value]; ok {
			d.problem(n.Content[i].Line, field, "stands already in line %d: want it once", line)
		} else {
			lines[key.Value] = n.Content[i].Line
		}
		if isMerge(key) {
			d.checkMerge(value, field)
		}
		d.checkKeys(value, field)
	}
}

// checkMerge records a merge of something that has no fields.
func (d *Document) checkMerge(value *yaml.Node, field string) {
	value = resolve(value)
	if value.Kind == yaml.MappingNode {
		return
	}
	ok := value.Kind == yaml.SequenceNode
	for _, item := range value.Content {
		ok = ok && resolve(item).Kind == yaml.MappingNode
	}
	if !ok {
		d.problem(value.Line, field, "want an alias of a mapping, such as *defaults, or a list of them")
	}
}

func isMerge(key *yaml.Node) bool { return key.Tag == "!!merge" }

// resolve follows aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
