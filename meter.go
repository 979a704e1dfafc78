package sluice

import (
	"fmt"
	"math/bits"
	"time"
)

// State is what one key remembers for one kind of limit. The zero value is a
// key that was never used.
type State struct {
	// Time is in ticks. Token bucket: the theoretical arrival time, when the
	// bucket will be full again. Fixed and sliding window: the start of the
	// window counted. Sliding log: the time of the newest entry. It never
	// moves back, but for a clock that did.
	Time int64
	// Count is the tokens taken in the window that starts at Time.
	Count int64
	// Prev is the tokens taken in the window before, for sliding windows.
	Prev int64
	// Log holds, for sliding logs, the time of each token from the oldest to
	// the newest, in quanta (see [Meter.Quantum]), the low 32 bits of each.
	Log []uint32
}

// A Meter is a limit made ready to compute with: the algorithm as pure
// functions of state, time and amount. Times are in ticks, amounts in tokens.
// Its zero value is not usable. No method checks its amounts; see
// [CheckCharges].
type Meter struct {
	capacity  int64
	interval  int64 // token bucket: ticks a token, rounded up
	span      int64 // token bucket: ticks from empty to full; else those of the period, 0 with a calendar
	calendar  Calendar
	algorithm Algorithm
}

// Meter returns the limit's meter, or an error that wraps [ErrCharge] if the
// limit is not valid. It is cheap enough to be called for every charge.
func (l Limit) Meter() (m Meter, err error) {
	if !m.bucket(&l) {
		m, err = l.checkedMeter()
	}
	return m, err
}

// bucket makes m the meter of a valid token bucket and returns false for any
// other limit. It checks what [Limit.Validate] checks, without the messages.
func (m *Meter) bucket(l *Limit) bool {
	per := durationTicks(l.Per)
	if l.Algorithm != TokenBucket || l.Calendar.Unit != CalendarNone || l.Calendar.Zone != "" ||
		l.Per < MinPer || l.Per > MaxPer || l.Per%time.Microsecond != 0 ||
		l.Tokens < 1 || l.Tokens > MaxTokens || l.Tokens*ticksPerMicro > per ||
		l.Burst < 0 || l.Burst > MaxTokens {
		return false
	}
	m.capacity = l.Capacity()
	m.interval = (per + l.Tokens - 1) / l.Tokens
	hi, lo := bits.Mul64(uint64(m.capacity), uint64(m.interval))
	m.span = int64(lo)
	return hi == 0 && lo <= maxFillTicks
}

// checkedMeter returns the meter of a window or a log, or says what is wrong.
func (l Limit) checkedMeter() (Meter, error) {
	if err := l.Validate(); err != nil {
		return Meter{}, fmt.Errorf("%w: limit %v: %w", ErrCharge, l, err)
	}
	return Meter{
		algorithm: l.Algorithm,
		capacity:  l.Capacity(),
		span:      durationTicks(l.Per),
		calendar:  l.Calendar,
	}, nil
}

// Capacity returns the most that may pass at once.
func (m *Meter) Capacity() int64 { return m.capacity }

// Interval returns the ticks in which a token bucket gains a token, rounded up;
// 0 for other algorithms.
func (m *Meter) Interval() int64 { return m.interval }

// Room returns the tokens that may be taken now, 0 to the capacity.
func (m *Meter) Room(s *State, now int64) int64 {
	switch m.algorithm {
	case TokenBucket:
		return m.bucketRoom(m.debt(s.Time, now))
	case SlidingLog:
		return m.logRoom(s, now)
	}
	return m.windowRoom(s, now)
}

// Take takes n tokens, which must be at least 1 and at most the room.
func (m *Meter) Take(s *State, now, n int64) {
	switch m.algorithm {
	case TokenBucket:
		s.Time = arrival(now, m.debt(s.Time, now)+n*m.interval)
	case SlidingLog:
		m.logTake(s, now, n)
	default:
		m.windowTake(s, now, n)
	}
}

// Wait returns the ticks after which n tokens, at most the capacity, can be
// taken if nobody takes any until then; 0 if they can be taken now.
func (m *Meter) Wait(s *State, now, n int64) int64 {
	switch m.algorithm {
	case TokenBucket:
		return max(0, m.debt(s.Time, now)+n*m.interval-m.span)
	case SlidingLog:
		return m.logWait(s, now, n)
	}
	return m.windowWait(s, now, n)
}

// Reset returns the ticks until the key is as if never used, when it can be
// forgotten: at most the time to fill a bucket, a period for fixed windows and
// logs, two for sliding windows, and a period more while the clock is set back.
func (m *Meter) Reset(s *State, now int64) int64 {
	switch m.algorithm {
	case TokenBucket:
		return m.debt(s.Time, now)
	case SlidingLog:
		return m.logReset(s, now)
	}
	return m.windowReset(s, now)
}

