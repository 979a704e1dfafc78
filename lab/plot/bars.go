package plot

import (
	"io"
	"math"
	"slices"
)

// Bars are horizontal bars, one group for each label: labels of any length
// have room, and each bar says its value.
type Bars struct {
	Title  string
	Labels []string // of the groups, top down
	Values Axis
	Series []BarSeries // the bars of each group, top down
}

// A BarSeries is one bar in each group.
type BarSeries struct {
	// Name is shown in the legend; "": it is not.
	Name string
	// Values are those of the groups; NaN: no bar.
	Values []float64
	// Hollow draws outlines: what was measured elsewhere, beside what was here.
	Hollow bool
}

const (
	barHeight = 16.0
	groupGap  = 12.0
	mostLabel = 270.0 // pixels of labels
)

// WriteSVG implements [Plot].
func (b *Bars) WriteSVG(w io.Writer) error { return b.drawn().writeTo(w) }

func (b *Bars) drawn() *canvas {
	c := &canvas{name: b.Title}
	var names []string
	var all []float64
	for _, s := range b.Series {
		names, all = append(names, s.Name), append(all, s.Values...)
	}
	top := c.legend(c.title(b.Title), names, func(i int) sample { return b.mark(c, i) }) + 8
	wide := 0.0
	labels := make([][]string, len(b.Labels))
	for i, label := range b.Labels {
		labels[i] = wrap(label, mostLabel)
		for _, line := range labels[i] {
			wide = max(wide, textWidth(line))
		}
	}
	// Behind the longest bar there is room for its value.
	s := newScale(b.Values.Log, all, margin+wide+10, width-margin-64)
	bottom := b.draw(c, &s, labels, top)
	b.axis(c, &s, top, bottom)
	c.height = bottom + 52
	return c
}

// draw draws the groups over the grid and returns where they end.
func (b *Bars) draw(c *canvas, s *scale, labels [][]string, top float64) float64 {
	heights := make([]float64, len(labels))
	bottom := top + groupGap
	for i, lines := range labels {
		heights[i] = max(barHeight*float64(len(b.Series)), lineSpace*float64(len(lines)))
		bottom += heights[i] + groupGap
	}
	for _, tick := range s.ticks {
		x, _ := s.at(tick)
		c.line(x, top, x, bottom, grid)
	}
	y := top + groupGap
	for i, lines := range labels {
		first := y + heights[i]/2 - lineSpace*float64(len(lines))/2 + fontSize
		for j, line := range lines {
			c.text(s.from-10, first+lineSpace*float64(j), "end", line)
		}
		b.group(c, s, i, y+(heights[i]-barHeight*float64(len(b.Series)))/2)
		y += heights[i] + groupGap
	}
	return bottom
}

// group draws the bars of one label.
func (b *Bars) group(c *canvas, s *scale, i int, y float64) {
	for j, series := range b.Series {
		if i >= len(series.Values) {
			continue
		}
		value, zero := series.Values[i], s.zero()
		x, ok := s.at(value)
		if !ok {
			if value == 0 { // on a logarithmic scale
				c.text(zero+6, y+barHeight-4, "start", "0")
			}
			y += barHeight
			continue
		}
		left, right := min(x, zero), max(x, zero)
		c.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" %s/>\n",
			px(left), px(y+1), px(math.Max(right-left, 1)), px(barHeight-2), b.style(j))
		c.text(right+6, y+barHeight-4, "start", Number(value))
		y += barHeight
	}
}

// style returns the attributes of a series' bars.
func (b *Bars) style(series int) string {
	if b.Series[series].Hollow {
		return `fill="#ffffff" stroke="#444444" stroke-dasharray="3 2"`
	}
	solid := 0
	for _, s := range b.Series[:series] {
		if !s.Hollow {
			solid++
		}
	}
	return `fill="` + colours[solid%len(colours)] + `"`
}

func (b *Bars) mark(c *canvas, i int) sample {
	return func(x, y float64) {
		c.printf("<rect x=\"%s\" y=\"%s\" width=\"22\" height=\"12\" %s/>\n", px(x), px(y-6), b.style(i))
	}
}

// axis draws the axis of values below the bars.
func (b *Bars) axis(c *canvas, s *scale, top, bottom float64) {
	c.line(s.from, bottom, s.to, bottom, ink)
	c.line(s.zero(), top, s.zero(), bottom, ink)
	c.ticks(s, bottom)
	label := b.Values.Label
	if b.Values.Log {
		label += ", logarithmic"
	}
	// Under the bars, or where they do not leave enough room, under all.
	middle := slices.Min([]float64{(s.from + s.to) / 2, width - margin - textWidth(label)/2})
	c.text(middle, bottom+42, "middle", label)
}

// ticks writes the numbers under a horizontal axis.
func (c *canvas) ticks(s *scale, y float64) {
	for _, tick := range s.ticks {
		x, _ := s.at(tick)
		c.line(x, y, x, y+5, ink)
		c.text(x, y+20, "middle", tickText(tick))
	}
}
