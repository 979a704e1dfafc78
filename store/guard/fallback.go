package guard

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-limiter/sluice"
)

// scratch is the memory of one fallback.
type scratch struct {
	local     []sluice.Charge
	index     []int // of the charge in its group, beside local
	decisions []sluice.Decision
}

// A moment is what one fallback knows: it is the same for all its charges.
type moment struct {
	node  *node
	fleet *fleet
	now   int64 // ticks
	since int64 // ticks; when the trouble began
	probe time.Duration
	gate  bool // the store is asked as well: nothing is remembered or denied
}

// fallback decides a call by the failure modes of its charges, group by group.
func (s *Store) fallback(dst []sluice.Decision, charges []sluice.Charge, n *node) ([]sluice.Decision, error) {
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	return s.decide(dst, charges, n, false)
}

// decide decides charges that have been checked.
func (s *Store) decide(dst []sluice.Decision, charges []sluice.Charge, n *node, gate bool) ([]sluice.Decision, error) {
	now := time.Now()
	at := moment{node: n, fleet: s.fleet.Load(), now: sluice.Ticks(now), since: sluice.Ticks(now), probe: n.untilProbe(), gate: gate}
	if trouble := n.trouble.Load(); trouble != 0 {
		at.since = sluice.Ticks(time.Unix(0, trouble))
	}
	sc := s.scratch.Get().(*scratch)
	defer s.scratch.Put(sc)
	out := dst
	for i := 0; i < len(charges); {
		j := i + 1
		for j < len(charges) && charges[j].Group == charges[i].Group {
			j++
		}
		var err error
		if out, err = s.fallbackGroup(out, charges[i:j], &at, sc); err != nil {
			return dst, err
		}
		i = j
	}
	return out, nil
}

// fallbackGroup decides one group: local charges pass together, if nothing else
// holds the group back.
func (s *Store) fallbackGroup(dst []sluice.Decision, group []sluice.Charge, at *moment, sc *scratch) ([]sluice.Decision, error) {
	first := len(dst)
	sc.local, sc.index = sc.local[:0], sc.index[:0]
	units := int64(math.MaxInt64)
	for i := range group {
		d := s.answer(&group[i], i, at, sc)
		if !d.Allowed {
			units = 0
		} else if group[i].N > 0 {
			units = min(units, group[i].N/unit(&group[i]))
		}
		dst = append(dst, d)
		if !at.gate {
			s.countFallback(&group[i])
		}
	}
	out := dst[first:]
	units, err := s.takeLocal(out, group, units, at, sc)
	if err != nil {
		return dst[:first], err
	}
	for i := range group {
		c, d := &group[i], &out[i]
		if c.N == 0 || c.OnFailure == sluice.FailLocal || !d.Allowed {
			continue
		}
		d.Granted = units * unit(c)
		d.Remaining = d.Limit - min(d.Limit, d.Granted)
		if units > 0 && d.Granted < c.N {
			d.RetryAfter = at.probe
		}
	}
	return dst, nil
}

// countFallback counts a decision that the store did not make. A charge for a
// part, as a lease claims its tokens, decides no request.
func (s *Store) countFallback(c *sluice.Charge) {
	if c.Unit == 0 || c.Unit == c.N {
		s.counts.fallbacks[c.OnFailure%modes].Add(1)
	}
}

// answer is what a charge is answered as far as no counter is needed. A local
// charge is put down to be asked.
func (s *Store) answer(c *sluice.Charge, i int, at *moment, sc *scratch) sluice.Decision {
	d := sluice.Decision{Allowed: true, Limit: c.Limit.Capacity(), Source: sluice.SourceFallback, At: at.now}
	switch {
	case c.OnFailure == sluice.FailAllow, c.OnFailure == sluice.FailDeny && at.gate:
		d.Remaining = d.Limit
		return d
	case c.OnFailure == sluice.FailDeny:
		refuse(&d, c, at.probe)
		return d
	}
	sh := at.fleet.share(&c.Limit, hash(c.Key), at.now, at.since)
	if sh.wait > 0 {
		d.Limit = 1
		refuse(&d, c, sh.wait)
		return d
	}
	d.Limit = sh.limit.Capacity()
	if unit(c) > d.Limit {
		// It can pass only by the store.
		refuse(&d, c, at.probe)
	}
	local := *c
	local.Limit, local.Group = sh.limit, 0
	sc.local = append(sc.local, local)
	sc.index = append(sc.index, i)
	return d
}

