package denied

import (
	"context"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A call is what a call of several charges needs. It is taken from a pool.
type call struct {
	looks     []look          // beside the charges
	charges   []sluice.Charge // those that go to the store
	decisions []sluice.Decision
}

// takeSeveral decides a call of any number of charges.
func (s *Store) takeSeveral(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	sent := s.now()
	known := s.lookAll(c, charges, sent)
	if known == 0 || known < len(charges) && c.mixed(charges) {
		decisions, err := s.ask(ctx, dst, charges)
		if err != nil {
			return dst, err
		}
		s.learn(charges, c.looks, decisions[len(dst):], sent)
		return decisions, nil
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	answers := c.decisions[:0]
	if known < len(charges) {
		var err error
		c.gather(charges)
		if answers, err = s.ask(ctx, answers, c.charges); err != nil {
			return dst, err
		}
		c.decisions = answers
	}
	n := len(dst)
	dst = c.merge(dst, charges, answers, sent)
	if known < len(charges) {
		s.learn(charges, c.looks, dst[n:], sent)
	}
	return dst, nil
}

// release keeps the memory of a call, and nothing that its caller holds.
func (s *Store) release(c *call) {
	clear(c.looks)
	clear(c.charges)
	c.looks, c.charges = c.looks[:0], c.charges[:0]
	s.calls.Put(c)
}

// groupEnd returns the index after the group that begins at i.
func groupEnd(charges []sluice.Charge, i int) int {
	group := charges[i].Group
	for i < len(charges) && charges[i].Group == group {
		i++
	}
	return i
}

// lookAll looks up all charges and returns how many are of groups known to be
// refused.
func (s *Store) lookAll(c *call, charges []sluice.Charge, now time.Duration) (known int) {
	for i := 0; i < len(charges); {
		end := groupEnd(charges, i)
		refused := false
		for j := i; j < end; j++ {
			l := s.look(&charges[j], demand(charges[i:j+1]), now)
			refused = refused || l.refused
			c.looks = append(c.looks, l)
		}
		if refused {
			for j := i; j < end; j++ {
				c.looks[j].known = true
			}
			known += end - i
		}
		i = end
	}
	return known
}

// mixed says whether a key stands in a group that is known to be refused and in
// another, which may take from it before and make the wait longer. Then nothing
// is taken for known.
func (c *call) mixed(charges []sluice.Charge) bool {
	for i := range charges {
		for j := range charges[:i] {
			if c.looks[i].known != c.looks[j].known && charges[i].Key == charges[j].Key {
				for k := range c.looks {
					c.looks[k].known = false
				}
				return true
			}
		}
	}
	return false
}

// demand returns what the last charge asks of its counter for one unit, with
// what those before it in the group ask of the same one; 0 for a peek.
func demand(group []sluice.Charge) int64 {
	last := &group[len(group)-1]
	amount := unit(last)
	if amount <= 0 {
		return 0
	}
	for i := range group[:len(group)-1] {
		c := &group[i]
		if c.Key == last.Key && c.N > 0 && c.Limit.Kind() == last.Limit.Kind() {
			amount += unit(c)
		}
	}
	return amount
}

// gather collects the charges of the groups that are not known to be refused.
// Groups get new numbers: two with the same number may have come together.
func (c *call) gather(charges []sluice.Charge) {
	group := 0
	for i := range charges {
		if i > 0 && charges[i].Group != charges[i-1].Group {
			group++
		}
		if !c.looks[i].known {
			charge := charges[i]
			charge.Group = group
			c.charges = append(c.charges, charge)
		}
	}
}

// merge appends the store's answers and those known, in the order of the
// charges.
func (c *call) merge(dst []sluice.Decision, charges []sluice.Charge, answers []sluice.Decision, now time.Duration) []sluice.Decision {
	for i := range charges {
		l := &c.looks[i]
		switch {
		case !l.known:
			dst = append(dst, answers[0])
			answers = answers[1:]
		case l.refused:
			dst = append(dst, l.entry.refusal(l.amount, now))
		case l.entry != nil:
			dst = append(dst, l.entry.told(now))
		default:
			dst = append(dst, unknown(&charges[i]))
		}
	}
	return dst
}

// learn revises and remembers what the store has answered. The call was sent at
// a time before the store decided.
func (s *Store) learn(charges []sluice.Charge, looks []look, decisions []sluice.Decision, sent time.Duration) {
	learned := false
	for i := 0; i < len(charges); {
		end := groupEnd(charges, i)
		if !looks[i].known {
			if learned {
				// Of the same key, perhaps.
				for j := i; j < end; j++ {
					looks[j].held = true
				}
			}
			learned = s.learnGroup(charges[i:end], looks[i:end], decisions[i:end], sent) || learned
		}
		i = end
	}
}

// learnGroup says whether anything is remembered of a group.
func (s *Store) learnGroup(charges []sluice.Charge, looks []look, decisions []sluice.Decision, sent time.Duration) bool {
	wait := time.Duration(0) // of the refusals by the store
	for i := range decisions {
		d := &decisions[i]
		if d.Source != sluice.SourceStore {
			continue
		}
		if looks[i].held && charges[i].N > 0 {
			looks[i].revise(&charges[i], d)
		}
		if !d.Allowed {
			wait = max(wait, d.RetryAfter)
		}
	}
	if wait == 0 {
		return false
	}
	received := s.now()
	if sent+min(wait-grain, maxAge) <= received {
		return false // all is over when the answer is there
	}
	for i := range decisions {
		until := sent + maxAge
		if d := &decisions[i]; !d.Allowed {
			until = sent + min(d.RetryAfter-grain, maxAge)
		}
		if until > received && decisions[i].Source == sluice.SourceStore {
			e := newEntry(&charges[i], &decisions[i], looks[i].amount, received, until)
			looks[i].remember(e, s.cache.width)
		}
	}
	return true
}
