package lease

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-limiter/sluice"
)

var errCount = errors.New("lease: the store did not answer every charge")

// Take implements [sluice.Store]. A call whose charges are all held takes no
// round trip and allocates nothing.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if !s.active.Load() || !anyLeased(charges) {
		return s.next.Take(ctx, dst, charges)
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	if len(charges) == 1 {
		return s.takeOne(ctx, dst, charges)
	}
	return s.takeSeveral(ctx, dst, charges)
}

func anyLeased(charges []sluice.Charge) bool {
	for i := range charges {
		if leased(&charges[i]) {
			return true
		}
	}
	return false
}

// leased says whether a charge may be answered by a lease: a log is exact, a peek
// asks what the store has, and a part would have to be the same for its group.
func leased(c *sluice.Charge) bool {
	return c.Tolerance > 0 && c.N > 0 && (c.Unit == 0 || c.Unit == c.N) && c.Limit.Algorithm != sluice.SlidingLog
}

func (s *Store) takeOne(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	c, now := &charges[0], s.now()
	e := s.entry(c, now)
	if e == nil {
		return s.next.Take(ctx, dst, charges)
	}
	g, left, ok := e.reserve(c.N, now)
	if !ok {
		return s.askOne(ctx, dst, charges, e, now)
	}
	if left <= e.low.Load() {
		s.want(e, now)
	}
	s.counted(c)
	return append(dst, g.decision(c.N, left, now)), nil
}

// askOne decides a charge that is not held. Tokens are claimed for others once it
// has passed, so that it finds those that it was told to wait for. Once the limit
// is known to be reached one caller at a time looks whether that is over.
func (s *Store) askOne(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge, e *entry, now time.Duration) ([]sluice.Decision, error) {
	c := &charges[0]
	sc := e.scarce.Load()
	if sc != nil && (now < sc.until || !e.scarce.CompareAndSwap(sc, sc.pending(now))) {
		if d, ok := e.refuse(c, now); ok {
			s.counts.refused.Add(1)
			return append(dst, d), nil
		}
		return s.next.Take(ctx, dst, charges)
	}
	first, before := len(dst), e.grant.Load()
	dst, err := s.next.Take(ctx, dst, charges)
	s.looked(e, c, dst[first:], before)
	return dst, err
}

