package plot

import (
	"io"
	"strings"
)

// Lines are lines over numbers.
type Lines struct {
	Title  string
	X, Y   Axis
	Series []LineSeries
}

// A LineSeries is one line.
type LineSeries struct {
	Name string
	// X and Y are its points, in order; what cannot be shown is left out.
	X, Y []float64
	// Steps keeps a value until the next point; else points are joined.
	Steps bool
}

const plotHeight = 300.0

// WriteSVG implements [Plot].
func (l *Lines) WriteSVG(w io.Writer) error { return l.drawn().writeTo(w) }

func (l *Lines) drawn() *canvas {
	c := &canvas{name: l.Title}
	var names []string
	var xs, ys []float64
	for _, s := range l.Series {
		names, xs, ys = append(names, s.Name), append(xs, s.X...), append(ys, s.Y...)
	}
	top := c.legend(c.title(l.Title), names, func(i int) sample {
		return func(x, y float64) {
			c.printf("<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" %s/>\n", px(x), px(y), px(x+24), px(y), l.style(i))
		}
	}) + 14
	bottom := top + plotHeight
	y := newScale(l.Y.Log, ys, bottom, top)
	left := 0.0
	for _, tick := range y.ticks {
		left = max(left, textWidth(tickText(tick)))
	}
	x := newScale(l.X.Log, xs, margin+lineSpace+left+18, width-margin-24)
	l.axes(c, &x, &y)
	for i := range l.Series {
		l.draw(c, i, &x, &y)
	}
	c.height = bottom + 52
	return c
}

// axes draws the grid, the numbers and the names of both axes.
func (l *Lines) axes(c *canvas, x, y *scale) {
	for _, tick := range y.ticks {
		at, _ := y.at(tick)
		c.line(x.from, at, x.to, at, grid)
		c.text(x.from-8, at+4, "end", tickText(tick))
	}
	c.line(x.from, y.from, x.to, y.from, ink)
	c.line(x.from, y.from, x.from, y.to, ink)
	c.ticks(x, y.from)
	c.text((x.from+x.to)/2, y.from+42, "middle", axisName(l.X))
	c.printf("<text transform=\"translate(%d %s) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
		margin+fontSize-2, px((y.from+y.to)/2), escape(axisName(l.Y)))
}

func axisName(a Axis) string {
	if a.Log {
		return a.Label + ", logarithmic"
	}
	return a.Label
}

func (l *Lines) style(i int) string {
	style := `stroke="` + colours[i%len(colours)] + `" stroke-width="2"`
	if dash := dashes[i%len(dashes)]; dash != "" {
		style += ` stroke-dasharray="` + dash + `"`
	}
	return style
}

// draw draws one line.
func (l *Lines) draw(c *canvas, i int, x, y *scale) {
	s := &l.Series[i]
	var path strings.Builder
	for j := range min(len(s.X), len(s.Y)) {
		at, ok := x.at(s.X[j])
		high, shown := y.at(s.Y[j])
		if !ok || !shown {
			continue
		}
		switch {
		case path.Len() == 0:
			path.WriteString("M" + px(at) + " " + px(high))
		case s.Steps:
			path.WriteString("H" + px(at) + "V" + px(high))
		default:
			path.WriteString("L" + px(at) + " " + px(high))
		}
	}
	c.printf("<path fill=\"none\" stroke-linejoin=\"round\" %s d=\"%s\"/>\n", l.style(i), path.String())
}
