package lab

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const pages = "../docs/lab"

// TestPages keeps what the pages quote and what the code claims together.
func TestPages(t *testing.T) {
	for _, e := range Experiments() {
		text, err := os.ReadFile(filepath.Join(pages, e.Name+".md"))
		switch {
		case errors.Is(err, os.ErrNotExist) && len(e.Claims) == 0:
			continue // not written yet
		case err != nil:
			t.Errorf("%v: write the page, then run make lab-docs", err)
			continue
		}
		for _, problem := range e.problems(string(text)) {
			t.Errorf("docs/lab/%s.md: %s", e.Name, problem)
		}
		wantPicture(t, filepath.Join(pages, e.Name+".svg"))
	}
}

// TestPagesNotice plants faults that must be found.
func TestPagesNotice(t *testing.T) {
	e := sample(Claim{Row: "a 1", Column: "p50_ms", Max: 1}, Claim{Row: "b|<&> 2", Column: "p50_ms", Min: 1000, Max: 3000})
	page := "![x](sample.svg)\n7<!-- a 1: p50_ms --> ms, 1,500<!-- b|<&> 2: p50_ms -->\n<!-- tables -->\n<!-- end of tables -->\n"
	r := e.Measure(t.Context(), ignore)
	text, err := r.quote([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	if !strings.Contains(good, "0.5<!-- a 1: p50_ms --> ms, 2,000<!-- b|<&> 2: p50_ms -->\n") {
		t.Errorf("the figures are not brought up to date:\n%s", good)
	}
	if problems := e.problems(good); len(problems) > 0 {
		t.Errorf("%q of\n%s", problems, good)
	}
	for _, change := range [][2]string{
		{"0.5<!-- a 1", "1.5<!-- a 1"},
		{"2,000<!--", "200<!--"},
		{"a 1: p50_ms -->", "a 2: p50_ms -->"},
		{"at most 1 |", "at most 2 |"},
		{"| a 1: p50_ms | 0.5 |", "| a 1: p50_ms | 1.01 |"},
		{"| a 1: p50_ms | 0.5 |", "| a 3: p50_ms | 0.5 |"},
		{"](sample.svg)", "](other.svg)"},
		{"<!-- tables -->", ""},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("nothing to change for %q in\n%s", change, good)
		}
		if len(e.problems(bad)) == 0 {
			t.Errorf("%q is not noticed", change)
		}
	}
	if _, err := r.quote([]byte("5<!-- no such claim -->")); err == nil {
		t.Error("a page without a place for tables, and a figure that is not claimed: want an error")
	}
}

func TestUpdatePage(t *testing.T) {
	dir, r := t.TempDir(), sample().Measure(t.Context(), ignore)
	if err := r.UpdatePage(dir); err != nil {
		t.Fatalf("without a page: %v", err)
	}
	name := filepath.Join(dir, "sample.md")
	if err := os.WriteFile(name, []byte("<!-- tables -->\n<!-- end of tables -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.UpdatePage(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), `| b\|<&> | 2 | 2,000 | 1,000 |`) {
		t.Errorf("%s, %v", text, err)
	}
	wantPicture(t, filepath.Join(dir, "sample.svg"))
}

// problems holds a page against the experiment's claims.
func (e *Experiment) problems(text string) (problems []string) {
	fail := func(parts ...string) { problems = append(problems, strings.Join(parts, " ")) }
	claims := map[string]*Claim{}
	for i := range e.Claims {
		claims[e.Claims[i].Figure()] = &e.Claims[i]
	}
	hold := func(figure, value string) {
		c, ok := claims[figure]
		f, err := strconv.ParseFloat(strings.ReplaceAll(value, ",", ""), 64)
		switch {
		case !ok:
			fail("nothing is claimed of", figure)
		case err != nil || c.outside(f) > 0:
			fail(figure, "is", value, "there, and claimed to be", c.Range())
		}
	}
	for _, quote := range quoteMark.FindAllStringSubmatch(text, -1) {
		hold(quote[2], quote[1])
	}
	tables := tablesMark.FindString(text)
	if tables == "" {
		fail("no tables")
	}
	_, found, _ := strings.Cut(strings.ReplaceAll(tables, `\|`, "\x00"), "| figure | measured |")
	for figure, c := range claims {
		row := "| " + strings.ReplaceAll(figure, "|", "\x00") + " | "
		_, rest, ok := strings.Cut(found, row)
		cells := strings.Split(rest, " | ")
		if !ok || len(cells) < 3 || strings.TrimSuffix(cells[1], " |") != c.Range() {
			fail("the table does not say that", figure, "is claimed to be", c.Range())
			continue
		}
		hold(figure, cells[0])
	}
	if !strings.Contains(text, "]("+e.Name+".svg)") {
		fail("no plot")
	}
	return problems
}

// wantPicture demands a file that is SVG.
func wantPicture(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	d, first := xml.NewDecoder(f), ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if e, ok := token.(xml.StartElement); ok && first == "" {
			first = e.Name.Local
		}
	}
	if first != "svg" {
		t.Errorf("%s: begins with %q, want svg", name, first)
	}
}
