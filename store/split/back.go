package split

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// unit is the least that a grant of a charge can be.
func unit(c *sluice.Charge) int64 {
	if c.Unit != 0 {
		return c.Unit
	}
	return c.N
}

// level brings a group that reaches over several slots down to the units that
// all of them granted, and appends what is to be given back.
func (c *call) level(from, to int, back []sluice.Settlement) []sluice.Settlement {
	units := int64(-1)
	for i := from; i < to; i++ {
		if c.charges[i].N == 0 {
			continue
		}
		if u := c.decisions[i].Granted / unit(&c.charges[i]); units < 0 || u < units {
			units = u
		}
	}
	first := len(back)
	for i := from; i < to; i++ {
		charge, d := &c.charges[i], &c.decisions[i]
		if over := d.Granted - units*unit(charge); charge.N > 0 && over > 0 {
			back = append(back, returned(charge, d, over))
		}
	}
	if len(back) > first {
		c.lower(from, to, units)
	}
	return back
}

// returned is the settlement that gives back a part of what was granted.
func returned(charge *sluice.Charge, d *sluice.Decision, n int64) sluice.Settlement {
	s := sluice.Settlement{Charge: *charge, From: *d}
	s.Charge.N, s.Charge.Unit, s.Charge.Group = -n, 0, 0
	return s
}

// lower makes a group's decisions what they are once the give-back has arrived.
// A charge that could have had more waits for nothing: others in its group do.
func (c *call) lower(from, to int, units int64) {
	over := make([]int64, to-from) // of each charge's counter
	for i := from; i < to; i++ {
		for j := from; j < to; j++ {
			if c.charges[j].N > 0 && c.same(i, j) {
				over[i-from] += c.decisions[j].Granted - units*unit(&c.charges[j])
			}
		}
	}
	for i := from; i < to; i++ {
		charge, d := &c.charges[i], &c.decisions[i]
		n := over[i-from]
		if n <= 0 || charge.N == 0 {
			continue
		}
		d.Granted, d.RetryAfter = units*unit(charge), 0
		d.Remaining = min(d.Limit, d.Remaining+n)
		d.ResetAfter = resetAfter(charge, d, n)
	}
	for i := from; i < to; i++ {
		for j := from; j < to && c.charges[i].N == 0 && over[i-from] > 0; j++ {
			if c.charges[j].N > 0 && c.same(i, j) {
				c.lowerPeek(i, j)
				break
			}
		}
	}
}

// resetAfter returns when a key is full after n tokens were given back. Of
// windows and logs it is known only that it is no later than before.
func resetAfter(charge *sluice.Charge, d *sluice.Decision, n int64) time.Duration {
	m, err := charge.Limit.Meter()
	switch {
	case err != nil:
	case charge.Limit.Algorithm == sluice.TokenBucket:
		left := sluice.DurationTicks(d.ResetAfter) - n*m.Interval()
		return sluice.TicksDuration(max(0, left))
	case d.Remaining == d.Limit:
		return 0
	}
	return d.ResetAfter
}

// lowerPeek makes the decision of a peek that of charge j, which is of the same
// counter, if perhaps under another limit.
func (c *call) lowerPeek(i, j int) {
	d, other := &c.decisions[i], &c.decisions[j]
	m, err := c.charges[i].Limit.Meter()
	switch {
	case err != nil:
	case c.charges[i].Limit.Algorithm == sluice.TokenBucket:
		debt := sluice.DurationTicks(other.ResetAfter)
		state := sluice.State{Time: d.At + debt}
		d.Remaining, d.ResetAfter = m.Room(&state, d.At), sluice.TicksDuration(m.Reset(&state, d.At))
	default:
		used := other.Limit - other.Remaining
		d.Remaining = max(0, d.Limit-used)
		if used == 0 {
			d.ResetAfter = 0
		}
	}
}

// undo returns what gives back all that the call was granted: before a stage
// that failed whatever the decisions say, in it what its parts were granted.
func (c *call) undo(from int, back []sluice.Settlement) []sluice.Settlement {
	for i := range from {
		if d := &c.decisions[i]; d.Granted > 0 {
			back = append(back, returned(&c.charges[i], d, d.Granted))
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.err != nil || len(p.index) == 0 || p.index[0] < from {
			continue
		}
		for j := range p.decisions {
			if d := &p.decisions[j]; d.Granted > 0 {
				back = append(back, returned(&p.charges[j], d, d.Granted))
			}
		}
	}
	return back
}

const (
	// backTimeout bounds a give-back. It is tried once.
	backTimeout = time.Second
	// maxBacks bounds how many are under way; what is beyond is lost, and its
	// keys admit less until they refill.
	maxBacks = 1024
)

// backs are the give-backs under way.
type backs struct {
	free   chan struct{}
	wait   sync.WaitGroup
	mu     sync.Mutex
	closed bool
}

func (b *backs) init() { b.free = make(chan struct{}, maxBacks) }

// giveBack sends settlements in the background.
func (s *Store) giveBack(back []sluice.Settlement) {
	if len(back) == 0 || s.settler == nil {
		return
	}
	send := func() {
		ctx, cancel := context.WithTimeout(context.Background(), backTimeout)
		defer cancel()
		// Lost, the keys admit less until they refill; nobody waits for it.
		_ = s.settle(ctx, back)
	}
	if !s.backs.start(send) {
		send()
	}
}

// start runs f on a goroutine of its own; false if the store is closed.
func (b *backs) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	select {
	case b.free <- struct{}{}:
	default:
		return true
	}
	b.wait.Go(func() {
		f()
		<-b.free
	})
	return true
}

func (b *backs) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wait.Wait()
}
