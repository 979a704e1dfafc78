package lab

import (
	"io"
	"math"

	"github.com/sluice-limiter/sluice/lab/plot"
)

// bars draws a column: one bar a row, beside what a published lab found, if
// that is given for each row (NaN: nothing).
func (t *Table) bars(title, axis, column string, references []float64) *plot.Bars {
	b := &plot.Bars{Title: title, Values: plot.Axis{Label: axis}}
	values := plot.BarSeries{}
	for row := range t.Cells {
		b.Labels = append(b.Labels, t.Label(row))
		values.Values = append(values.Values, t.Number(row, column))
	}
	b.Series = []plot.BarSeries{values}
	if len(references) > 0 {
		b.Series[0].Name = "this machine"
		b.Series = append(b.Series, plot.BarSeries{Name: "reference (a published lab)", Values: references, Hollow: true})
	}
	return b
}

// plot returns the report's picture; nil if there is nothing to draw.
func (r *Report) plot() plot.Plot {
	t := r.Table()
	if len(t.Cells) == 0 {
		return nil
	}
	if r.of.Plot != nil {
		return r.of.Plot(t)
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Label && !math.IsNaN(t.Number(0, c.Name)) {
			return t.bars(r.of.Does, c.Title(), c.Name, nil)
		}
	}
	return nil
}

// WritePlot writes the report's picture as SVG, nothing if there is nothing to
// draw.
func (r *Report) WritePlot(w io.Writer) error {
	p := r.plot()
	if p == nil {
		return nil
	}
	return p.WriteSVG(w)
}
