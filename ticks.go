package sluice

import "time"

// Store time is counted in ticks, sixteenths of a microsecond since the start
// of 2026 in UTC. One integer then holds a bucket's state finely enough that
// rounding the time of one token up costs less than 0.1% at 10,000 tokens a
// second, and stays below 2^53, which a server's Lua computes exactly, until
// 2042.
const (
	ticksPerMicro  = 16
	ticksPerSecond = 1_000_000 * ticksPerMicro
	ticksPerDay    = 24 * 60 * 60 * ticksPerSecond
	epochSeconds   = 1_767_225_600
	epochMicros    = epochSeconds * 1_000_000
)

// Ticks returns the store time of t, rounded down. The zero state of a key
// stands for "never used" at every store time, also at those before 2026, which
// are negative.
func Ticks(t time.Time) int64 {
	return (t.Unix()-epochSeconds)*ticksPerSecond + int64(t.Nanosecond())*2/125
}

// MicroTicks returns the store time of a Unix time in microseconds, the form in
// which Redis tells its time.
func MicroTicks(unixMicros int64) int64 {
	return (unixMicros - epochMicros) * ticksPerMicro
}

// TicksTime returns the instant of a store time, rounded up to a nanosecond.
func TicksTime(ticks int64) time.Time {
	seconds := floorDiv(ticks, ticksPerSecond)
	return time.Unix(epochSeconds+seconds, int64(TicksDuration(ticks-seconds*ticksPerSecond)))
}

// TicksDuration returns a span of store time as a duration, rounded up: whoever
// waits that long has waited long enough.
func TicksDuration(ticks int64) time.Duration {
	return time.Duration(-floorDiv(-ticks*125, 2))
}

// DurationTicks returns a duration as a span of store time, rounded down: the
// inverse of [TicksDuration].
func DurationTicks(d time.Duration) int64 { return durationTicks(d) }

// durationTicks rounds down: time passes no faster than the clock says.
func durationTicks(d time.Duration) int64 {
	return floorDiv(int64(d)*2, 125)
}

// floorDiv divides by a positive b and rounds towards minus infinity.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv divides by a positive b and rounds towards plus infinity.
func ceilDiv(a, b int64) int64 {
	return -floorDiv(-a, b)
}
