package lab

import (
	"slices"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// over returns how many admissions break the limits' bounds.
func (r *simRun) over() int {
	over := 0
	for i := range r.set.Limits() {
		l := &r.set.Limits()[i]
		switch {
		case l.Name == "everyone":
			over += r.overBucket(l.Default, l.Tolerance, r.everyone)
		case l.Name == "window":
			over += r.overWindow(l.Default, r.tenants[hotTenant])
		default:
			over += r.overTenants(l)
		}
	}
	return over
}

func (r *simRun) overTenants(l *policy.Limit) int {
	over := 0
	for tenant, admissions := range r.tenants {
		if tenant == hotTenant {
			o := &l.Overrides[0]
			over += r.overBucket(o.Limit, o.Tolerance, admissions)
			continue
		}
		over += r.overBucket(l.Default, l.Tolerance, admissions)
	}
	return over
}

// recovered is how long after an outage instances may still count by themselves:
// until the connection is found to stand, and all have settled.
const recovered = 2 * time.Second

// overBucket checks a token bucket: (1 + t) x burst + rate x W in any window, and
// twice that where it meets the outage.
func (r *simRun) overBucket(l sluice.Limit, tolerance int64, admissions []Admission) int {
	once := BoundOf(l, 1)
	once.Burst += l.Capacity() * tolerance / 1_000_000
	if r.Outage.to == 0 {
		return len(once.Over(admissions))
	}
	before, after := r.apart(admissions)
	twice := once
	twice.Burst *= 2
	return len(once.Over(before)) + len(once.Over(after)) + len(twice.Over(admissions))
}

// apart returns the admissions before the outage and those after it.
func (r *simRun) apart(admissions []Admission) (before, after []Admission) {
	for _, a := range admissions {
		switch {
		case a.Answered < r.Outage.from:
			before = append(before, a)
		case a.Sent >= r.Outage.to+recovered:
			after = append(after, a)
		}
	}
	return before, after
}

// overWindow checks a fixed window, which may be leased and keeps its limit all
// the same. An admission is of a window if it was sent and answered in it.
func (r *simRun) overWindow(l sluice.Limit, admissions []Admission) int {
	counts := make(map[time.Duration]int64)
	for _, a := range admissions {
		if window := a.Sent / l.Per; window == a.Answered/l.Per {
			counts[window] += a.N
		}
	}
	over := 0
	for window, n := range counts {
		start := window * l.Per
		most := l.Capacity()
		if r.Outage.to > 0 && start+l.Per > r.Outage.from && start < r.Outage.to+recovered {
			most *= 2
		}
		over += int(max(0, n-most))
	}
	return over
}

// ratio compares what was admitted with what one counter would have: all that the
// limit of everyone lets through, as more is asked all the time.
func (r *simRun) ratio() float64 {
	l := r.set.Limits()[len(r.set.Limits())-1].Default
	first := slices.MinFunc(r.everyone, func(a, b Admission) int { return int(a.Sent - b.Sent) })
	last := slices.MaxFunc(r.everyone, func(a, b Admission) int { return int(a.Answered - b.Answered) })
	exact := float64(l.Capacity()) + (last.Answered-first.Sent).Seconds()*float64(l.Tokens)/l.Per.Seconds()
	return float64(r.admitted) / exact
}
