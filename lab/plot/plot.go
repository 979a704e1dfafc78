// Package plot draws bars and lines as SVG pictures that stand alone: readable
// in print, without scripts, and with no text cut.
package plot

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Plot is a picture: [Bars], [Lines], or a [Stack] of them.
type Plot interface {
	// WriteSVG writes the picture.
	WriteSVG(w io.Writer) error
	drawn() *canvas
}

// A Stack is several plots, one under the other.
type Stack []Plot

// WriteSVG implements [Plot].
func (s Stack) WriteSVG(w io.Writer) error { return s.drawn().writeTo(w) }

func (s Stack) drawn() *canvas {
	c := new(canvas)
	for _, p := range s {
		part := p.drawn()
		if c.name == "" {
			c.name = part.name
		}
		c.printf("<g transform=\"translate(0 %s)\">\n%s</g>\n", px(c.height), part.String())
		c.height += part.height
	}
	return c
}

// HTML returns a plot as a part of a page; "" for nil.
func HTML(p Plot) (template.HTML, error) {
	if p == nil {
		return "", nil
	}
	var b strings.Builder
	err := p.WriteSVG(&b)
	return template.HTML(b.String()), err
}

// An Axis says what is measured along it.
type Axis struct {
	// Label names it, with its unit: "median latency (ms)".
	Label string
	// Log makes it logarithmic; what is not above 0 is not drawn then.
	Log bool
}

// Sizes in pixels.
const (
	width     = 760
	margin    = 16
	fontSize  = 13
	lineSpace = 18
)

// Series differ in lightness and in their strokes too, so that print and eyes
// without red and green tell them apart.
var (
	colours = [...]string{"#0b5394", "#d35400", "#2e8b57", "#8e44ad", "#7f6000", "#4fa3d1", "#444444", "#c2185b"}
	dashes  = [...]string{"", "7 4", "2 3", "9 3 2 3", "", "7 4", "2 3", "9 3 2 3"}
)

const (
	ink  = "#1f2328"
	grid = "#dde1e5"
)

// A canvas is a picture under way.
type canvas struct {
	strings.Builder
	name   string
	height float64
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// writeTo writes the picture with its frame.
func (c *canvas) writeTo(w io.Writer) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s" viewBox="0 0 %d %s" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="%d" fill="%s">
<title>%s</title>
<rect width="%d" height="%s" fill="#ffffff"/>
%s</svg>
`, width, px(c.height), width, px(c.height), fontSize, ink, escape(c.name), width, px(c.height), c.String())
	return err
}

func (c *canvas) text(x, y float64, anchor, text string, attributes ...string) {
	c.printf("<text x=\"%s\" y=\"%s\" text-anchor=\"%s\"%s>%s</text>\n",
		px(x), px(y), anchor, strings.Join(append([]string{""}, attributes...), " "), escape(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string) {
	c.printf("<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" stroke=\"%s\"/>\n", px(x1), px(y1), px(x2), px(y2), colour)
}

// title writes the title, in as many lines as it takes, and returns where the
// picture goes on.
func (c *canvas) title(title string) (y float64) {
	y = margin + 4
	for _, line := range wrap(title, (width-2*margin)*fontSize/15) {
		y += lineSpace
		c.text(margin, y-4, "start", line, `font-size="15"`, `font-weight="bold"`)
	}
	return y + 8
}

// A sample draws the mark of a series in a legend, at its left end.
type sample func(x, y float64)

// legend writes the names of series that have one, and returns where the picture
// goes on.
func (c *canvas) legend(y float64, names []string, mark func(i int) sample) float64 {
	x, any := float64(margin), false
	for i, name := range names {
		if name == "" {
			continue
		}
		long := 30 + textWidth(name) + 18
		if x > margin && x+long > width-margin {
			x, y = margin, y+lineSpace
		}
		mark(i)(x, y+8)
		c.text(x+30, y+12, "start", name)
		x, any = x+long, true
	}
	if any {
		y += lineSpace
	}
	return y
}

// textWidth estimates the pixels of a text, rather too many than too few.
func textWidth(s string) float64 { return 0.58 * fontSize * float64(len([]rune(s))) }

// wrap breaks a text into lines of so many pixels.
func wrap(text string, pixels float64) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && textWidth(line+" "+word) > pixels {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// px writes a coordinate.
func px(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// escape makes text safe in XML, also text with bytes that XML cannot hold.
func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}