// refuse turns d into a refusal, unless the charge is a peek, which passes.
func refuse(d *sluice.Decision, c *sluice.Charge, wait time.Duration) {
	if c.N > 0 {
		d.Allowed, d.RetryAfter = false, wait
	}
}

// takeLocal takes up to units of the local charges of a group, and returns how
// many. 0 units only look.
func (s *Store) takeLocal(out []sluice.Decision, group []sluice.Charge, units int64, at *moment, sc *scratch) (int64, error) {
	if len(sc.local) == 0 {
		if units == math.MaxInt64 {
			units = 0 // peeks alone
		}
		return units, nil
	}
	for i := range sc.local {
		c := &sc.local[i]
		if c.N == 0 {
			continue
		}
		if u := unit(c); units > 0 && units < c.N/u {
			c.N, c.Unit = units*u, u
		}
		if units == 0 {
			c.N, c.Unit = 0, 0
		}
	}
	decisions, err := s.local.Take(context.Background(), sc.decisions[:0], sc.local)
	sc.decisions = decisions
	if errors.Is(err, sluice.ErrCost) && units > 0 {
		// A key that stands in the group twice asks for more than the share.
		return s.overShare(out, group, at, sc)
	}
	if err != nil {
		return 0, err
	}
	return s.write(out, group, units, at, sc), nil
}

// overShare refuses a group for its last local charge.
func (s *Store) overShare(out []sluice.Decision, group []sluice.Charge, at *moment, sc *scratch) (int64, error) {
	last := sc.index[len(sc.index)-1]
	refuse(&out[last], &group[last], at.probe)
	return s.takeLocal(out, group, 0, at, sc)
}

// write puts the local decisions into those of the group and remembers what was
// granted. It returns the units granted to every charge.
func (s *Store) write(out []sluice.Decision, group []sluice.Charge, units int64, at *moment, sc *scratch) int64 {
	granted := units
	if units == math.MaxInt64 {
		granted = 0 // peeks alone
	}
	for k := range sc.decisions {
		c, d, local := &group[sc.index[k]], &out[sc.index[k]], &sc.decisions[k]
		d.Limit, d.Remaining, d.ResetAfter, d.At = local.Limit, local.Remaining, local.ResetAfter, local.At
		switch {
		case c.N == 0:
		case units == 0:
			if d.Allowed && d.Remaining < unit(c) {
				wait := alone(&sc.local[k].Limit, local, unit(c))
				refuse(d, c, wait+at.turnAfter(c, wait))
			}
		default:
			d.Allowed, d.Granted, d.RetryAfter = local.Allowed, local.Granted, local.RetryAfter
			if d.RetryAfter > 0 {
				d.RetryAfter += at.turnAfter(c, d.RetryAfter)
			}
			granted = d.Granted / unit(c)
			if d.Granted > 0 && !at.gate {
				s.remember(at.node, c, d.Granted)
			}
			if d.Granted > 0 && d.Granted < c.N && d.RetryAfter == 0 {
				d.RetryAfter = at.probe // an allowed charge of fewer units holds it back
			}
		}
	}
	return granted
}

// turnAfter returns how long after a wait this instance has its next turn.
func (at *moment) turnAfter(c *sluice.Charge, wait time.Duration) time.Duration {
	return at.fleet.share(&c.Limit, hash(c.Key), at.now-sluice.DurationTicks(-wait), at.since).wait
}

// alone returns how long a charge would wait by itself after a peek. It is exact
// for buckets; the others then have their whole capacity again.
func alone(l *sluice.Limit, peek *sluice.Decision, n int64) time.Duration {
	m, err := l.Meter()
	if err != nil || l.Algorithm != sluice.TokenBucket {
		return max(peek.ResetAfter, time.Millisecond)
	}
	state := sluice.State{Time: peek.At + sluice.DurationTicks(peek.ResetAfter)}
	return max(sluice.TicksDuration(m.Wait(&state, peek.At, n)), 1)
}

// unit is the least that a grant can be; 0 for a peek.
func unit(c *sluice.Charge) int64 {
	if c.Unit != 0 && c.N > 0 {
		return c.Unit
	}
	return c.N
}
