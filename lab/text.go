package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A grid is a table as it is shown: what a published lab found stands beside
// what was measured here.
type grid struct {
	heads   []string
	numbers []bool // of each column: it holds numbers
	rows    [][]gridCell
}

type gridCell struct {
	text    string
	outside bool // of the range that is claimed
}

// grid returns what is to be shown; title writes a column's name.
func (t *Table) grid(claims []Claim, title func(*Column) string) grid {
	var g grid
	g.rows = make([][]gridCell, len(t.Cells))
	for i := range t.Columns {
		c := &t.Columns[i]
		g.heads, g.numbers = append(g.heads, title(c)), append(g.numbers, !c.Label)
		beside := make([]string, len(t.Cells))
		for row, cells := range t.Cells {
			reference, outside := t.verdict(claims, row, c.Name)
			beside[row] = reference
			g.rows[row] = append(g.rows[row], gridCell{cellText(cells[i]), outside})
		}
		if strings.Join(beside, "") == "" {
			continue
		}
		g.heads, g.numbers = append(g.heads, "reference"), append(g.numbers, true)
		for row, reference := range beside {
			g.rows[row] = append(g.rows[row], gridCell{text: reference})
		}
	}
	return g
}

// titled is a column's name in a terminal: that of the JSON, with the unit
// where the name does not say it.
func titled(c *Column) string {
	if _, says := c.words(); says || c.Unit == "" {
		return c.Name
	}
	return c.Name + " (" + c.Unit + ")"
}

// WriteText writes the report for a terminal: the rows, then the claims.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if r.Error == "" {
		r.writeRows(w)
		r.writeFindings(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Error != "" {
		_, err := fmt.Fprintf(out, "%s: %s\n", r.Verdict(), r.Error)
		return err
	}
	_, err := fmt.Fprintf(out, "%s, in %.0f s\n", r.Verdict(), r.Took)
	return err
}

func (r *Report) writeRows(w io.Writer) {
	g := r.Table().grid(r.of.Claims, titled)
	fmt.Fprintln(w, strings.Join(g.heads, "\t"))
	for _, row := range g.rows {
		var texts []string
		for _, c := range row {
			if c.outside {
				c.text += " !"
			}
			texts = append(texts, c.text)
		}
		fmt.Fprintln(w, strings.Join(texts, "\t"))
	}
	fmt.Fprintln(w)
}

func (r *Report) writeFindings(w io.Writer) {
	if len(r.Findings) == 0 {
		return
	}
	fmt.Fprintln(w, "figure\tmeasured\tclaimed\treference\t")
	for _, f := range r.Findings {
		verdict := "ok"
		if !f.OK {
			verdict = "OUTSIDE"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Figure(), number(f.Measured), f.Range(), f.Reference, verdict)
	}
	fmt.Fprintln(w)
}
