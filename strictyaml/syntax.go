package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// checkBytes finds what the YAML reader would reject without saying where. It
// returns a line of 0 if all is well.
func checkBytes(data []byte) (line int, message string) {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return 1, "the file is not UTF-8 but UTF-16: save it as UTF-8"
	}
	line = 1
	for i := 0; i < len(data); {
		c := data[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				return line, fmt.Sprintf("byte 0x%02X is not UTF-8: save the file as UTF-8", c)
			}
			if invisible(r) && !(r == '\ufeff' && i == 0) {
				return line, fmt.Sprintf("invisible character %U: remove it, or write it as an escape in double quotes", r)
			}
			i += size
			continue
		}
		switch {
		case c == '\n', c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			line++
		case c < ' ' && c != '\t' && c != '\r', c == 0x7f:
			return line, fmt.Sprintf("control character 0x%02X: remove it, or write it as an escape in double quotes", c)
		}
		i++
	}
	return 0, ""
}

// invisible says whether a rune is not allowed in YAML, or would break a line
// in it and not in an editor.
func invisible(r rune) bool {
	switch r {
	case 0x2028, 0x2029, 0xfffe, 0xffff, 0xfeff:
		return true
	}
	return r >= 0x80 && r < 0xa0
}

// decode reads the documents of a file: all of its text, but not more than two
// trees.
func decode(data []byte) (docs []*yaml.Node, err error) {
	// The reader reports broken input as an error. Should it panic over some
	// input all the same, the input is broken too.
	defer func() {
		if r := recover(); r != nil {
			docs, err = nil, errors.New("yaml: this cannot be read")
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for len(docs) < 2 {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, doc.Content[0])
	}
	return docs, nil
}

// locate returns the line at which a file that fails with err goes wrong. The
// reader's own line is missing or that of an enclosing block. It is found here
// as the line after the longest beginning of the file that reads well.
func locate(data []byte, err error) int {
	ends := lineEnds(data)
	// From the line where it goes wrong on, the reader says the same.
	lo, hi := 0, len(ends)
	for lo < hi {
		mid := (lo + hi) / 2
		if _, e := decode(data[:ends[mid]]); e != nil && e.Error() == err.Error() {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	// Within an open bracket or quote the lines before fail too, each in its
	// own way; then the line that opens it is the one to look at. The effort
	// is bounded for large files.
	line := min(lo, len(ends)-1)
	for budget := 2 << 20; line > 0 && budget > 0; line-- {
		if _, e := decode(data[:ends[line-1]]); e == nil {
			break
		}
		budget -= ends[line-1]
	}
	return line + 1
}

// lineEnds returns the offset behind each line.
func lineEnds(data []byte) []int {
	var ends []int
	for i, c := range data {
		if c == '\n' || c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			ends = append(ends, i+1)
		}
	}
	if len(ends) == 0 || ends[len(ends)-1] < len(data) {
		ends = append(ends, len(data))
	}
	return ends
}

// lineAt returns the text of a line.
func lineAt(data []byte, line int) string {
	ends := lineEnds(data)
	start := 0
	if line > 1 {
		start = ends[line-2]
	}
	return string(data[start:ends[line-1]])
}

// remedies say what would be right where the reader names what it met. Nothing
// of the file's text is repeated: it may be a secret.
var remedies = []struct{ says, message string }{
	{"mapping values are not allowed", "a second \": \" on this line, or a line indented too far: begin a field on its own line, and put quotes around text that holds \": \""},
	{"block sequence entries are not allowed", "a list begins behind other text: begin it on its own line, or write it as [a, b]"},
	{"could not find expected ':'", "this line is no field: want \"name: value\""},
	{"did not find expected key", "this line fits no block above: indent it like its siblings, and put quotes around text that begins with a quote"},
	{"did not find expected '-' indicator", "this line fits no list above: begin it with \"- \", or indent it like the list's name"},
	{"did not find expected ',' or", "a [ or { that begins here is not closed, or its entries lack a comma between them"},
	{"found unexpected end of stream", "a quote that begins here is not closed"},
	{"found unexpected document indicator", "a quote or bracket is not closed before the line of ---"},
	{"unknown anchor", "an alias without an anchor of its name before it: define the anchor, or put quotes around text that begins with *"},
	{"exceeded max depth", "values are nested too deep"},
	{"did not find expected <document start>", "text behind the end of the document: want one document a file"},
	{"incompatible YAML document", "want YAML 1.1 without a %YAML line"},
	{"unknown escape character", "a \\ escape that YAML does not know: write \\\\ for a backslash, or use single quotes"},
	{"cannot start any token", "text cannot begin with @, %, ` or a tab here: put quotes around it"},
}

// explain says what is wrong with a line in words that help to mend it.
func explain(err error, line string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if strings.Contains(indent, "\t") {
		return "a tab indents this line: want spaces"
	}
	for _, r := range remedies {
		if strings.Contains(err.Error(), r.says) {
			return r.message
		}
	}
	return "this is not YAML: want \"name: value\" lines, lists of \"- value\" lines, and quotes around text that holds other signs"
}
