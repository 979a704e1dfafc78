package denied

import (
	"time"

	"github.com/sluice-limiter/sluice"
)

// maxAge bounds how long an entry is used after its call was sent.
const maxAge = time.Second

// grain is how much earlier than it says a wait can be over: a server's clock
// counts whole microseconds.
const grain = time.Microsecond

// An entry is an answer of the store about one key under one limit. It never
// changes.
type entry struct {
	key, tag string
	limit    sluice.Limit
	// amount is the least that was refused; 0: the charge itself was not, but
	// another one of its group.
	amount   int64
	interval int64         // ticks a token, for token buckets
	learned  time.Duration // when the answer was there
	until    time.Duration // when the entry ends
	decision sluice.Decision
}

// newEntry returns the entry of an answer by the store to a charge of a refused
// group.
func newEntry(c *sluice.Charge, d *sluice.Decision, amount int64, learned, until time.Duration) *entry {
	e := &entry{key: c.Key, tag: c.Tag, limit: c.Limit, learned: learned, until: until, decision: *d}
	if d.Allowed {
		return e
	}
	e.amount = amount
	if m, err := c.Limit.Meter(); err == nil {
		e.interval = m.Interval()
	}
	return e
}

// about says whether the entry is about the charge's key and limit.
func (e *entry) about(c *sluice.Charge) bool {
	return e.key == c.Key && e.tag == c.Tag && e.limit == c.Limit
}

// touches says whether the entry is about the counter of the charge, perhaps
// under another limit.
func (e *entry) touches(c *sluice.Charge) bool {
	return e.key == c.Key && e.limit.Kind() == c.Limit.Kind()
}

// refuses says whether an amount of the same key and limit is known to be
// refused, and for how long.
func (e *entry) refuses(amount int64) bool {
	if e.amount == 0 || amount < e.amount {
		return false
	}
	return amount == e.amount || !sliding(e.limit.Algorithm)
}

// sliding says whether a larger amount waits for longer than can be told from
// the answer for a smaller one.
func sliding(a sluice.Algorithm) bool {
	return a == sluice.SlidingWindow || a == sluice.SlidingLog
}

// says says whether the entry makes another one needless.
func (e *entry) says(other *entry) bool {
	if e.key != other.key || e.tag != other.tag || e.limit != other.limit {
		return false
	}
	if e.amount == 0 || other.amount == 0 {
		return e.amount == other.amount && e.learned >= other.learned
	}
	if e.amount == other.amount {
		return e.until >= other.until
	}
	return e.refuses(other.amount)
}

// refusal tells the refusal of an amount that the entry refuses.
func (e *entry) refusal(amount int64, now time.Duration) sluice.Decision {
	d := e.told(now)
	d.Allowed = false
	d.RetryAfter = e.decision.RetryAfter + sluice.TicksDuration((amount-e.amount)*e.interval) - (now - e.learned)
	return d
}

// told tells how the key stood.
func (e *entry) told(now time.Duration) sluice.Decision {
	d := e.decision
	d.Allowed, d.Granted, d.RetryAfter = true, 0, 0
	d.ResetAfter = max(0, d.ResetAfter-(now-e.learned))
	d.Source = sluice.SourceDenied
	return d
}

// unknown tells of a charge of a refused group of whose key nothing is
// remembered.
func unknown(c *sluice.Charge) sluice.Decision {
	return sluice.Decision{Allowed: true, Limit: c.Limit.Capacity(), Source: sluice.SourceDenied}
}
