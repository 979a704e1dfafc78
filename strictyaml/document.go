// Package strictyaml reads configuration written in YAML and says all that is
// wrong with it, each problem with its file, line and field and with what would
// be right. Fields that nobody asks for are problems, as are duplicate ones.
//
// A program calls [Parse], walks the [Node] of [Document.Root], and looks at
// [Document.Err] once at the end: a value that is wrong is recorded and reads as
// its default, so that one run shows every problem.
//
// Anchors, aliases and merge keys (<<) work within bounds; several documents in
// a file, tags and keys that are not text do not.
package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A Problem is one thing that is wrong, at its place.
type Problem struct {
	File    string
	Line    int    // from 1
	Field   string // dotted path, "limits[2].overrides[0].limit"; "" for the file as a whole
	Message string // what is wrong, and what would be right
}

// Error returns "file:line: field: message".
func (p Problem) Error() string {
	if p.Field == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Field, p.Message)
}

// A Document is a file that could be read as YAML, and the problems found in it
// so far. It serves one goroutine at a time.
type Document struct {
	name     string
	lines    int
	root     *yaml.Node
	problems []Problem
	told     map[Problem]bool // values may be read more than once
}

// MaxBytes bounds a document.
const MaxBytes = 64 << 20

// Parse reads one document. name stands in messages for the file. The error is
// a [Problem] that kept the file from being read at all; lesser ones are those
// of [Document.Err].
func Parse(name string, data []byte) (*Document, error) {
	fail := func(line int, format string, args ...any) (*Document, error) {
		return nil, Problem{File: name, Line: line, Message: fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxBytes {
		return fail(1, "the file has %d bytes: want at most %d", len(data), MaxBytes)
	}
	if line, message := checkBytes(data); line > 0 {
		return fail(line, "%s", message)
	}
	docs, err := decode(data)
	if err != nil {
		line := locate(data, err)
		return fail(line, "%s", explain(err, lineAt(data, line)))
	}
	if len(docs) == 0 || docs[0].Tag == "!!null" && docs[0].Value == "" {
		return fail(1, "the file is empty: want fields, each as \"name: value\"")
	}
	lines := len(lineEnds(data))
	if len(docs) > 1 {
		return fail(min(docs[1].Line, lines), "a second document begins here: want one a file, without a line of --- between fields")
	}
	d := &Document{name: name, lines: lines, root: docs[0], told: map[Problem]bool{}}
	if line, message := checkAliases(d.root); line > 0 {
		return fail(min(line, lines), "%s", message)
	}
	d.checkKeys(d.root, "")
	return d, nil
}

// Root returns the value of the whole document.
func (d *Document) Root() Node {
	return Node{doc: d, node: d.root}
}

// Err returns all problems found so far as one error, a line for each in the
// order of the file, or nil. [errors.As] finds the first [Problem].
func (d *Document) Err() error {
	errs := make([]error, 0, len(d.problems))
	for _, p := range d.Problems() {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// Problems returns all problems found so far, each once, in the order of the
// file.
func (d *Document) Problems() []Problem {
	sorted := slices.Clone(d.problems)
	slices.SortStableFunc(sorted, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return sorted
}

func (d *Document) problem(line int, field, format string, args ...any) {
	// A value that is missing at the end stands behind the last line.
	p := Problem{File: d.name, Line: min(line, d.lines), Field: field, Message: fmt.Sprintf(format, args...)}
	if !d.told[p] {
		d.told[p] = true
		d.problems = append(d.problems, p)
	}
}
