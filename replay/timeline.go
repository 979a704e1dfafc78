package replay

import "time"

// A Timeline counts requests in steps of equal length.
type Timeline struct {
	// Start is when the first step begins: a multiple of the step since the
	// Unix epoch. nil if there was no request.
	Start *time.Time `json:"start,omitempty"`
	// Step is the length of a step, in seconds.
	Step int64 `json:"step_s"`
	// Allowed and Refused have one entry for each step.
	Allowed []int64 `json:"allowed"`
	Refused []int64 `json:"refused"`
}

// steps are the lengths of a timeline's step, in seconds: each a multiple of
// the one before, so that counts can be joined without error.
var steps = [...]int64{
	1, 2, 10, 30, 60, 120, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400,
	10 * 86400, 30 * 86400, 90 * 86400, 360 * 86400, 3600 * 86400, 36000 * 86400,
}

// maxSteps bounds a timeline; beyond it the step grows.
const maxSteps = 300

// A timeline counts requests that come in the order of time.
type timeline struct {
	step             int   // index in steps
	first            int64 // number of the first step since the epoch
	allowed, refused []int64
}

func (t *timeline) add(second int64, allowed bool) {
	if len(t.allowed) == 0 {
		t.first = floorDiv(second, steps[t.step])
	}
	i := floorDiv(second, steps[t.step]) - t.first
	for i >= maxSteps {
		t.widen()
		i = floorDiv(second, steps[t.step]) - t.first
	}
	for int64(len(t.allowed)) <= i {
		t.allowed, t.refused = append(t.allowed, 0), append(t.refused, 0)
	}
	if allowed {
		t.allowed[i]++
	} else {
		t.refused[i]++
	}
}

// widen joins the steps into longer ones. The longest step holds all times
// that a log can have, in fewer than maxSteps.
func (t *timeline) widen() {
	factor := steps[t.step+1] / steps[t.step]
	t.step++
	first := floorDiv(t.first, factor)
	join := func(counts []int64) []int64 {
		var joined []int64
		for i, n := range counts {
			at := floorDiv(t.first+int64(i), factor) - first
			for int64(len(joined)) <= at {
				joined = append(joined, 0)
			}
			joined[at] += n
		}
		return joined
	}
	t.allowed, t.refused = join(t.allowed), join(t.refused)
	t.first = first
}

func (t *timeline) export() Timeline {
	out := Timeline{Step: steps[t.step], Allowed: t.allowed, Refused: t.refused}
	if len(t.allowed) == 0 {
		out.Allowed, out.Refused = []int64{}, []int64{}
		return out
	}
	start := time.Unix(t.first*steps[t.step], 0).UTC()
	out.Start = &start
	return out
}

// floorDiv divides by a positive b and rounds towards minus infinity.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
