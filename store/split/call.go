package split

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-limiter/sluice"
)

// A call is one that reaches over several slots. Its memory is used again.
type call struct {
	s         *Store
	charges   []sluice.Charge
	decisions []sluice.Decision
	slots     []int  // of each charge
	groups    []int  // of each charge: the number of its group in this call
	spans     []bool // of each charge: its group reaches over several slots
	parts     []part
}

// A part is what lies in one slot.
type part struct {
	slot      int
	charges   []sluice.Charge
	index     []int // of each: which of the call's charges it is
	decisions []sluice.Decision
	err       error
}

func (c *call) prepare(s *Store, charges []sluice.Charge) {
	c.s, c.charges = s, charges
	group := 0
	for i := range charges {
		if i > 0 && charges[i].Group != charges[i-1].Group {
			group++
		}
		c.slots = append(c.slots, s.locator.Locate(&charges[i]).Slot)
		c.groups = append(c.groups, group)
		c.spans = append(c.spans, false)
		c.decisions = append(c.decisions, sluice.Decision{})
	}
	for from := 0; from < len(charges); {
		to, spans := c.group(from), false
		for i := from + 1; i < to; i++ {
			spans = spans || c.slots[i] != c.slots[from]
		}
		for i := from; i < to; i++ {
			c.spans[i] = spans
		}
		from = to
	}
}

// group returns where the group that begins at from ends.
func (c *call) group(from int) int {
	to := from + 1
	for to < len(c.groups) && c.groups[to] == c.groups[from] {
		to++
	}
	return to
}

// stage returns where the charges end that can be decided at once. A group that
// names a key of an earlier one that reaches over several slots has to wait: it
// may see only what that one keeps.
func (c *call) stage(first int) int {
	from := first
	for from < len(c.charges) {
		to := c.group(from)
		for i := from; i < to; i++ {
			for j := first; j < from; j++ {
				if c.spans[j] && c.same(i, j) {
					return from
				}
			}
		}
		from = to
	}
	return from
}

// same says whether two charges are of one counter.
func (c *call) same(i, j int) bool {
	a, b := &c.charges[i], &c.charges[j]
	return c.slots[i] == c.slots[j] && a.Key == b.Key && a.Tag == b.Tag && a.Limit.Kind() == b.Limit.Kind()
}

var errCount = errors.New("split: the store did not answer every charge")

// run decides the charges from one to another and returns what is to be given
// back.
func (c *call) run(ctx context.Context, from, to int) ([]sluice.Settlement, error) {
	c.divide(from, to)
	var wait sync.WaitGroup
	for i := 1; i < len(c.parts); i++ {
		wait.Go(func() { c.parts[i].take(ctx, c.s.next) })
	}
	c.parts[0].take(ctx, c.s.next)
	wait.Wait()
	var errs []error
	for i := range c.parts {
		p := &c.parts[i]
		if p.err != nil {
			errs = append(errs, p.err)
			continue
		}
		for j, at := range p.index {
			c.decisions[at] = p.decisions[j]
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var back []sluice.Settlement
	for from < to {
		end := c.group(from)
		if c.spans[from] {
			back = c.level(from, end, back)
		}
		from = end
	}
	return back, nil
}

// divide puts charges into the parts where they belong, in their order.
func (c *call) divide(from, to int) {
	c.parts = c.parts[:0]
	for i := from; i < to; i++ {
		p := c.part(c.slots[i])
		charge := c.charges[i]
		charge.Group = c.groups[i]
		p.charges = append(p.charges, charge)
		p.index = append(p.index, i)
	}
}

// part returns the part of a slot, which is new or has the memory of an old one.
func (c *call) part(slot int) *part {
	for i := range c.parts {
		if c.parts[i].slot == slot {
			return &c.parts[i]
		}
	}
	n := len(c.parts)
	if n < cap(c.parts) {
		c.parts = c.parts[:n+1]
	} else {
		c.parts = append(c.parts, part{})
	}
	p := &c.parts[n]
	*p = part{slot: slot, charges: p.charges[:0], index: p.index[:0], decisions: p.decisions[:0]}
	return p
}

func (p *part) take(ctx context.Context, next sluice.Store) {
	p.decisions, p.err = next.Take(ctx, p.decisions[:0], p.charges)
	if p.err == nil && len(p.decisions) != len(p.charges) {
		p.err = errCount
	}
}

// reset drops what others hold.
func (c *call) reset() {
	for i := range c.parts {
		clear(c.parts[i].charges)
	}
	*c = call{
		decisions: c.decisions[:0], slots: c.slots[:0], groups: c.groups[:0],
		spans: c.spans[:0], parts: c.parts[:0],
	}
}
