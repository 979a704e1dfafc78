package redis

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-limiter/sluice"
)

// errShort reports an answer that is not one of the script's.
var errShort = errors.New("redis: the script's answer is cut short")

// A reply reads what the script returned, number by number.
type reply struct {
	text string
	now  int64
	bad  bool
}

func newReply(text string) reply {
	r := reply{text: text}
	r.now = r.next()
	return r
}

func (r *reply) next() int64 {
	if len(r.text) < 8 {
		r.bad = true
		return 0
	}
	// Written out, since a conversion to bytes would allocate.
	s := r.text[:8]
	bits := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	r.text = r.text[8:]
	return int64(math.Float64frombits(bits))
}

// decode appends a decision for each charge.
func (r *reply) decode(dst []sluice.Decision, charges []sluice.Charge, q *request) ([]sluice.Decision, error) {
	first := len(dst)
	for i := range charges {
		var d sluice.Decision
		if charges[i].Limit.Algorithm == sluice.SlidingLog {
			d = r.log(charges, q, i)
		} else {
			d = r.state(charges, q, i)
		}
		dst = append(dst, d)
	}
	if r.bad || r.text != "" {
		return dst[:first], fmt.Errorf("%w: %d charges", errShort, len(charges))
	}
	return dst, nil
}

// state describes a bucket or a window from its state after the call.
func (r *reply) state(charges []sluice.Charge, q *request, i int) sluice.Decision {
	c, m := &charges[i], &q.meters[i]
	granted := r.next()
	s := sluice.State{Time: r.next()}
	if c.Limit.Algorithm != sluice.TokenBucket {
		s.Time = sluice.MicroTicks(s.Time)
		s.Count, s.Prev = r.next(), r.next()
	}
	d := sluice.Decision{
		Granted:    granted,
		Limit:      m.Capacity(),
		Remaining:  m.Room(&s, r.now),
		ResetAfter: sluice.TicksDuration(m.Reset(&s, r.now)),
		At:         m.Stamp(&s, r.now),
	}
	need := unit(c) + before(charges, q, i)
	d.Allowed = granted > 0 || c.N == 0 || d.Remaining >= need
	if !d.Allowed || granted > 0 && granted < c.N {
		d.RetryAfter = sluice.TicksDuration(m.Wait(&s, r.now, need))
	}
	return d
}

// log reads what the script computed, since the log itself stays there.
func (r *reply) log(charges []sluice.Charge, q *request, i int) sluice.Decision {
	c, m := &charges[i], &q.meters[i]
	granted, room, wait, reset, stamp := r.next(), r.next(), r.next(), r.next(), r.next()
	d := sluice.Decision{
		Granted:    granted,
		Limit:      m.Capacity(),
		Remaining:  room,
		ResetAfter: sluice.TicksDuration(reset),
		At:         stamp,
	}
	d.Allowed = granted > 0 || c.N == 0 || room >= unit(c)+before(charges, q, i)
	if !d.Allowed || granted > 0 && granted < c.N {
		d.RetryAfter = sluice.TicksDuration(wait)
	}
	return d
}

// before returns what charges before i in its group ask of the same key.
func before(charges []sluice.Charge, q *request, i int) int64 {
	tokens := int64(0)
	for j := i - 1; j >= 0 && charges[j].Group == charges[i].Group; j-- {
		if q.index[j] == q.index[i] && charges[j].N > 0 {
			tokens += unit(&charges[j])
		}
	}
	return tokens
}