// looked goes on from what the store told a caller, and adds to a refusal the
// time for which the store will not be asked. before is the grant when it was
// asked.
func (s *Store) looked(e *entry, c *sluice.Charge, got []sluice.Decision, before *grant) {
	now := s.now()
	if len(got) != 1 || got[0].Source == sluice.SourceFallback {
		e.scarce.Store(nil) // calls go on to the store, and are answered by its rules
		return
	}
	d := &got[0]
	if d.Granted == c.N {
		s.passed(e, now)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left.Load() >= c.N {
		return // claimed meanwhile: who asks again finds them
	}
	e.prolong(d, c.N, before)
	one, ok := firstToken(c, d)
	if !ok {
		// How long one token takes was not said: the next caller looks.
		e.scarce.Store(e.scarce.Load().at(now))
		return
	}
	e.learn(&one, 1, s.pause(e, &one), now)
	d.RetryAfter = max(d.RetryAfter, e.scarce.Load().until-now)
}

// passed goes on from a charge that the store let pass: others are likely to. The
// limit is reached no more, unless a claim that is under way says so.
func (s *Store) passed(e *entry, now time.Duration) {
	if e.scarce.Load() == nil {
		s.want(e, now)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.wantLocked(e, now)
	if !e.claiming {
		e.scarce.Store(nil)
	}
}

// firstToken tells of the refusal of a charge what one of a single token would
// have been told, if that can be known.
func firstToken(c *sluice.Charge, d *sluice.Decision) (one sluice.Decision, ok bool) {
	one = *d
	if c.N == 1 {
		return one, true
	}
	m, err := c.Limit.Meter()
	if err != nil || c.Limit.Algorithm != sluice.TokenBucket {
		return one, false
	}
	one.RetryAfter = max(0, d.RetryAfter-sluice.TicksDuration((c.N-1)*m.Interval()))
	return one, true
}

// counted counts a charge that was answered by a lease.
func (s *Store) counted(c *sluice.Charge) {
	s.counts.leased.Add(1)
	s.counts.spent.Add(c.N)
}

// entry returns what is known of a charge's counter, and notes its demand; nil
// if there is no room for it.
func (s *Store) entry(c *sluice.Charge, now time.Duration) *entry {
	hash := s.hash(c)
	e := s.table.find(hash, c)
	rests := time.Duration(0)
	if e != nil && !e.fits(c) {
		// The limit was changed. What was held by the old one is back before
		// anything is claimed by the new one.
		s.retire(e)
		e, rests = nil, now+s.o.Time
	}
	if e == nil {
		e = s.watch(hash, c, now)
		if e != nil {
			e.due.Store(int64(rests))
		}
	}
	if e != nil {
		e.demand.asked.Add(c.N)
	}
	return e
}

// watch begins to count the demand of a counter.
func (s *Store) watch(hash uint64, c *sluice.Charge, now time.Duration) *entry {
	e := newEntry(hash, c, now)
	if !s.table.add(hash, e, func(old *entry) bool { return old.idle(now, s.span()) }) {
		return nil // somebody else has added it: from the next call on
	}
	return e
}

// A call is one of several charges being decided. It is used again.
type call struct {
	plans     []plan
	groups    int             // planned
	rest      []sluice.Charge // what the store is asked
	decisions []sluice.Decision
}

// A plan is how one charge is decided.
type plan struct {
	entry *entry // of its counter; nil: none
	from  *grant // that its tokens are spent of; nil: the store is asked
	left  int64
	// before is the grant when the store was asked.
	before *grant
}

// takeSeveral reserves what is held and asks the store for the rest. Where that
// refuses a group, its reservations go back.
func (s *Store) takeSeveral(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	q := s.calls.Get().(*call)
	defer func() {
		q.recycle()
		s.calls.Put(q)
	}()
	now := s.now()
	for first, end := 0, 0; first < len(charges); first = end {
		end = groupEnd(charges, first)
		s.plan(q, charges[first:end], now)
	}
	if len(q.rest) > 0 {
		var err error
		q.decisions, err = s.next.Take(ctx, q.decisions[:0], q.rest)
		if err == nil && len(q.decisions) != len(q.rest) {
			err = errCount
		}
		if err != nil {
			s.putBack(q.plans, charges)
			return dst, err
		}
	}
	return s.conclude(dst, q, charges, now), nil
}

// groupEnd returns where the group that begins at first ends.
func groupEnd(charges []sluice.Charge, first int) int {
	end := first + 1
	for end < len(charges) && charges[end].Group == charges[first].Group {
		end++
	}
	return end
}

// plan decides for each charge of a group whether it is spent here or asked of
// the store. Groups get numbers of their own: where what stood between them is
// spent here, two with one number would become one.
func (s *Store) plan(q *call, group []sluice.Charge, now time.Duration) {
	q.groups++
	parts := false
	for i := range group {
		c := &group[i]
		parts = parts || c.Unit != 0 && c.Unit != c.N
	}
	for i := range group {
		c := &group[i]
		var p plan
		if leased(c) && !parts {
			p = s.hold(c, now)
		}
		if p.from == nil {
			q.rest = append(q.rest, *c)
			q.rest[len(q.rest)-1].Group = q.groups
		}
		q.plans = append(q.plans, p)
	}
}

// hold reserves a charge's tokens, if they are here.
func (s *Store) hold(c *sluice.Charge, now time.Duration) plan {
	e := s.entry(c, now)
	if e == nil {
		return plan{}
	}
	e.reserved.Add(c.N)
	before := e.grant.Load()
	g, left, ok := e.reserve(c.N, now)
	if !ok {
		e.reserved.Add(-c.N)
		return plan{entry: e, before: before}
	}
	if left <= e.low.Load() {
		s.want(e, now)
	}
	return plan{entry: e, from: g, left: left}
}

// conclude writes the decisions of all charges in order.
func (s *Store) conclude(dst []sluice.Decision, q *call, charges []sluice.Charge, now time.Duration) []sluice.Decision {
	asked := q.decisions
	for first, end := 0, 0; first < len(charges); first = end {
		end = groupEnd(charges, first)
		begin, passes := len(dst), true
		for i := first; i < end; i++ {
			p, c := &q.plans[i], &charges[i]
			if p.from == nil {
				dst = append(dst, asked[0])
				asked = asked[1:]
				passes = passes && dst[len(dst)-1].Allowed
				continue
			}
			dst = append(dst, p.from.decision(c.N, p.left, now))
		}
		if passes {
			s.spend(q.plans[first:end], charges[first:end])
			continue
		}
		s.putBack(q.plans[first:end], charges[first:end])
		for i := first; i < end; i++ {
			d, p := &dst[begin+i-first], &q.plans[i]
			switch {
			case p.from != nil:
				d.Granted, d.Remaining = 0, min(d.Limit, d.Remaining+charges[i].N)
			case p.entry != nil && !d.Allowed && d.Source == sluice.SourceStore:
				p.entry.refused(d, charges[i].N, p.before)
			}
		}
	}
	return dst
}

// spend ends the reservations of a group that passes, and claims tokens of the
// counters of which none were held.
func (s *Store) spend(plans []plan, charges []sluice.Charge) {
	for i := range plans {
		e := plans[i].entry
		switch {
		case e == nil:
		case plans[i].from != nil:
			e.reserved.Add(-charges[i].N)
			s.counted(&charges[i])
		default:
			s.passed(e, s.now())
		}
	}
}

// putBack returns reservations: to what is held, or if that was given back
// meanwhile, to the store.
func (s *Store) putBack(plans []plan, charges []sluice.Charge) {
	for i := range plans {
		e, c := plans[i].entry, &charges[i]
		if plans[i].from == nil {
			continue
		}
		s.giveBack(e.restore(c.N, plans[i].from, s.now()))
	}
}

// recycle keeps the call's memory, and nothing that others hold.
func (q *call) recycle() {
	clear(q.plans)
	clear(q.rest)
	*q = call{plans: q.plans[:0], rest: q.rest[:0], decisions: q.decisions[:0]}
}
