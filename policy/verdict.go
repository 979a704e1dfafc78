package policy

import (
	"math/bits"

	"github.com/sluice-limiter/sluice"
)

// A Result is what one matched limit says.
type Result struct {
	Limit     *Limit       // the limit as configured
	Rule      *Rule        // the override in force; nil: a row of a table or the limit's own default
	Row       Found        // the row of a table in force, if there is one
	Effective sluice.Limit // how much may pass; zero if unlimited
	Key       string       // the counter; "" if unlimited
	Cost      int64        // tokens asked
	// Decision is the store's answer. A shadow limit whose cost makes no sense
	// or is above its capacity is not charged: its decision is a refusal
	// without a wait.
	Decision sluice.Decision
}

// A Verdict is the answer to a request. It may be used again for another
// request, which saves allocations; it serves one goroutine at a time. After an
// error of Decide its fields say nothing.
type Verdict struct {
	// Allowed is false if a limit that is not a shadow refused.
	Allowed bool
	// Results has one entry for each limit that matched and charges, in the
	// order of the configuration, shadow limits too.
	Results []Result
	// Unlimited has one entry for each limit that matched and lets the request
	// pass uncounted.
	Unlimited []Result

	reader    reader
	text      []byte // all keys
	cuts      []cut  // beside Results
	charges   []sluice.Charge
	decisions []sluice.Decision
}

// Describing returns the result that a caller should hear about: of a refusal,
// the refused limit with the longest wait; else the limit closest to
// exhaustion, which is the one with the least remaining of its capacity. It is
// nil if no limit matched but shadows.
func (v *Verdict) Describing() *Result {
	var best *Result
	for i := range v.Results {
		r := &v.Results[i]
		if r.Limit.Shadow || !v.Allowed && r.Decision.Allowed {
			continue
		}
		if best == nil || v.tellsMore(&r.Decision, &best.Decision) {
			best = r
		}
	}
	return best
}

func (v *Verdict) tellsMore(a, b *sluice.Decision) bool {
	if !v.Allowed {
		return a.RetryAfter > b.RetryAfter
	}
	// a.Remaining / a.Limit < b.Remaining / b.Limit, without overflow.
	ahi, alo := bits.Mul64(uint64(a.Remaining), uint64(b.Limit))
	bhi, blo := bits.Mul64(uint64(b.Remaining), uint64(a.Limit))
	return ahi < bhi || ahi == bhi && alo < blo
}

func (v *Verdict) reset(set *Set, r *Request) {
	v.Allowed = false
	v.Results, v.Unlimited = v.Results[:0], v.Unlimited[:0]
	v.text, v.cuts, v.charges = v.text[:0], v.cuts[:0], v.charges[:0]
	v.reader.begin(set, r)
}

// meet adds the result of one limit if it matches the request.
func (v *Verdict) meet(l *compiled, n int64) error {
	q := &v.reader
	if q.without != "" && l.needs(q.without) || !l.matches(q) {
		return nil
	}
	result := Result{Limit: l.Limit, Effective: l.Default}
	unlimited := result.choose(l, q)
	if unlimited {
		result.Effective = sluice.Limit{}
		v.Unlimited = append(v.Unlimited, result)
		return nil
	}
	cost, err := l.price(q, n)
	if capacity := result.Effective.Capacity(); err == nil && cost > capacity {
		err = l.overCost(capacity)
	}
	if err != nil && !l.Shadow {
		return err
	}
	result.Cost = cost
	v.Results = append(v.Results, result)
	var c cut
	v.text, c = l.appendKey(v.text, q)
	c.never = err != nil
	v.cuts = append(v.cuts, c)
	return nil
}

// choose finds what overrides the limit: the override or the row that matches
// the most attributes, of two that match as many the row. It says whether the
// limit lets the request through uncounted.
func (r *Result) choose(l *compiled, q *reader) (unlimited bool) {
	row, found := q.set.row(q, l.number)
	if !found || l.mostMatched() > row.matched() {
		if rule, matched := l.override(q); rule != nil && (!found || matched > row.matched()) {
			r.Rule, r.Effective = rule, rule.Limit
			return rule.Unlimited
		}
	}
	if found {
		r.Row, r.Effective = Found{row.row}, row.rate
		return false
	}
	return l.Unlimited
}

// charge makes the charges: first those of the limits that can refuse, one
// group, then each shadow, a group of its own.
func (v *Verdict) charge() {
	text := string(v.text)
	for i := range v.Results {
		c := &v.cuts[i]
		v.Results[i].Key = text[c.start:c.end]
		if !v.Results[i].Limit.Shadow {
			v.addCharge(i, text[c.tag:c.tagEnd], 0)
		}
	}
	group := 0
	for i := range v.Results {
		if c := &v.cuts[i]; v.Results[i].Limit.Shadow {
			group++
			v.addCharge(i, text[c.tag:c.tagEnd], group)
		}
	}
}

func (v *Verdict) addCharge(i int, tag string, group int) {
	r := &v.Results[i]
	n := r.Cost
	if v.cuts[i].never {
		n = 0 // only looked at
	}
	v.charges = append(v.charges, sluice.Charge{
		Key: r.Key, Tag: tag, Limit: r.Effective, N: n, Group: group,
		OnFailure: r.Limit.OnFailure, Tolerance: r.tolerance(), Shards: r.shards(),
	})
}

// tolerance returns what may be leased of the limit that applies.
func (r *Result) tolerance() int64 {
	if r.Rule != nil && r.Rule.Tolerance != 0 {
		return r.Rule.Tolerance
	}
	return r.Limit.Tolerance
}

// shards returns over how many counters the limit that applies is spread.
func (r *Result) shards() int {
	switch {
	case r.Rule == nil && r.Row.row == nil:
		return r.Limit.Shards
	case r.Rule != nil:
		return r.Rule.spread(r.Limit)
	}
	return int(min(int64(r.Limit.Shards), r.Effective.Capacity()))
}

// conclude hands the decisions to the results, in the order of charge, and
// says whether all passed.
func (v *Verdict) conclude() {
	v.Allowed = true
	next := 0
	for i := range v.Results {
		if r := &v.Results[i]; !r.Limit.Shadow {
			r.Decision = v.decisions[next]
			v.Allowed = v.Allowed && r.Decision.Allowed
			next++
		}
	}
	for i := range v.Results {
		r := &v.Results[i]
		if !r.Limit.Shadow {
			continue
		}
		r.Decision = v.decisions[next]
		if v.cuts[i].never {
			r.Decision.Allowed = false
		}
		next++
	}
}
