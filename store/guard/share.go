package guard

import (
	"math/bits"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A share is what one instance may let pass of a limit by itself.
type share struct {
	// limit is what it counts by, on the limit's own kind of state, so that
	// what was used is kept while shares change. Its zero value is a window in
	// which the instance has no token.
	limit sluice.Limit
	// wait is the time until the instance has a token, if it has none now for
	// being another's turn.
	wait time.Duration
}

// share divides a limit over the fleet so that the shares of all instances
// together are at most the limit. now is a store time; since is the one at which
// this instance went over to its shares; key is the hash of the counter's key,
// by which turns begin elsewhere for each.
//
// Windows are divided to the last token: what is left over by dividing goes to
// ranks that move on with each window. The burst and the rate of buckets, and
// logs, are divided and rounded down. Where that leaves less than one token, time
// is cut into the slots in which the limit gains one, and each slot's token is
// one rank's alone: turns need clocks that agree to about a slot.
func (f *fleet) share(l *sluice.Limit, key uint64, now, since int64) share {
	if f.live <= 1 {
		return share{limit: *l}
	}
	switch l.Algorithm {
	case sluice.FixedWindow, sluice.SlidingWindow:
		return f.windowShare(l, key, now)
	case sluice.SlidingLog:
		if tokens := l.Tokens / f.live; tokens > 0 {
			log := *l
			log.Tokens, log.Burst = tokens, 0
			return share{limit: log}
		}
	default:
		if bucket, ok := f.bucketShare(l); ok {
			return share{limit: bucket}
		}
	}
	return f.slotShare(l, key, now, since)
}

// turn returns 0 to live-1: the place of this instance in the queue for what
// index, one more for each window or slot, has to give away.
func (f *fleet) turn(key uint64, index int64) int64 {
	return int64((key%uint64(f.live) + uint64(index)%uint64(f.live) + uint64(f.rank)) % uint64(f.live))
}

func (f *fleet) windowShare(l *sluice.Limit, key uint64, now int64) share {
	m, err := l.Meter()
	if err != nil {
		return share{} // CheckCharges has seen to it
	}
	start, end := m.Bounds(now)
	turn := f.turn(key, windowNumber(l, start))
	window := *l
	window.Tokens, window.Burst = l.Tokens/f.live, 0
	if turn < l.Tokens%f.live {
		window.Tokens++
	}
	if window.Tokens > 0 {
		return share{limit: window}
	}
	// Turns count up to live and begin anew with 0, whose window has a token.
	for range f.live - turn - 1 {
		if _, end = m.Bounds(end); end-now > sluice.DurationTicks(farOff) {
			return share{wait: farOff}
		}
	}
	return share{wait: sluice.TicksDuration(end - now)}
}

// windowNumber numbers the windows of a limit, the same on every machine.
func windowNumber(l *sluice.Limit, start int64) int64 {
	if l.Calendar != (sluice.Calendar{}) {
		return l.Calendar.Number(start)
	}
	return sluice.TicksTime(start).UnixMicro() / l.Per.Microseconds()
}

// bucketShare divides burst and rate; false if that leaves no whole token.
func (f *fleet) bucketShare(l *sluice.Limit) (sluice.Limit, bool) {
	bucket := sluice.Limit{Burst: l.Capacity() / f.live}
	common := gcd(l.Tokens, f.live)
	times := f.live / common
	bucket.Tokens, bucket.Per = l.Tokens/common, l.Per
	if l.Per <= sluice.MaxPer/time.Duration(times) {
		bucket.Per *= time.Duration(times)
	} else {
		hi, lo := bits.Mul64(uint64(bucket.Tokens), uint64(sluice.MaxPer))
		tokens, _ := bits.Div64(hi, lo, uint64(l.Per)*uint64(times))
		bucket.Tokens, bucket.Per = int64(tokens), sluice.MaxPer
	}
	// At the bound on the time to fill, rounding may ask for a little less.
	for ; bucket.Burst > 0; bucket.Burst-- {
		if _, err := bucket.Meter(); err == nil || bucket.Tokens == 0 {
			break
		}
	}
	return bucket, bucket.Burst > 0 && bucket.Tokens > 0
}

// slotShare gives each slot's token to one rank. The slot in which this instance
// went over to shares has none: the store may have given it away.
func (f *fleet) slotShare(l *sluice.Limit, key uint64, now, since int64) share {
	slot := (l.Per.Microseconds() + l.Tokens - 1) / l.Tokens
	micros := sluice.TicksTime(now).UnixMicro()
	index := floorDiv(micros, slot)
	sh := share{limit: slotLimit(l, slot)}
	turn := f.turn(key, index)
	if turn == 0 && index*slot >= sluice.TicksTime(since).UnixMicro() {
		return sh
	}
	next := (index + f.live - turn) * slot
	sh.wait = time.Duration(min(next-micros, farOff.Microseconds())) * time.Microsecond
	return sh
}

// farOff bounds the wait for a turn, which for hundreds of instances and a limit
// a year could be more than a duration holds.
const farOff = 100 * 365 * 24 * time.Hour

// slotLimit is one token a slot on the limit's own kind of state. It is free
// again before the instance's next turn.
func slotLimit(l *sluice.Limit, slot int64) sluice.Limit {
	if l.Algorithm == sluice.SlidingLog {
		return sluice.Limit{Tokens: 1, Per: l.Per, Algorithm: sluice.SlidingLog}
	}
	tokens := (sluice.MinPer.Microseconds() + slot - 1) / slot
	return sluice.Limit{Tokens: tokens, Per: time.Duration(tokens*slot) * time.Microsecond, Burst: 1}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// hash is FNV-1a, the same in every process.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
