package strictyaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// problemsOf parses a file whose fields are all known and returns its problems
// as lines.
func problemsOf(data string) []string {
	doc, err := Parse("f.yaml", []byte(data))
	if err != nil {
		return strings.Split(err.Error(), "\n")
	}
	if err := doc.Err(); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}

const (
	wantQuote   = "a quote that begins here is not closed"
	wantBracket = "a [ or { that begins here is not closed, or its entries lack a comma between them"
	wantField   = `a second ": " on this line, or a line indented too far: begin a field on its own line, and put quotes around text that holds ": "`
	wantIndent  = "this line fits no block above: indent it like its siblings, and put quotes around text that begins with a quote"
	wantTag     = "a tag (!) stands before the value: remove it, or put quotes around text that begins with !"
	wantText    = "text cannot begin with @, %, ` or a tab here: put quotes around it"
	wantAlias   = "an alias without an anchor of its name before it: define the anchor, or put quotes around text that begins with *"
	wantEmpty   = `the file is empty: want fields, each as "name: value"`
	wantName    = `a field's name is not text: want "name: value"`
)

func TestParseBroken(t *testing.T) {
	for _, test := range []struct {
		name, data string
		want       []string
	}{
		{"empty", "", []string{"f.yaml:1: " + wantEmpty}},
		{"only a comment", "# limits:\n", []string{"f.yaml:1: " + wantEmpty}},
		{"only a marker", "---\n", []string{"f.yaml:1: " + wantEmpty}},
		{"two documents", "a: 1\n---\nb: 2\n", []string{"f.yaml:3: a second document begins here: want one a file, without a line of --- between fields"}},
		{"text behind the end", "a: 1\n...\nb: 2\n", []string{"f.yaml:3: text behind the end of the document: want one document a file"}},
		{"duplicate", "a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", []string{
			"f.yaml:4: b.c: stands already in line 3: want it once",
			"f.yaml:5: a: stands already in line 1: want it once",
		}},
		{"duplicate in braces", "{a: 1, a: 2}", []string{"f.yaml:1: a: stands already in line 1: want it once"}},
		{"duplicate once quoted", "a: 1\n\"a\": 2\n", []string{"f.yaml:2: a: stands already in line 1: want it once"}},
		{"tab", "a:\n\tb: 1\n", []string{"f.yaml:2: a tab indents this line: want spaces"}},
		{"second colon", "a: b: c\n", []string{"f.yaml:1: " + wantField}},
		{"indented too far", "a: 1\n  b: 2\n", []string{"f.yaml:2: " + wantField}},
		{"indented too little", "a:\n  b: 1\n c: 2\n", []string{"f.yaml:3: " + wantIndent}},
		{"open bracket", "x: [1,\n 2]\ny: [1, 2\nb: 3\n", []string{"f.yaml:3: " + wantBracket}},
		{"open quote", "x: 'a\n b'\ny: 'z\nb: 3\n", []string{"f.yaml:3: " + wantQuote}},
		{"no colon", "a: 1\n\nb\n", []string{`f.yaml:3: this line is no field: want "name: value"`}},
		{"list and field", "- a\nb: 1\n", []string{"f.yaml:2: this line fits no list above: begin it with \"- \", or indent it like the list's name"}},
		{"list behind a name", "a: - b\n", []string{"f.yaml:1: a list begins behind other text: begin it on its own line, or write it as [a, b]"}},
		{"at sign", "a: @x\n", []string{"f.yaml:1: " + wantText}},
		{"escape", "a: \"\\q\"\n", []string{`f.yaml:1: a \ escape that YAML does not know: write \\ for a backslash, or use single quotes`}},
		{"unknown alias", "a: 1\nb: *x\n", []string{"f.yaml:2: " + wantAlias}},
		{"alias of itself", "a: &a\n  - *a\n", []string{"f.yaml:2: this alias stands inside the value that it names: a value cannot hold itself"}},
		{"tag", "a: !!binary eA==\n", []string{"f.yaml:1: a: " + wantTag}},
		{"own tag", "a:\n  b: !env X\n", []string{"f.yaml:2: a.b: " + wantTag}},
		{"list as a name", "? [a]\n: 1\n", []string{"f.yaml:1: " + wantName}},
		{"nothing as a name", "~: 1\n", []string{"f.yaml:1: " + wantName}},
		{"merge of a number", "<<: 3\n", []string{"f.yaml:1: <<: want an alias of a mapping, such as *defaults, or a list of them"}},
		{"not UTF-8", "a: 1\nb: \xff\n", []string{"f.yaml:2: byte 0xFF is not UTF-8: save the file as UTF-8"}},
		{"UTF-16", "\xff\xfea\x00", []string{"f.yaml:1: the file is not UTF-8 but UTF-16: save it as UTF-8"}},
		{"NUL", "a: 1\r\nb: \x00\r\n", []string{"f.yaml:2: control character 0x00: remove it, or write it as an escape in double quotes"}},
		{"invisible", "a: \u0090x\n", []string{"f.yaml:1: invisible character U+0090: remove it, or write it as an escape in double quotes"}},
		{"nested lists", strings.Repeat("- ", 200) + "a", []string{"f.yaml:1: values are nested over 100 deep: want fewer levels"}},
		{"open brackets", strings.Repeat("[", 20_000), []string{"f.yaml:1: values are nested too deep"}},
		{"directive", "%YAML 1.2\n---\na: 1\n", []string{"f.yaml:1: want YAML 1.1 without a %YAML line"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, problemsOf(test.data)); diff != "" {
				t.Error("problems (-want +got):\n" + diff)
			}
		})
	}
}

