package plot

import (
	"math"
	"strconv"
	"strings"
)

// A scale maps values to pixels.
type scale struct {
	low, high float64 // values
	from, to  float64 // pixels
	log       bool
	ticks     []float64
}

// newScale returns a scale that holds all values, with round ends. A linear one
// begins at 0 if no value is below.
func newScale(log bool, values []float64, from, to float64) scale {
	s := scale{from: from, to: to, log: log}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
			continue
		}
		low, high = min(low, v), max(high, v)
	}
	switch {
	case math.IsInf(low, 1) && log:
		low, high = 1, 10
	case math.IsInf(low, 1):
		low, high = 0, 1
	}
	if log {
		s.decades(low, high)
	} else {
		s.steps(min(0, low), max(0, high))
	}
	return s
}

// steps makes a linear scale of at most six steps of 1, 2 or 5 times a power of
// ten.
func (s *scale) steps(low, high float64) {
	if high == low {
		high = low + 1
	}
	power := math.Pow(10, math.Floor(math.Log10((high-low)/6)))
	step := power
	for _, n := range [...]float64{1, 2, 5, 10} {
		step = n * power
		if (high-low)/step <= 6 {
			break
		}
	}
	first, last := math.Floor(low/step), math.Ceil(high/step)
	s.low, s.high = first*step, last*step
	for i := first; i <= last; i++ {
		s.ticks = append(s.ticks, i*step)
	}
}

// decades makes a logarithmic scale of whole decades.
func (s *scale) decades(low, high float64) {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if low == math.Pow(10, first) {
		first-- // the least is seen as well
	}
	if last <= first {
		last = first + 1
	}
	s.low, s.high = math.Pow(10, first), math.Pow(10, last)
	every := math.Ceil((last - first) / 8)
	for e := first; e <= last; e += every {
		s.ticks = append(s.ticks, math.Pow(10, e))
	}
}

// at returns where a value lies; ok is false for one that cannot be shown.
func (s *scale) at(v float64) (pixel float64, ok bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) || s.log && v <= 0 {
		return 0, false
	}
	part := (v - s.low) / (s.high - s.low)
	if s.log {
		part = math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return s.from + part*(s.to-s.from), true
}

// zero returns where bars begin.
func (s *scale) zero() float64 {
	if s.log {
		return s.from
	}
	pixel, _ := s.at(0)
	return pixel
}

// Number writes a number with three digits that mean something and all of those
// before the point, these in groups of three: 0.083, 12.5, 185,660.
func Number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v+0, 'f', -1, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', min(digits, 6), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if v < 0 && whole != "0" {
		return "-" + whole
	}
	return whole
}

// tickText writes a number of an axis: millions and more in words.
func tickText(v float64) string {
	switch {
	case math.Abs(v) >= 1e9:
		return Number(v/1e9) + " bn"
	case math.Abs(v) >= 1e6:
		return Number(v/1e6) + " M"
	}
	return Number(v)
}
