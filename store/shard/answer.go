package shard

import (
	"math/bits"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A tally is what some shards hold.
type tally struct{ remaining, capacity int64 }

// of returns what all shards of a limit hold if the others are like these.
func (t tally) of(capacity int64) int64 {
	if t.capacity == 0 || t.capacity == capacity {
		return min(t.remaining, capacity)
	}
	hi, lo := bits.Mul64(uint64(t.remaining), uint64(capacity))
	estimate, _ := bits.Div64(hi, lo, uint64(t.capacity))
	return min(int64(estimate), capacity)
}

// waits are the waits told by the shards that refused, or granted only a part.
type waits struct{ least, most time.Duration }

func (w waits) or(other waits) waits {
	switch {
	case w.most == 0:
		return other
	case other.most == 0:
		return w
	}
	return waits{least: min(w.least, other.least), most: max(w.most, other.most)}
}

// pieces returns what was said of the shards of a charge.
func (c *call) pieces(i int) []sluice.Decision {
	at := c.parts[i].at
	return c.decisions[at : at+max(1, c.parts[i].count)]
}

func (c *call) tally(i int) (t tally) {
	for _, d := range c.pieces(i) {
		t.remaining += d.Remaining
		t.capacity += d.Limit
	}
	return t
}

// waits returns the wait until the last of the shards asked is ready: a charge
// needs all of them.
func (c *call) waits(i int) (w waits) {
	for _, d := range c.pieces(i) {
		w.most = max(w.most, d.RetryAfter)
	}
	w.least = w.most
	return w
}

// answer puts together what the shards of a charge said.
func (c *call) answer(i int) sluice.Decision {
	pieces, p, charge := c.pieces(i), &c.parts[i], &c.charges[i]
	if p.count == 0 {
		return pieces[0]
	}
	d := sluice.Decision{Allowed: true, Limit: charge.Limit.Capacity(), Source: pieces[0].Source, At: pieces[0].At}
	for j := range pieces {
		one := &pieces[j]
		if d.Allowed && !one.Allowed {
			d.Allowed, d.Source = false, one.Source
		}
		d.Granted += one.Granted
		d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
		d.At = min(d.At, one.At)
	}
	d.Remaining = c.remaining(i)
	if d.Granted > 0 {
		d.ResetAfter = soonest(pieces)
	}
	if charge.N > 0 && (!d.Allowed || d.Granted > 0 && d.Granted < charge.N) {
		d.RetryAfter = c.retry(i)
	}
	d.At = stamp(d.At, p.start)
	return d
}

// soonest returns the least reset, with which a give-back of what several shards
// granted gives none of them too much.
func soonest(pieces []sluice.Decision) time.Duration {
	least := pieces[0].ResetAfter
	for _, d := range pieces[1:] {
		least = min(least, d.ResetAfter)
	}
	return least
}

// remaining sums what is known. Two tries of one shard each are of two shards;
// those of several may be of the same, so only the last counts.
func (c *call) remaining(i int) int64 {
	p, t := &c.parts[i], c.tally(i)
	if p.moved && p.count == 1 {
		t.remaining += p.found.remaining
		t.capacity += p.found.capacity
	}
	return t.of(c.charges[i].Limit.Capacity())
}

// retry returns a wait after which the next call passes if nobody takes any
// until then, whichever shards it asks.
func (c *call) retry(i int) time.Duration {
	p, charge := &c.parts[i], &c.charges[i]
	own := c.waits(i)
	switch {
	case p.count == charge.Shards:
		return own.most
	case p.moved && charge.Shards == 2:
		return own.or(p.wait).least // the next call asks both again
	}
	longest := own.or(p.wait).most
	// The last part is the smallest, and the first piece the largest.
	part, n := charge.Limit.Part(charge.Shards-1, charge.Shards), piece(charge, 0, p.count)
	for _, d := range c.pieces(i) {
		longest = max(longest, worst(part, n, &d))
	}
	return longest
}

// worst returns the longest that a shard may need until it has n tokens: it
// is as full as can be at the time of a decision about another.
func worst(part sluice.Limit, n int64, d *sluice.Decision) time.Duration {
	m, err := part.Meter()
	if err != nil {
		return 0
	}
	switch part.Algorithm {
	case sluice.TokenBucket:
		return sluice.TicksDuration(n * m.Interval())
	case sluice.SlidingLog:
		return part.Per + sluice.TicksDuration(m.Quantum())
	case sluice.SlidingWindow:
		start, _ := m.Bounds(d.At)
		now := d.At
		if d.Source == sluice.SourceDenied {
			now = start // remembered: another window may have begun since
		}
		full := sluice.State{Time: start, Count: m.Capacity()}
		return sluice.TicksDuration(m.Wait(&full, now, n))
	}
	return 0 // all shards' windows end at once
}
