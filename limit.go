package sluice

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// An Algorithm says how a limit counts. The set is closed, since each algorithm
// has a twin beside the data.
type Algorithm uint8

const (
	// TokenBucket holds up to a burst of tokens and refills at the limit's
	// rate. It is kept as a theoretical arrival time, the generic cell rate
	// algorithm of ITU-T I.371, so that one integer is a key's whole state.
	// Over any window W it admits at most burst + rate x W.
	TokenBucket Algorithm = iota
	// FixedWindow counts in windows aligned to the Unix epoch, or to the days
	// or months of a [Calendar]. Across the edge of two windows it admits up
	// to twice the limit.
	FixedWindow
	// SlidingWindow weighs the count of the window before by the part of it
	// that a window ending now still covers, and adds the present count.
	SlidingWindow
	// SlidingLog remembers the time of every token: exact in any window, at
	// four bytes a token.
	SlidingLog
)

var algorithmNames = [...]string{
	TokenBucket:   "token_bucket",
	FixedWindow:   "fixed_window",
	SlidingWindow: "sliding_window",
	SlidingLog:    "sliding_log",
}

// String returns the name that configuration uses.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

// ParseAlgorithm reads the name of an algorithm; gcra is an alias of
// token_bucket, which is computed that way.
func ParseAlgorithm(s string) (Algorithm, error) {
	if s == "gcra" {
		return TokenBucket, nil
	}
	for a, name := range algorithmNames {
		if s == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("unknown algorithm %q: want token_bucket (or gcra), fixed_window, sliding_window or sliding_log", s)
}

// Bounds of a valid [Limit]. They keep all arithmetic below 2^53, also in a
// script beside the data, until 2042.
const (
	// MaxTokens bounds Tokens, Burst and the amount of one charge.
	MaxTokens = 1 << 32
	// MaxLogTokens bounds a sliding log, which stores four bytes a token.
	MaxLogTokens = 100_000
	// MaxBucketRate bounds a token bucket's tokens a second: above it,
	// rounding the time of one token would cost more than 6%.
	MaxBucketRate = 1_000_000
	// MinPer and MaxPer bound the period.
	MinPer = time.Millisecond
	MaxPer = 366 * 24 * time.Hour
	// MaxFill bounds the time in which an empty bucket fills, burst / rate.
	MaxFill = 366 * 24 * time.Hour

	maxFillTicks = 366 * ticksPerDay
)

// A Limit says how much may pass: Tokens per Per, for token buckets with up to
// Burst at once. It is a comparable value; the zero value is not valid.
type Limit struct {
	// Tokens is how many tokens pass per Per; at least 1.
	Tokens int64
	// Per is the period, in whole microseconds. With a Calendar it must be
	// zero: the calendar says it.
	Per time.Duration
	// Burst is the capacity of a token bucket; zero means Tokens. The other
	// algorithms have no burst: theirs must be zero or Tokens.
	Burst int64
	// Algorithm is how the limit counts; the zero value is TokenBucket.
	Algorithm Algorithm
	// Calendar makes a fixed window a calendar day or month; zero: none.
	Calendar Calendar
}

// Capacity returns the most that may pass at once: the burst of a bucket, the
// tokens of a window.
func (l Limit) Capacity() int64 {
	if l.Burst != 0 {
		return l.Burst
	}
	return l.Tokens
}

// EffectiveRate returns the tokens a second that a valid limit really admits in
// the long run, with a calendar in its longest window. A token bucket's is at
// most the configured rate, since the time of one token is rounded up to a tick:
// by under 0.1% up to 10,000 a second.
func (l Limit) EffectiveRate() float64 {
	if l.Tokens < 1 {
		return 0
	}
	if l.Algorithm == TokenBucket {
		interval := ceilDiv(durationTicks(l.Per), l.Tokens)
		return float64(1_000_000*ticksPerMicro) / float64(interval)
	}
	return float64(l.Tokens) / l.period().Seconds()
}

// period returns Per, or the longest a calendar window can be.
func (l Limit) period() time.Duration {
	switch l.Calendar.Unit {
	case CalendarDay:
		return 25 * time.Hour
	case CalendarMonth:
		return 31*24*time.Hour + time.Hour
	}
	return l.Per
}

// Validate reports all that is wrong with the limit, each error naming the
// field and the bound.
func (l Limit) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if int(l.Algorithm) >= len(algorithmNames) {
		fail("algorithm %d does not exist", l.Algorithm)
	}
	if l.Tokens < 1 || l.Tokens > MaxTokens {
		fail("tokens is %d: want 1 to %d", l.Tokens, int64(MaxTokens))
	}
	if l.Burst < 0 || l.Burst > MaxTokens {
		fail("burst is %d: want 1 to %d, or 0 for as much as the limit", l.Burst, int64(MaxTokens))
	}
	if err := l.validatePeriod(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return l.validateAlgorithm()
}

func (l Limit) validatePeriod() error {
	if l.Calendar != (Calendar{}) {
		if l.Algorithm != FixedWindow {
			return fmt.Errorf("a calendar needs algorithm fixed_window, not %v", l.Algorithm)
		}
		if l.Per != 0 {
			return fmt.Errorf("period is %v beside a calendar %v: leave one out", l.Per, l.Calendar.Unit)
		}
		return l.Calendar.validate()
	}
	if l.Per < MinPer || l.Per > MaxPer {
		return fmt.Errorf("period is %v: want %v to %v", l.Per, MinPer, formatPeriod(MaxPer))
	}
	if l.Per%time.Microsecond != 0 {
		return fmt.Errorf("period is %v: want whole microseconds", l.Per)
	}
	return nil
}

// validateAlgorithm checks what only one algorithm asks; the fields are within
// their own bounds.
func (l Limit) validateAlgorithm() error {
	if l.Algorithm != TokenBucket && l.Burst != 0 && l.Burst != l.Tokens {
		return fmt.Errorf("burst %d with algorithm %v: only token_bucket has a burst; leave it out", l.Burst, l.Algorithm)
	}
	switch l.Algorithm {
	case TokenBucket:
		per := durationTicks(l.Per)
		if per < l.Tokens*ticksPerMicro {
			return fmt.Errorf("rate is over %d/s, the most that a token bucket keeps on one key: count in larger tokens, or use a window", MaxBucketRate)
		}
		if hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(ceilDiv(per, l.Tokens))); hi != 0 || lo > maxFillTicks {
			return fmt.Errorf("burst %d at this rate takes over %s to fill, the most that a token bucket keeps: lower the burst or raise the rate", l.Capacity(), formatPeriod(MaxFill))
		}
	case SlidingLog:
		if l.Tokens > MaxLogTokens {
			return fmt.Errorf("tokens is %d: a sliding_log keeps at most %d; use sliding_window", l.Tokens, MaxLogTokens)
		}
	}
	return nil
}

// A Kind says which states may meet: a key keeps one state for each kind of
// limit charged on it, so that a changed algorithm or window starts clean. All
// token buckets are of one kind.
type Kind struct {
	Algorithm Algorithm
	Per       time.Duration
	Calendar  Calendar
}

// Kind returns the limit's kind; equal ones are equal values.
func (l Limit) Kind() Kind {
	if l.Algorithm == TokenBucket {
		return Kind{}
	}
	k := Kind{Algorithm: l.Algorithm, Per: l.Per, Calendar: l.Calendar}
	if k.Calendar.Zone == "UTC" {
		k.Calendar.Zone = "" // the zone's other spelling
	}
	return k
}
