package sluice

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// epoch is store time 0.
var epoch = time.Unix(epochSeconds, 0).UTC()

// ticksOf returns a duration in ticks, for tests that count from tick 0.
func ticksOf(d time.Duration) int64 { return durationTicks(d) }

// clone copies a state, also its log.
func clone(s *State) *State {
	c := *s
	c.Log = slices.Clone(s.Log)
	return &c
}

// same says whether two states are equal; a log without entries is no log.
func same(a, b *State) bool {
	return a.Time == b.Time && a.Count == b.Count && a.Prev == b.Prev && slices.Equal(a.Log, b.Log)
}

// A key is a limit with a state, on which tests take at times of their choice.
type key struct {
	limit Limit
	meter Meter
	state State
}

// failer is what a key needs of a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// newKey returns a key that was never used, for a limit as text or as a value.
func newKey[L string | Limit](t failer, limit L) *key {
	t.Helper()
	k := &key{}
	switch l := any(limit).(type) {
	case string:
		parsed, err := ParseLimit(l)
		if err != nil {
			t.Fatalf("ParseLimit(%q): %v", l, err)
		}
		k.change(t, parsed)
	case Limit:
		k.change(t, l)
	}
	return k
}

// change gives the key another limit, as a reload does.
func (k *key) change(t failer, limit Limit) {
	t.Helper()
	m, err := limit.Meter()
	if err != nil {
		t.Fatalf("Meter: %v", err)
	}
	k.limit, k.meter = limit, m
}

// take asks for n tokens, all or none.
func (k *key) take(now, n int64) Decision { return k.takeUnits(now, n, 0) }

// takeUnits asks for n tokens in parts of unit.
func (k *key) takeUnits(now, n, unit int64) Decision {
	charges := []Charge{{Limit: k.limit, N: n, Unit: unit}}
	return Decide(nil, charges, []Meter{k.meter}, []*State{&k.state}, now)[0]
}

// passes takes one token n times at one moment and counts the grants.
func (k *key) passes(now int64, n int) int {
	granted := 0
	for range n {
		if k.take(now, 1).Allowed {
			granted++
		}
	}
	return granted
}

// settle corrects the key after the fact.
func (k *key) settle(now, n int64, from Decision) {
	Correct(&k.state, &Settlement{Charge: Charge{Limit: k.limit, N: n}, From: from}, &k.meter, now)
}

// lengths are of histories; a failing one is first tried short.
var lengths = rapid.SampledFrom([]int{10, 100, 1000, 10_000, 10_000, 10_000})

// A history draws the steps of a random history: fast, and the same for a seed.
type history struct {
	*rand.Rand
	steps int
	now   int64
	pace  int64 // ticks in which about a token comes back
	span  int64 // ticks in which all come back
}

// newHistory draws how a history of the limit runs.
func newHistory(t *rapid.T, m *Meter, from int64) *history {
	h := &history{
		Rand:  rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
		steps: lengths.Draw(t, "steps"),
		span:  m.span,
	}
	if h.span == 0 {
		h.span = ticksPerDay
	}
	h.pace = max(1, h.span/m.capacity)
	h.now = from + h.Int64N(4*h.span) - 2*h.span
	return h
}

// forward lets time pass: often none or a tick, mostly about a token's time,
// sometimes about a period and rarely many.
func (h *history) forward() {
	switch p := h.IntN(100); {
	case p < 15:
	case p < 25:
		h.now++
	case p < 85:
		h.now += h.Int64N(2*h.pace + 1)
	case p < 97:
		h.now += h.Int64N(h.span + 1)
	case p < 99:
		h.now += h.Int64N(5*h.span + 1)
	default:
		h.now += h.Int64N(1000) * h.span / 10
	}
}

// jump moves the clock, also back, by a little or by periods.
func (h *history) jump() {
	if h.IntN(20) > 0 {
		h.forward()
		return
	}
	switch h.IntN(4) {
	case 0:
		h.now -= h.Int64N(h.pace + 1)
	case 1:
		h.now -= h.Int64N(h.span + 1)
	case 2:
		h.now -= h.Int64N(5*h.span + 1)
	case 3:
		h.now += h.Int64N(5*h.span+1) * (1 - 2*h.Int64N(2)) * 10
	}
}

// amount draws how much is asked: mostly 1, at most n.
func (h *history) amount(n int64) int64 {
	switch h.IntN(10) {
	case 0:
		return 1 + h.Int64N(n)
	case 1, 2:
		return min(n, 1+h.Int64N(5))
	}
	return 1
}

// drawLimit draws a valid limit of an algorithm with a capacity that a history
// of thousands of steps can exhaust.
func drawLimit(t *rapid.T, a Algorithm) Limit {
	l := Limit{
		Algorithm: a,
		Tokens:    rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1000)).Draw(t, "tokens"),
		Per: rapid.OneOf(
			rapid.Map(rapid.Int64Range(1000, 5_000_000), func(us int64) time.Duration { return time.Duration(us) * time.Microsecond }),
			rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 17 * time.Minute, time.Hour, day, 30 * day, MaxPer}),
		).Draw(t, "per"),
	}
	if a == TokenBucket {
		l.Burst = rapid.Int64Range(0, 30).Draw(t, "burst")
	}
	if err := l.Validate(); err != nil {
		l.Tokens, l.Burst = 1, 1
	}
	return l
}

var algorithms = []Algorithm{TokenBucket, FixedWindow, SlidingWindow, SlidingLog}

// each runs a property for every algorithm.
func each(t *testing.T, property func(t *rapid.T, a Algorithm)) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, a) })
		})
	}
}
