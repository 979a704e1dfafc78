package lab

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sluice-limiter/sluice"
)

// An Admission is a request that was let pass, at some moment between the
// sending of its question and the arrival of the answer. Times count from the
// start of the run.
type Admission struct {
	Sent, Answered time.Duration
	N              int64
}

// A Bound says what may pass in any window: Burst + Rate x its length.
type Bound struct {
	Burst int64
	Rate  float64 // tokens a second
}

// BoundOf returns the bound of a token bucket, its burst multiplied: by 1 for
// a store that never failed, by 2 across an outage.
func BoundOf(l sluice.Limit, bursts int64) Bound {
	return Bound{Burst: bursts * l.Capacity(), Rate: float64(l.Tokens) / l.Per.Seconds()}
}

// Over returns the admissions that would have to be taken back for the bound to
// hold. A window counts as over only if it is so however its admissions are
// placed between their times: if those that were both sent and answered within
// it are more than may pass.
//
// The admissions are looked at in the order of their answers. For each time of
// sending s, the tree holds the tokens sent at s or later, plus Rate x s; a
// window from s to the present answer is over if that is above Burst + Rate x
// the answer.
func (b Bound) Over(admissions []Admission) []Admission {
	sent := make([]time.Duration, len(admissions))
	for i, a := range admissions {
		sent[i] = a.Sent
	}
	slices.Sort(sent)
	tree := newMaxTree(len(sent), func(i int) float64 { return b.Rate * sent[i].Seconds() })
	byAnswer := slices.Clone(admissions)
	slices.SortStableFunc(byAnswer, func(x, y Admission) int { return int(x.Answered - y.Answered) })
	var over []Admission
	for _, a := range byAnswer {
		// Windows that begin at or before the sending hold this admission.
		last := sort.Search(len(sent), func(i int) bool { return sent[i] > a.Sent }) - 1
		tree.add(last, float64(a.N))
		if tree.max(last) > float64(b.Burst)+b.Rate*a.Answered.Seconds()+slack {
			tree.add(last, -float64(a.N))
			over = append(over, a)
		}
	}
	return over
}

// slack forgives the rounding of float64, in tokens.
const slack = 1e-6

// String says the bound as a formula.
func (b Bound) String() string {
	return fmt.Sprintf("%d + %g/s x window", b.Burst, b.Rate)
}

// A maxTree holds numbers, adds to the first so many of them, and tells the
// greatest of the first so many, each in logarithmic time.
type maxTree struct {
	size   int
	most   []float64 // of the part below, without what is added above
	adding []float64 // to the whole part below
}

func newMaxTree(n int, value func(int) float64) *maxTree {
	t := &maxTree{size: 1}
	for t.size < n {
		t.size *= 2
	}
	t.most, t.adding = make([]float64, 2*t.size), make([]float64, 2*t.size)
	for i := range n {
		t.most[t.size+i] = value(i)
	}
	for i := t.size - 1; i > 0; i-- {
		t.most[i] = max(t.most[2*i], t.most[2*i+1])
	}
	return t
}

// add adds to the numbers 0 to last.
func (t *maxTree) add(last int, v float64) { t.walk(1, 0, t.size-1, last, v, true) }

// max returns the greatest of the numbers 0 to last.
func (t *maxTree) max(last int) float64 { return t.walk(1, 0, t.size-1, last, 0, false) }

// walk adds v to the numbers 0 to last below a node, or only looks, and returns
// the greatest of them.
func (t *maxTree) walk(node, from, to, last int, v float64, change bool) float64 {
	if to <= last {
		if change {
			t.most[node] += v
			t.adding[node] += v
		}
		return t.most[node]
	}
	mid := (from + to) / 2
	greatest := t.walk(2*node, from, mid, last, v, change)
	if last > mid {
		greatest = max(greatest, t.walk(2*node+1, mid+1, to, last, v, change))
	}
	if change {
		t.most[node] = max(t.most[2*node], t.most[2*node+1]) + t.adding[node]
	}
	return greatest + t.adding[node]
}
