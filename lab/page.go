package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A page of the documentation explains one experiment: NAME.md, with NAME.svg
// beside it. Its tables stand between two comments; in its sentences a figure is
// quoted with the claim behind it in a comment, so that nobody sees it:
//
//	... lets 200<!-- fixed_window: worst_window --> requests pass ...
var (
	tablesMark = regexp.MustCompile(`(?s)<!-- tables -->\n.*?<!-- end of tables -->`)
	quoteMark  = regexp.MustCompile(`(-?\d[\d,]*(?:\.\d+)?)<!-- (.+?) -->`)
)

// UpdatePage writes what was measured into the page of the experiment in a
// folder, and draws its plot. Of an experiment without a page, or one that did
// not measure, nothing is written.
func (r *Report) UpdatePage(dir string) error {
	if r.Error != "" {
		return nil
	}
	name := filepath.Join(dir, r.Experiment+".md")
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err = r.quote(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(name, text, 0o666); err != nil {
		return err
	}
	picture := r.plot()
	if picture == nil {
		return nil
	}
	var svg bytes.Buffer
	if err := picture.WriteSVG(&svg); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Experiment+".svg"), svg.Bytes(), 0o666)
}

// quote puts the report's figures into a page.
func (r *Report) quote(text []byte) ([]byte, error) {
	figures := map[string]string{}
	for _, f := range r.Findings {
		figures[f.Figure()] = number(f.Measured)
	}
	var errs []error
	if !tablesMark.Match(text) {
		errs = append(errs, errors.New("no place for the tables: want the comments tables and end of tables"))
	}
	text = tablesMark.ReplaceAllLiteral(text, []byte("<!-- tables -->\n"+r.markdown()+"<!-- end of tables -->"))
	text = quoteMark.ReplaceAllFunc(text, func(quote []byte) []byte {
		figure := string(quoteMark.FindSubmatch(quote)[2])
		value, ok := figures[figure]
		if !ok {
			errs = append(errs, fmt.Errorf("no claim %q", figure))
			return quote
		}
		return fmt.Appendf(nil, "%s<!-- %s -->", value, figure)
	})
	return text, errors.Join(errs...)
}

// markdown writes the rows and the claims as tables.
func (r *Report) markdown() string {
	var b strings.Builder
	line := func(cells ...string) {
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	g := r.Table().grid(r.of.Claims, (*Column).Title)
	rule := make([]string, len(g.heads))
	for i, number := range g.numbers {
		rule[i] = "---"
		if number {
			rule[i] = "---:"
		}
	}
	line(g.heads...)
	line(rule...)
	for _, row := range g.rows {
		var cells []string
		for _, c := range row {
			if c.outside {
				c.text = "**" + c.text + "** (outside)"
			}
			cells = append(cells, c.text)
		}
		line(cells...)
	}
	if len(r.Findings) > 0 {
		b.WriteString("\n")
		line("figure", "measured", "claimed", "reference")
		line("---", "---:", "---", "---")
	}
	for _, f := range r.Findings {
		line(f.Figure(), number(f.Measured), f.Range(), f.Reference)
	}
	return b.String()
}