// Repair makes a state sound that a lowered limit or a clock set back left
// beyond what the limit can owe. It is the one change that a refused call
// makes, since without it the wait would begin anew at each look; it never
// makes room that the answer of the same call did not show.
func (m *Meter) Repair(s *State, now int64) {
	switch m.algorithm {
	case TokenBucket:
		if s.Time != 0 && s.Time-now > m.span {
			s.Time = m.exhausted(now)
		}
	case SlidingLog:
		m.logRepair(s, now)
	default:
		m.windowRepair(s, now)
	}
}

// Stamp returns the time under which tokens taken now are kept, which a
// give-back names again. It is now, unless the clock was set back a little:
// stored time stands still then.
func (m *Meter) Stamp(s *State, now int64) int64 {
	switch m.algorithm {
	case TokenBucket:
		return now
	case SlidingLog:
		return m.logStamp(s, now) * m.Quantum()
	}
	return max(now, m.window(s, now).start)
}

// Charge takes n tokens after the fact, whether or not they would pass. What
// is owed never exceeds the capacity.
func (m *Meter) Charge(s *State, now, n int64) {
	if n = min(n, m.capacity); n <= 0 {
		return
	}
	switch m.algorithm {
	case TokenBucket:
		s.Time = arrival(now, min(m.span, m.debt(s.Time, now)+n*m.interval))
	case SlidingLog:
		m.logCharge(s, now, n)
	default:
		m.windowCharge(s, now, n)
	}
}

// GiveBack returns n tokens that the decision from granted, and drops what its
// window or its entries no longer hold or its bucket has refilled since. A
// window or log then stands as if they had never been taken. So does a bucket,
// or with less in it; but as one integer it cannot tell whether other give-backs
// since the grant let it fill early, and may then hold up to what those gave
// back too much.
func (m *Meter) GiveBack(s *State, now, n int64, from Decision) {
	if n = min(n, m.capacity); n <= 0 {
		return
	}
	switch m.algorithm {
	case TokenBucket:
		// Debt drains in the order of taking, and that of the grant is the
		// last of what it left. What has drained would have been lost to a
		// full bucket had the grant never been made, so only the rest is
		// sure to be owed still.
		left := from.At + durationTicks(from.ResetAfter) - now
		if s.Time != 0 && left > 0 {
			s.Time = arrival(now, m.debt(s.Time, now)-min(n*m.interval, left))
		}
	case SlidingLog:
		m.logGiveBack(s, now, n, from.At)
	default:
		m.windowGiveBack(s, now, n, from.At)
	}
}

// debt returns the ticks until the bucket is full, 0 to span.
func (m *Meter) debt(arrival, now int64) int64 {
	if arrival == 0 {
		return 0
	}
	return min(max(arrival-now, 0), m.span)
}

func (m *Meter) bucketRoom(debt int64) int64 {
	return (m.span - debt) / m.interval
}

// arrival returns the state of a bucket that is full after the debt. Zero
// stands for a bucket never used, so the one instant of that name gives way.
func arrival(now, debt int64) int64 {
	if t := now + max(debt, 0); t != 0 {
		return t
	}
	return 1
}

// exhausted returns the state of a bucket that owes all it can. It gives way to the
// other side than arrival, so that nobody waits longer than was said.
func (m *Meter) exhausted(now int64) int64 {
	if t := now + m.span; t != 0 {
		return t
	}
	return -1
}

// Bucket decides one charge of n tokens, at least 1, in parts of unit, on a
// token bucket whose whole state is one integer: the step that a store can make
// with a compare-and-swap. It returns the state after it, which is the state
// before it if nothing was taken, and gives the same answer as [Decide].
func (m *Meter) Bucket(state, now, n, unit int64) (next int64, d Decision) {
	debt := m.debt(state, now)
	room := m.bucketRoom(debt)
	granted := n
	switch {
	case unit < n:
		granted = min(n, room)
		granted -= granted % unit
	case room < n:
		granted = 0
	}
	next = state
	if granted > 0 {
		debt += granted * m.interval
		room -= granted
		next = arrival(now, debt)
	} else if state != 0 && state-now > m.span {
		next = m.exhausted(now)
	}
	if next == 1 || next == -1 { // perhaps given way: see arrival
		debt = m.debt(next, now)
		room = m.bucketRoom(debt)
	}
	d = Decision{
		Allowed:    granted > 0,
		Granted:    granted,
		Limit:      m.capacity,
		Remaining:  room,
		ResetAfter: TicksDuration(debt),
		At:         now,
	}
	if granted < n {
		d.RetryAfter = TicksDuration(max(0, debt+unit*m.interval-m.span))
	}
	return next, d
}
