package replay

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// The plot's layout, in pixels.
const (
	plotWidth, plotHeight = 960, 420
	plotLeft, plotRight   = 84, 48
	plotTop, plotBottom   = 92, 64
	plotInnerWidth        = plotWidth - plotLeft - plotRight
	plotInnerHeight       = plotHeight - plotTop - plotBottom
	baseline              = plotTop + plotInnerHeight
)

// The colours differ in lightness too, so that print and eyes without red and
// green tell them apart.
const (
	colourAllowed = "#8fb8de"
	colourRefused = "#b3261e"
	colourText    = "#1f2328"
	colourGrid    = "#d8dce0"
)

// WritePlot writes the result's timeline as an SVG picture: allowed and refused
// requests over time, stacked.
func (r *Result) WritePlot(w io.Writer) error {
	p := plot{out: bufio.NewWriter(w), r: r}
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="12" fill="%s">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight, colourText)
	p.printf("<title>%s</title>\n", escape(p.title()))
	p.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, plotHeight)
	p.heading()
	if t := &r.Timeline; t.Start == nil || len(t.Allowed) == 0 || len(t.Allowed) != len(t.Refused) || t.Step <= 0 {
		p.text(plotWidth/2, plotTop+plotInnerHeight/2, "middle", "No requests")
	} else {
		p.axes()
		p.bars()
	}
	p.printf("</svg>\n")
	return p.out.Flush()
}

// A plot is a picture under way. Errors of the writer stay in out until it is
// flushed.
type plot struct {
	out *bufio.Writer
	r   *Result
	top float64 // the value at the upper end of the y axis
}

func (p *plot) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *plot) text(x, y float64, anchor, text string, attributes ...string) {
	p.printf(`<text x="%s" y="%s" text-anchor="%s"%s>%s</text>`+"\n",
		pixels(x), pixels(y), anchor, strings.Join(append([]string{""}, attributes...), " "), escape(text))
}

func (p *plot) line(x1, y1, x2, y2 float64, colour string) {
	p.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s"/>`+"\n",
		pixels(x1), pixels(y1), pixels(x2), pixels(y2), colour)
}

// pixels writes a coordinate.
func pixels(f float64) string { return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) }

// escape makes text safe in XML, also text with bytes that XML cannot hold.
func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}

func (p *plot) title() string {
	return fmt.Sprintf("%s of %s refused (%s)",
		grouped(p.r.Refused), plural(p.r.Requests, "request"), orNone(percent(p.r.Refused, p.r.Requests)))
}

func orNone(percent string) string {
	if percent == "" {
		return "0%"
	}
	return percent
}

// heading writes the title, the limits and the legend.
func (p *plot) heading() {
	p.text(plotLeft, 30, "start", p.title(), `font-size="18"`, `font-weight="bold"`)
	p.text(plotLeft, 50, "start", p.limits())
	x := float64(plotLeft)
	for _, entry := range [...]struct{ colour, text string }{
		{colourAllowed, "allowed: " + grouped(p.r.Allowed)},
		{colourRefused, "refused: " + grouped(p.r.Refused)},
	} {
		p.printf(`<rect x="%s" y="64" width="12" height="12" fill="%s"/>`+"\n", pixels(x), entry.colour)
		p.text(x+18, 74, "start", entry.text)
		x += 42 + 7*float64(len(entry.text))
	}
}

// limits names the limits, as many as fit in a line.
func (p *plot) limits() string {
	const fit = 120
	var parts []string
	for i := range p.r.Limits {
		l := &p.r.Limits[i]
		part := printable(l.Name) + ": " + l.Limit
		if len(l.Key) > 0 {
			part += " by " + printable(strings.Join(l.Key, ", "))
		}
		if l.Shadow {
			part += " (shadow)"
		}
		parts = append(parts, part)
	}
	line := strings.Join(parts, "; ")
	if more := len([]rune(line)) > fit; more {
		line = string([]rune(line)[:fit-1]) + "…"
	}
	return line
}

