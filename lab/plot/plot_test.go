package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// svg draws a plot and reads it as XML.
func svg(t *testing.T, p Plot) string {
	t.Helper()
	var b strings.Builder
	if err := p.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
	}
	return b.String()
}

func someBars() *Bars {
	return &Bars{
		Title:  "Latency of <everything> & more, told in a title that is far too long to stand in one line of the picture",
		Labels: []string{"one", "a label that is so long that it has to be broken into lines", "nothing"},
		Values: Axis{Label: "latency (ms)"},
		Series: []BarSeries{
			{Name: "this machine", Values: []float64{1, 20, 0}},
			{Name: "reference", Values: []float64{2, math.NaN()}, Hollow: true},
		},
	}
}

func TestBars(t *testing.T) {
	for _, log := range []bool{false, true} {
		b := someBars()
		b.Values.Log = log
		got := svg(t, b)
		for _, want := range []string{"latency (ms)", "this machine", "reference", "&lt;everything&gt; &amp; more", ">20</text>", ">0</text>"} {
			if !strings.Contains(got, want) {
				t.Errorf("log %v: no %q in\n%s", log, want, got)
			}
		}
		if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
			t.Errorf("log %v: not a number in\n%s", log, got)
		}
		wantInside(t, got)
	}
}

func TestStack(t *testing.T) {
	one, two := someBars(), &Bars{Title: "The second"}
	high := func(p Plot) float64 {
		h, err := strconv.ParseFloat(height.FindStringSubmatch(svg(t, p))[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	got := svg(t, Stack{one, two})
	if !strings.Contains(got, "The second") || strings.Count(got, "<svg") != 1 {
		t.Errorf("want one picture of both:\n%s", got)
	}
	if h := high(Stack{one, two}); h != high(one)+high(two) {
		t.Errorf("%g high, want %g and %g", h, high(one), high(two))
	}
}

func TestBarsOfNothing(t *testing.T) {
	wantInside(t, svg(t, &Bars{Title: "Nothing"}))
	wantInside(t, svg(t, &Bars{Title: "Zero", Labels: []string{"a"}, Series: []BarSeries{{Values: []float64{0}}}, Values: Axis{Log: true}}))
}

func TestLines(t *testing.T) {
	l := &Lines{
		Title: "Admitted over time",
		X:     Axis{Label: "time (s)"}, Y: Axis{Label: "requests"},
		Series: []LineSeries{
			{Name: "steps", X: []float64{0, 1, 2}, Y: []float64{1, 2, 3}, Steps: true},
			{Name: "joined", X: []float64{0, 1, 2}, Y: []float64{3, math.NaN(), 1}},
		},
	}
	got := svg(t, l)
	for _, want := range []string{"time (s)", ">requests<", ">steps<", ">joined<", "rotate(-90)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "NaN") {
		t.Errorf("a point that is no number is not left out:\n%s", got)
	}
	wantInside(t, got)
	l.X.Log, l.Y.Log = true, true
	if got := svg(t, l); !strings.Contains(got, "time (s), logarithmic") {
		t.Errorf("a logarithmic axis does not say so:\n%s", got)
	}
	wantInside(t, svg(t, &Lines{Title: "Nothing"}))
}

var (
	textAt = regexp.MustCompile(`<text x="([^"]*)" y="([^"]*)" text-anchor="([a-z]*)"[^>]*>([^<]*)<`)
	height = regexp.MustCompile(`<svg [^>]* height="([^"]*)"`)
)

// wantInside demands that no text is cut by the picture's edge.
func wantInside(t *testing.T, svg string) {
	t.Helper()
	high, err := strconv.ParseFloat(height.FindStringSubmatch(svg)[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range textAt.FindAllStringSubmatch(svg, -1) {
		x, xerr := strconv.ParseFloat(m[1], 64)
		y, yerr := strconv.ParseFloat(m[2], 64)
		if xerr != nil || yerr != nil {
			t.Errorf("%q stands nowhere", m[0])
		}
		left := x - map[string]float64{"start": 0, "middle": 0.5, "end": 1}[m[3]]*textWidth(m[4])
		if left < 0 || left+textWidth(m[4]) > width || y < fontSize || y > high {
			t.Errorf("%q is cut: from %g to %g of %d, at %g of %g", m[4], left, left+textWidth(m[4]), width, y, high)
		}
	}
}

func TestScale(t *testing.T) {
	for _, tt := range []struct {
		log       bool
		values    []float64
		low, high float64
		ticks     int
	}{
		{false, []float64{3, 95}, 0, 100, 6},
		{false, []float64{-0.3, 0.4}, -0.4, 0.4, 5},
		{false, nil, 0, 1, 6},
		{false, []float64{0, 0}, 0, 1, 6},
		{true, []float64{0.02, 7, 0, math.NaN()}, 0.01, 10, 4},
		{true, []float64{1, 100}, 0.1, 100, 4},
		{true, nil, 0.1, 10, 3},
	} {
		s := newScale(tt.log, tt.values, 0, 100)
		if math.Abs(s.low-tt.low) > 1e-9 || math.Abs(s.high-tt.high) > 1e-9 || len(s.ticks) != tt.ticks {
			t.Errorf("newScale(%v, %v): %g to %g, ticks %v, want %g to %g and %d ticks", tt.log, tt.values, s.low, s.high, s.ticks, tt.low, tt.high, tt.ticks)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0827: "0.0827", 0.08: "0.08", 12.345: "12.3", 100: "100", 999.6: "1,000",
		1234: "1,234", 185660: "185,660", -1234.5: "-1,234", -0.25: "-0.25", 1e-9: "0", -1e-9: "0",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%g) = %q, want %q", v, got, want)
		}
	}
}
