package shard

import (
	"context"
	"fmt"

	"github.com/sluice-limiter/sluice"
)

// A call is one with shards in it. Its memory is used again.
type call struct {
	charges   []sluice.Charge
	parts     []part
	sent      []sluice.Charge // to the store below
	decisions []sluice.Decision
}

// A part is what stands for one charge in the call of the store below.
type part struct {
	group int // the number of its group in this call
	ask   bool
	at    int // its first charge among those sent

	// start and count are the shards asked: count from start on, around the
	// end. count is 0 for a charge without shards.
	start, count int
	settled      bool // its group is not asked again: the key is there twice

	// What the first try found, once it was moved.
	moved bool
	found tally
	wait  waits
}

// unit is the least that a grant of the charge can be; 0 for a peek.
func unit(c *sluice.Charge) int64 {
	if c.Unit != 0 && c.N > 0 {
		return c.Unit
	}
	return c.N
}

// reach returns how many shards hold a unit of a charge: all for a peek.
func reach(c *sluice.Charge) int {
	if c.N == 0 {
		return c.Shards
	}
	least := c.Limit.Capacity() / int64(c.Shards)
	return int(min(int64(c.Shards), (unit(c)+least-1)/least))
}

// piece returns the unit that the j-th of count shards gives of a charge's. If
// all shards are asked, they stand in their order, as those with a token more do.
func piece(c *sluice.Charge, j, count int) int64 {
	n := unit(c)
	share := n / int64(count)
	if int64(j) < n%int64(count) {
		share++
	}
	return share
}

// prepare checks the charges and chooses their shards.
func (c *call) prepare(pick func(int) int, charges []sluice.Charge) error {
	if err := sluice.CheckCharges(charges); err != nil {
		return err
	}
	c.charges = charges
	group := 0
	for i := range charges {
		if i > 0 && charges[i].Group != charges[i-1].Group {
			group++
		}
		c.parts = append(c.parts, part{group: group, ask: true})
		charge, p := &charges[i], &c.parts[i]
		if charge.Shards > 1 {
			if err := checkShards(charge); err != nil {
				return err
			}
			p.count = reach(charge)
			if p.count < charge.Shards {
				p.start = pick(charge.Shards)
			}
		}
		if err := c.alias(i); err != nil {
			return err
		}
	}
	return nil
}

// alias makes charges of one group that name one key take different shards, so
// that their pieces together fit as the charges do.
func (c *call) alias(i int) error {
	a, p := &c.charges[i], &c.parts[i]
	used := 0
	for j := i - 1; j >= 0 && c.parts[j].group == p.group; j-- {
		b, other := &c.charges[j], &c.parts[j]
		if a.Key != b.Key || a.N == 0 || b.N == 0 || a.Limit.Kind() != b.Limit.Kind() {
			continue
		}
		if max(a.Shards, 1) != max(b.Shards, 1) {
			return fmt.Errorf("%w: one key in %d and in %d shards in one group: give each its own key", sluice.ErrCharge, a.Shards, b.Shards)
		}
		if p.count == 0 {
			continue
		}
		if used == 0 { // the one before stands where the others end
			p.start = (other.start + other.count) % a.Shards
		}
		p.settled, other.settled = true, true
		used += other.count
	}
	if used > 0 && used+p.count > a.Shards {
		return fmt.Errorf("charges of one key in a group need %d of %d shards: ask for their sum in one charge: %w",
			used+p.count, a.Shards, sluice.ErrCost)
	}
	return nil
}

// ask asks the store below about the groups that are to be asked.
func (c *call) ask(ctx context.Context, next sluice.Store) error {
	clear(c.sent)
	c.sent = c.sent[:0]
	for i := range c.parts {
		if c.parts[i].ask {
			c.add(i)
		}
	}
	var err error
	c.decisions, err = next.Take(ctx, c.decisions[:0], c.sent)
	if err == nil && len(c.decisions) != len(c.sent) {
		err = errCount
	}
	return err
}

// add adds what stands for a charge to what is sent.
func (c *call) add(i int) {
	charge, p := &c.charges[i], &c.parts[i]
	p.at = len(c.sent)
	if p.count == 0 {
		c.sent = append(c.sent, *charge)
		c.sent[p.at].Group = p.group
		return
	}
	for j := range p.count {
		sent := shardOf(charge, (p.start+j)%charge.Shards)
		sent.Group = p.group
		if u := unit(charge); u > 0 {
			part := piece(charge, j, p.count)
			sent.N = charge.N / u * part
			if charge.Unit != 0 {
				sent.Unit = part
			}
		}
		c.sent = append(c.sent, sent)
	}
}

// move chooses the groups that are asked once more: those that only charges with
// other shards to ask refused. It says whether there are any.
func (c *call) move(pick func(int) int, decisions []sluice.Decision) bool {
	moved := false
	for from := 0; from < len(c.parts); {
		to := from + 1
		for to < len(c.parts) && c.parts[to].group == c.parts[from].group {
			to++
		}
		again := c.movable(from, to, decisions)
		for i := from; i < to; i++ {
			p := &c.parts[i]
			p.ask = again
			if again && !decisions[i].Allowed {
				p.move(pick, c.charges[i].Shards, c.tally(i), c.waits(i))
			}
		}
		moved = moved || again
		from = to
	}
	return moved
}

func (c *call) movable(from, to int, decisions []sluice.Decision) bool {
	refused := false
	for i := from; i < to; i++ {
		if decisions[i].Allowed {
			continue
		}
		refused = true
		if p := &c.parts[i]; p.count == 0 || p.count == c.charges[i].Shards || p.settled {
			return false
		}
	}
	return refused
}

// move turns to other shards: any other one, or those behind these.
func (p *part) move(pick func(int) int, shards int, found tally, wait waits) {
	p.moved, p.found, p.wait = true, found, wait
	step := p.count
	if p.count == 1 {
		step = 1 + pick(shards-1)
	}
	p.start = (p.start + step) % shards
}

// reset drops what others hold.
func (c *call) reset() {
	clear(c.sent)
	*c = call{parts: c.parts[:0], sent: c.sent[:0], decisions: c.decisions[:0]}
}
