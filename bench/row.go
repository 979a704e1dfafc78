package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A benchmark makes one row of the report.
type benchmark struct {
	name    string
	unit    string // of both sides
	target  []bound
	measure func(settings) (result, error)
}

// A row is what the report says of one benchmark. Pointers are nil, and null in
// JSON, where there is nothing to say.
type row struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"` // the figure, in unit: what ours came to
	Unit   string   `json:"unit"`
	Ours   float64  `json:"ours"`
	Theirs *float64 `json:"theirs"`
	Ratio  *float64 `json:"ratio"`  // ours / theirs, median over the pairs
	Allocs *float64 `json:"allocs"` // ours, a decision
	Target *string  `json:"target"`
	OK     bool     `json:"ok"` // measured, and the target is met or there is none

	failed bool // not measured
}

// run measures and judges. With an error it returns a row that is not ok.
func (b benchmark) run(s settings) (row, error) {
	res, err := b.measure(s)
	if err != nil {
		err = fmt.Errorf("%s: %w", b.name, err)
		res = result{}
	}
	r := row{Name: b.name, Value: round(res.ours), Unit: b.unit, Ours: round(res.ours), OK: err == nil, failed: err != nil}
	if res.paired {
		r.Theirs, r.Ratio = new(round(res.theirs)), new(round(res.ratio))
	}
	if res.counted {
		r.Allocs = new(round(res.allocs))
	}
	texts := make([]string, 0, len(b.target))
	for _, t := range b.target {
		r.OK = r.OK && t.holds(r)
		texts = append(texts, t.String())
	}
	if len(texts) > 0 {
		r.Target = new(strings.Join(texts, ", "))
	}
	return r, err
}

// round keeps three significant digits below 1000 and whole numbers above:
// what is behind them is noise.
func round(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	if math.Abs(x) < 0.005 {
		return 0
	}
	digits := max(0, 2-math.Floor(math.Log10(math.Abs(x))))
	scale := math.Pow(10, digits)
	return math.Round(x*scale) / scale
}

// A bound is one thing that a target asks of a row.
type bound struct {
	of    string // "value", "ratio", "difference" or "allocs"
	least bool   // at least, instead of at most
	limit float64
}

func atMost(of string, limit float64) bound  { return bound{of: of, limit: limit} }
func atLeast(of string, limit float64) bound { return bound{of: of, least: true, limit: limit} }

// String writes the bound as the report shows it, "ratio <= 0.6".
func (b bound) String() string {
	sign := "<="
	if b.least {
		sign = ">="
	}
	return fmt.Sprintf("%s %s %g", b.of, sign, b.limit)
}

// holds judges a row; what was not measured holds nothing.
func (b bound) holds(r row) bool {
	figures := map[string]*float64{"value": &r.Value, "ratio": r.Ratio, "allocs": r.Allocs}
	if r.Theirs != nil {
		figures["difference"] = new(r.Ours - *r.Theirs)
	}
	figure := figures[b.of]
	if figure == nil || math.IsNaN(*figure) {
		return false
	}
	if b.least {
		return *figure >= b.limit
	}
	return *figure <= b.limit
}

const layout = "%-31s %10s %10s %-9s %7s %7s  %-4s %s"

var header = fmt.Sprintf(layout, "name", "ours", "theirs", "unit", "ratio", "allocs", "ok", "target")

// String writes the row as a line of the table.
func (r row) String() string {
	figure := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return strconv.FormatFloat(*x, 'f', -1, 64)
	}
	ok, target := "", ""
	if r.Target != nil {
		target = *r.Target
		ok = "no"
		if r.OK {
			ok = "yes"
		}
	}
	ours := figure(&r.Ours)
	if r.failed {
		ours, ok = "failed", "no"
	}
	line := fmt.Sprintf(layout, r.Name, ours, figure(r.Theirs), r.Unit,
		figure(r.Ratio), figure(r.Allocs), ok, target)
	return strings.TrimRight(line, " ")
}
