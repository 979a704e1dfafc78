package strictyaml

import (
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// text returns a single value as it is written; want says what it should be.
func (n Node) text(want string) (string, bool) {
	switch {
	case n.node == nil:
		return "", false
	case n.node.Kind != yaml.ScalarNode:
		n.Problem("want %s, not %s", want, n.kind())
		return "", false
	case n.isNull():
		n.Problem("has no value: want %s, or leave the field out", want)
		return "", false
	}
	return n.node.Value, true
}

// Text returns a text as it is written; numbers, dates and words such as no are
// text too. It is "" if the value is not there.
func (n Node) Text() string {
	s, _ := n.text("text")
	return s
}

// TextAs returns a text as [Node.Text] does; want says what it should be, "a
// rate such as 100/s".
func (n Node) TextAs(want string) string {
	s, _ := n.text(want)
	return s
}

// Secret returns a text as [Node.Text] does. What is wrong with it must be said
// without repeating it.
func (n Node) Secret() string { return n.Text() }

// Texts returns a list of texts; a single text is a list of one.
func (n Node) Texts() []string {
	if n.node == nil {
		return nil
	}
	if !n.IsList() {
		if s, ok := n.text("text or a list of texts"); ok {
			return []string{s}
		}
		return nil
	}
	texts := make([]string, 0, len(n.node.Content))
	for _, item := range n.Items() {
		if s, ok := item.text("text"); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// OneOf returns one of some words; def if the value is not there or another.
func (n Node) OneOf(def string, words ...string) string {
	s, ok := n.text("one of " + list(words))
	if !ok {
		return def
	}
	if !contains(words, s) {
		n.Problem("unknown %q%s", clip(s), hint(s, words))
		return def
	}
	return s
}

// Bool returns true or false; def if the value is not there or something else.
func (n Node) Bool(def bool) bool {
	s, ok := n.text("true or false")
	switch {
	case !ok:
		return def
	case s == "true" || s == "false":
		return s == "true"
	}
	n.Problem("%q: want true or false", clip(s))
	return def
}

// Int returns a whole number as people write it: 100, 1_000, 10k, 1.5M; def if
// the value is not there, is something else or not from lo to hi.
func (n Node) Int(def, lo, hi int64) int64 {
	return n.number(def, lo, hi, "a whole number", parseInt, func(v int64) string { return strconv.FormatInt(v, 10) })
}

// Size returns a number of bytes: 512, 64KiB, 1MiB, 1GB.
func (n Node) Size(def, lo, hi int64) int64 {
	return n.number(def, lo, hi, "a size such as 64KiB or 1MiB", parseSize, formatSize)
}

// Millionths returns a share, 1% or 0.01, in millionths.
func (n Node) Millionths(def, lo, hi int64) int64 {
	return n.number(def, lo, hi, "a share such as 1% or 0.01", parseShare, formatShare)
}

// Duration returns a time such as 5ms, 30s, 1h30m or 1d.
func (n Node) Duration(def, lo, hi time.Duration) time.Duration {
	return time.Duration(n.number(int64(def), int64(lo), int64(hi), "a time such as 5ms, 30s or 1h30m", parseDuration, formatDuration))
}

// number reads a value of a form, and says what form and bounds are wanted.
func (n Node) number(def, lo, hi int64, form string, parse func(string) (int64, bool), format func(int64) string) int64 {
	want := form + " from " + format(lo) + " to " + format(hi)
	s, ok := n.text(want)
	if !ok {
		return def
	}
	v, ok := parse(s)
	if !ok || v < lo || v > hi {
		n.Problem("%q: want %s", clip(s), want)
		return def
	}
	return v
}
