package lab

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/sluice-limiter/sluice/lab/plot"
)

//go:embed report.html
var reportHTML string

// A page is what the template of the report is given.
type page struct {
	Machine, When, Took string
	Sections            []section
}

// A section is one experiment of the page.
type section struct {
	Name, Does, Explains, Verdict, Took, Error string
	OK                                         bool
	SVG                                        template.HTML
	Heads                                      []pageCell
	Rows                                       [][]pageCell
	Findings                                   []Finding
	Referred                                   bool // some finding has a reference
}

type pageCell struct {
	Text            string
	Number, Outside bool
}

// Text writes the measured figure.
func (f Finding) Text() string { return number(f.Measured) }

// WriteHTML writes reports as one page that needs nothing else: tables, plots,
// and this machine's figures beside the reference. machine says what was measured
// on, now when.
func WriteHTML(w io.Writer, reports []*Report, machine string, now time.Time) error {
	t, err := template.New("report").Parse(reportHTML)
	if err != nil {
		return err
	}
	p := page{Machine: machine, When: now.Format("2 January 2006, 15:04 MST")}
	took := 0.0
	for _, r := range reports {
		s, err := r.section()
		if err != nil {
			return fmt.Errorf("%s: %w", r.Experiment, err)
		}
		took += r.Took
		p.Sections = append(p.Sections, s)
	}
	p.Took = spoken(took)
	return t.Execute(w, p)
}

func (r *Report) section() (section, error) {
	s := section{
		Name: r.Experiment, Does: r.of.Does, Explains: r.of.Explains,
		Verdict: r.Verdict(), Took: spoken(r.Took), Error: r.Error, OK: r.OK,
		Findings: r.Findings,
	}
	if r.Error != "" {
		return s, nil
	}
	s.Referred = slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Reference != "" })
	g := r.Table().grid(r.of.Claims, (*Column).Title)
	for i, head := range g.heads {
		s.Heads = append(s.Heads, pageCell{Text: head, Number: g.numbers[i]})
	}
	for _, row := range g.rows {
		var cells []pageCell
		for i, c := range row {
			cells = append(cells, pageCell{c.text, g.numbers[i], c.outside})
		}
		s.Rows = append(s.Rows, cells)
	}
	var err error
	s.SVG, err = plot.HTML(r.plot())
	return s, err
}

// spoken writes seconds as people say them.
func spoken(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case seconds < 1:
		return "under a second"
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}
