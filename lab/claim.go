package lab

import (
	"math"
	"slices"
)

// A Claim says within which range a figure lies.
type Claim struct {
	// Row is the label of the row that is meant (see [Table.Label]); "": each.
	Row string
	// Column is the JSON name of the figure.
	Column string
	// Less, if set, is a column that is taken from it, and Of one by which it is
	// divided, in percent.
	Less, Of string
	// Median says that the median of all rows is meant, not each by itself.
	Median bool
	// Min and Max are the range, both included.
	Min, Max float64
	// Reference is what a published lab found; "": it did not measure this.
	Reference string
}

// A Finding is a claim beside what was measured.
type Finding struct {
	Claim
	// Measured is the figure; of several rows the one that says most against the
	// claim, NaN if there is no row.
	Measured float64
	OK       bool
}

// Figure names what is meant: "fixed_window: worst_window".
func (c *Claim) Figure() string {
	name := c.Column
	switch {
	case c.Less != "":
		name += " - " + c.Less
	case c.Of != "":
		name += " in % of " + c.Of
	}
	if c.Median {
		name = "median of " + name
	}
	if c.Row != "" {
		name = c.Row + ": " + name
	}
	return name
}

// Range says what is claimed: "190 to 200", "at most 1.5".
func (c *Claim) Range() string {
	switch {
	case c.Min == c.Max:
		return number(c.Min)
	case math.IsInf(c.Max, 1):
		return "at least " + number(c.Min)
	case c.Min == 0 || math.IsInf(c.Min, -1):
		return "at most " + number(c.Max)
	}
	return number(c.Min) + " to " + number(c.Max)
}

// outside returns how far a figure is out of the range: 0 within it.
func (c *Claim) outside(f float64) float64 {
	if math.IsNaN(f) {
		return math.Inf(1)
	}
	return max(0, c.Min-f, f-c.Max)
}

// worse says whether a figure says more against the claim than another: further
// out of the range, or within it nearer to the end that matters.
func (c *Claim) worse(f, than float64) bool {
	if a, b := c.outside(f), c.outside(than); a != b {
		return a > b
	}
	if math.IsInf(c.Max, 1) {
		return f < than
	}
	return f > than
}

// figures returns the claim's figure of each row that is meant.
func (c *Claim) figures(t *Table) []float64 {
	var all []float64
	for row := range t.Cells {
		if c.Row != "" && c.Row != t.Label(row) {
			continue
		}
		f := t.Number(row, c.Column)
		switch {
		case c.Less != "":
			f -= t.Number(row, c.Less)
		case c.Of != "":
			f *= 100 / t.Number(row, c.Of)
		}
		all = append(all, f)
	}
	if c.Median && len(all) > 0 {
		all = []float64{median(all)}
	}
	return all
}

// check holds the rows against claims.
func (t *Table) check(claims []Claim) []Finding {
	var findings []Finding
	for _, c := range claims {
		worst := math.NaN()
		for i, f := range c.figures(t) {
			if i == 0 || c.worse(f, worst) {
				worst = f
			}
		}
		findings = append(findings, Finding{Claim: c, Measured: worst, OK: c.outside(worst) == 0})
	}
	return findings
}

// verdict says of a cell what the claims on it alone say: what a published lab
// found there, and whether it is out of its range.
func (t *Table) verdict(claims []Claim, row int, column string) (reference string, outside bool) {
	for _, c := range claims {
		if c.Column != column || c.Less != "" || c.Of != "" || c.Median || c.Row != "" && c.Row != t.Label(row) {
			continue
		}
		if c.Reference != "" {
			reference = c.Reference
		}
		outside = outside || c.outside(t.Number(row, column)) > 0
	}
	return reference, outside
}

// median returns the middle value, or the mean of the two in the middle; 0 of
// none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
