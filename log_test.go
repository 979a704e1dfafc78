package sluice

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A logModel keeps every token with its full time: the sliding log as one would
// define it.
type logModel struct {
	limit   Limit
	quantum int64
	stamps  []int64 // in ticks, rounded up to a quantum
}

// live returns the tokens of the period that ends at a store time.
func (l *logModel) live(now int64) []int64 {
	return slices.DeleteFunc(slices.Clone(l.stamps), func(at int64) bool { return at+durationTicks(l.limit.Per) <= now })
}

func (l *logModel) take(now, n int64) {
	l.stamps = l.live(now)
	for range n {
		l.stamps = append(l.stamps, ceilDiv(now, l.quantum)*l.quantum)
	}
}

// TestSlidingLogIsItsModel holds also where the low 32 bits of a time wrap and
// for periods so long that many ticks share a quantum.
func TestSlidingLogIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t, SlidingLog)
		limit.Tokens = min(limit.Tokens, 50)
		k := newKey(t, limit)
		model := &logModel{limit: limit, quantum: k.meter.Quantum()}
		h := newHistory(t, &k.meter, rapid.SampledFrom([]int64{0, 1 << 32 * ticksPerMicro, -10 * 366 * ticksPerDay}).Draw(t, "from"))
		for range min(h.steps, 3000) {
			h.forward()
			n := h.amount(limit.Tokens)
			room := limit.Tokens - int64(len(model.live(h.now)))
			d := k.take(h.now, n)
			if d.Allowed != (room >= n) {
				t.Fatalf("%v: take(%d, %d) = %+v with room for %d", limit, h.now, n, d, room)
			}
			if d.Allowed {
				model.take(h.now, n)
				room -= n
			}
			if d.Remaining != room {
				t.Fatalf("%v: Remaining at %d = %d, want %d", limit, h.now, d.Remaining, room)
			}
			if h.IntN(50) == 0 && d.Allowed {
				// Take back what was just taken.
				k.settle(h.now, -n, d)
				model.stamps = model.stamps[:len(model.stamps)-int(n)]
			}
		}
	})
}

func TestSlidingLogKeepsFourBytesAToken(t *testing.T) {
	k := newKey(t, "1000/m sliding_log")
	for i := range int64(100_000) {
		k.take(i*ticksOf(10*time.Millisecond), 1)
	}
	if n, c := len(k.state.Log), cap(k.state.Log); n > 1000 || c > 4000 {
		t.Errorf("the log has %d entries in %d, want at most 1000 in a small multiple", n, c)
	}
}

func TestSlidingLogQuanta(t *testing.T) {
	for _, tt := range []struct {
		limit string
		want  int64
	}{
		{"5/s sliding_log", ticksPerMicro},
		{"5/17m sliding_log", ticksPerMicro},
		{"5/18m sliding_log", 2 * ticksPerMicro},
		{"5/366days sliding_log", 29451 * ticksPerMicro},
	} {
		if got := newKey(t, tt.limit).meter.Quantum(); got != tt.want {
			t.Errorf("%s: Quantum = %d, want %d", tt.limit, got, tt.want)
		}
	}
}

func TestSlidingLogOutlivesAgesOfIdleness(t *testing.T) {
	k := newKey(t, "5/s sliding_log")
	k.passes(0, 5)
	// A multiple of 2^32 quanta later the stored bits say "now".
	for _, idle := range []int64{1 << 32 * ticksPerMicro, 1 << 33 * ticksPerMicro, 5 * 366 * ticksPerDay} {
		if got := k.meter.Room(&k.state, idle); got != 5 {
			t.Errorf("after %v %d are left, want 5", TicksDuration(idle), got)
		}
	}
}
