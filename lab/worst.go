package lab

import (
	"slices"
	"sort"
	"time"
)

// Worst returns by how much the window that is furthest over the bound is over
// it, as a part of what may pass in that window; 0 if none is. As in [Bound.Over]
// a window counts as over only if it is so however its admissions are placed.
func (b Bound) Worst(admissions []Admission) float64 {
	sent := make([]time.Duration, len(admissions))
	for i, a := range admissions {
		sent[i] = a.Sent
	}
	slices.Sort(sent)
	tree := newMaxTree(len(sent), func(i int) float64 { return b.Rate * sent[i].Seconds() })
	byAnswer := slices.Clone(admissions)
	slices.SortFunc(byAnswer, func(x, y Admission) int { return int(x.Answered - y.Answered) })
	most, end := slack, -1
	for i, a := range byAnswer {
		last := sort.Search(len(sent), func(i int) bool { return sent[i] > a.Sent }) - 1
		tree.add(last, float64(a.N))
		if over := tree.max(last) - float64(b.Burst) - b.Rate*a.Answered.Seconds(); over > most {
			most, end = over, i
		}
	}
	if end < 0 {
		return 0
	}
	return most / b.allows(byAnswer[:end+1], most)
}

// allows returns what may pass in the window that ends with the last of the
// admissions, is over by so much, and is the shortest such.
func (b Bound) allows(answered []Admission, over float64) float64 {
	end := answered[len(answered)-1].Answered
	bySent := slices.Clone(answered)
	slices.SortFunc(bySent, func(x, y Admission) int { return int(y.Sent - x.Sent) })
	passed := int64(0)
	for _, a := range bySent {
		passed += a.N
		may := float64(b.Burst) + b.Rate*(end-a.Sent).Seconds()
		if float64(passed)-may > over-0.5 {
			return may
		}
	}
	return float64(b.Burst)
}