// axes draws the grid, the ticks and the names of both axes, and settles the
// scale.
func (p *plot) axes() {
	most := int64(1)
	for i, n := range p.r.Timeline.Allowed {
		most = max(most, n+p.r.Timeline.Refused[i])
	}
	step := niceStep(most)
	p.top = float64((most + step - 1) / step * step)
	for n := int64(0); float64(n) <= p.top; n += step {
		y := p.y(float64(n))
		if n > 0 {
			p.line(plotLeft, y, plotWidth-plotRight, y, colourGrid)
		}
		p.text(plotLeft-8, y+4, "end", shortNumber(n))
	}
	p.printf(`<text transform="translate(18 %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		pixels(plotTop+plotInnerHeight/2), escape("requests per "+stepName(p.r.Timeline.Step)))
	p.timeAxis()
}

// niceStep returns 1, 2 or 5 times a power of ten that parts the axis in at
// most six.
func niceStep(most int64) int64 {
	for step := int64(1); ; step *= 10 {
		for _, n := range [...]int64{step, 2 * step, 5 * step} {
			if most <= 6*n || n > math.MaxInt64/20 {
				return n
			}
		}
	}
}

// shortNumber writes large numbers in millions or billions, so that they fit.
func shortNumber(n int64) string {
	switch {
	case n >= 1e9:
		return strconv.FormatFloat(float64(n)/1e9, 'f', -1, 64) + " bn"
	case n >= 1e6:
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + " M"
	}
	return grouped(n)
}

func (p *plot) y(n float64) float64 { return baseline - n/p.top*plotInnerHeight }

// x returns where a time lies, in seconds from the start of the timeline.
func (p *plot) x(seconds float64) float64 {
	t := &p.r.Timeline
	return plotLeft + seconds/float64(t.Step*int64(len(t.Allowed)))*plotInnerWidth
}

// stepName writes a step as people say it: "second", "10 minutes".
func stepName(seconds int64) string {
	for _, u := range [...]struct {
		length int64
		name   string
	}{{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}} {
		if seconds%u.length == 0 {
			if n := seconds / u.length; n > 1 {
				return plural(n, u.name)
			}
			return u.name
		}
	}
	return ""
}

// timeAxis marks round times of UTC.
func (p *plot) timeAxis() {
	p.line(plotLeft, baseline, plotWidth-plotRight, baseline, colourText)
	t := &p.r.Timeline
	length := t.Step * int64(len(t.Allowed))
	start := t.Start.Unix()
	shown := ""
	for at, next := firstTick(start, length); at <= start+length; at = next(at) {
		x := p.x(float64(at - start))
		p.line(x, baseline, x, baseline+5, colourText)
		upper, lower := tickText(at, length)
		p.text(x, baseline+20, "middle", upper)
		if lower != shown {
			p.text(x, baseline+35, "middle", lower)
		}
		shown = lower
	}
	p.text(plotLeft+plotInnerWidth/2, plotHeight-10, "middle", "time (UTC)")
}

// tickSteps are the distances of ticks on the time axis, in seconds; longer
// ones are months and years.
var tickSteps = [...]int64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400}

const mostTicks = 9

// firstTick returns the first tick at or after start and how to find the next.
func firstTick(start, length int64) (first int64, next func(int64) int64) {
	for _, step := range tickSteps {
		if length <= step*mostTicks {
			first = -floorDiv(-start, step) * step
			return first, func(at int64) int64 { return at + step }
		}
	}
	months := 1
	for int64(months)*30*86400*mostTicks < length {
		months *= 3
		if months == 9 {
			months = 12
		} else if months > 12 {
			months = months / 3 * 2
		}
	}
	year, month, _ := time.Unix(start, 0).UTC().Date()
	month = time.Month((int(month)-1)/min(months, 12)*min(months, 12) + 1)
	first = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix()
	next = func(at int64) int64 { return time.Unix(at, 0).UTC().AddDate(0, months, 0).Unix() }
	for first < start {
		first = next(first)
	}
	return first, next
}

// tickText writes a tick in two lines: the time of day and the date where ticks
// are closer than a day, else the day and the year. The second is shown where it
// changes.
func tickText(at, length int64) (upper, lower string) {
	t := time.Unix(at, 0).UTC()
	switch {
	case length > 86400*mostTicks*14:
		return t.Format("Jan"), t.Format("2006")
	case length > 12*3600*mostTicks:
		return t.Format("2 Jan"), t.Format("2006")
	case length <= 30*mostTicks:
		return t.Format("15:04:05"), t.Format("2 Jan 2006")
	}
	return t.Format("15:04"), t.Format("2 Jan 2006")
}

// bars draws each step: refused on allowed.
func (p *plot) bars() {
	t := &p.r.Timeline
	width := float64(plotInnerWidth) / float64(len(t.Allowed))
	gap := 0.0
	if width > 4 {
		gap = 1
	}
	draw := func(colour string, from func(i int) (low, high int64)) {
		p.printf(`<path fill="%s" d="`, colour)
		for i := range t.Allowed {
			low, high := from(i)
			if high == low {
				continue
			}
			x, y := p.x(float64(int64(i)*t.Step)), p.y(float64(high))
			// What is there is seen, however little.
			height := max(p.y(float64(low))-y, 0.75)
			p.printf("M%s %sh%sv%sh-%sz", pixels(x+gap/2), pixels(y), pixels(width-gap), pixels(height), pixels(width-gap))
		}
		p.printf("\"/>\n")
	}
	draw(colourAllowed, func(i int) (int64, int64) { return 0, t.Allowed[i] })
	draw(colourRefused, func(i int) (int64, int64) { return t.Allowed[i], t.Allowed[i] + t.Refused[i] })
}