func TestParseSound(t *testing.T) {
	for name, data := range map[string]string{
		"byte order mark":  "\ufeffa: 1\n",
		"windows lines":    "a: 1\r\nb: 2\r\n",
		"start of content": "---\na: 1\n",
		"comments":         "# x\na: 1 # y\n",
		"anchors":          "a: &x {b: 1}\nc: *x\n",
		"tab in text":      "a: \"b\tc\"\n",
		"literal":          "a: |\n  b\n\n  c\n",
	} {
		if problems := problemsOf(data); problems != nil {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

func TestParseAliasBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		before := string(n[0] - 1)
		aliases := strings.TrimSuffix(strings.Repeat("*a"+before+", ", 10), ", ")
		fmt.Fprintf(&bomb, "a%s: &a%s [%s]\n", n, n, aliases)
	}
	want := []string{"f.yaml:1: aliases repeat over 1000000 values: want fewer"}
	if diff := cmp.Diff(want, problemsOf(bomb.String())); diff != "" {
		t.Error(diff)
	}
}

func TestParseTooLarge(t *testing.T) {
	_, err := Parse("f.yaml", make([]byte, MaxBytes+1))
	if want := "f.yaml:1: the file has 67108865 bytes: want at most 67108864"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// A problem can be found in the joined error.
func TestProblemsAreErrors(t *testing.T) {
	doc, err := Parse("f.yaml", []byte("a: 1\na: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	var p Problem
	if !errors.As(doc.Err(), &p) || p.Line != 2 || p.Field != "a" || p.File != "f.yaml" {
		t.Errorf("problem = %+v", p)
	}
}

// What a file says may be a secret. It is repeated only where a value was asked
// for in a form that no secret has.
func TestMessagesDoNotTellSecrets(t *testing.T) {
	for _, data := range []string{
		"password: *hunter2\n", "password: !hunter2\n", "password: !hunter2 x\n", "password: @hunter2\n",
		"password: 'hunter2\n", "password: \"hunter2\\q\"\n", "password: [hunter2\n", "password: %hunter2\n",
		"password: hunter2: x\n", "password: hunter2\n  x: y\n", "password:\n\thunter2\n", "password: hunter2\x01\n",
		"password: &hunter2 [*hunter2]\n", "password: hunter2\npassword: hunter2\n", "password: |\n hunter2\nx\n",
		"password: [hunter2]\n", "password: {a: hunter2}\n",
	} {
		doc, err := Parse("f.yaml", []byte(data))
		if err == nil {
			m := doc.Root().Mapping("password")
			m.Get("password").Secret()
			m.Get("password").Item(0).Mapping("x")
			m.Get("password").Entries()
			err = doc.Err()
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells the secret: %v", data, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"limits:\n  - {name: a, key: [tenant], limit: 10/s}\n",
		"a: &a {b: 1}\nc: {<<: *a, d: 2}\n", "a: &a [*a]\n", "? [a]\n: 1\n", "a: 1\n---\nb: 2\n", "\ta: 1\n", "a: !!x y\n",
		"<<: [{a: 1}, {a: 2}]\n", "a: |\n  b\n", "- - - a\n", "{a: 1, a: 2}", "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse("f.yaml", data)
		if err != nil {
			var p Problem
			if !errors.As(err, &p) || p.Line < 1 || p.Message == "" {
				t.Fatalf("Parse = %v: no place or no message", err)
			}
			if lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1; p.Line > lines {
				t.Fatalf("Parse = %v, but the file has %d lines", err, lines)
			}
			return
		}
		readAll(doc.Root())
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, p := range doc.Problems() {
			if p.Line < 1 || p.Line > lines || p.Message == "" || strings.Contains(p.Message, "\n") {
				t.Fatalf("problem %+v: no place, or not one line", p)
			}
		}
	})
}

// readAll asks everything of a value and of those in it.
func readAll(n Node) {
	n.Text()
	n.Texts()
	n.Int(0, 1, 10)
	n.Size(0, 1, 10)
	n.Millionths(0, 1, 10)
	n.Duration(0, 1, 10)
	n.Bool(false)
	n.OneOf("", "a", "b")
	n.Mapping("a", "b").Need("c", "something")
	if n.IsList() {
		for _, item := range n.Items() {
			readAll(item)
		}
	}
	if n.IsMapping() {
		for _, e := range n.Entries() {
			readAll(e.Value)
		}
	}
}
