package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

// An admission is what was granted at a moment.
type admission struct {
	at time.Time
	n  int64
}

// A world is a store under test whose randomness and clock rapid drives.
type world struct {
	clock  storetest.Clock
	store  *Store
	limit  sluice.Limit
	shards int
	past   []admission
}

func newWorld(t *rapid.T) *world {
	w := &world{limit: drawLimit(t)}
	w.shards = rapid.IntRange(2, int(min(12, w.limit.Capacity()))).Draw(t, "shards")
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	w.store = newStore(memory.New(memory.Options{Now: w.clock.Now}), random.IntN)
	return w
}

func drawLimit(t *rapid.T) sluice.Limit {
	limit := sluice.Limit{
		Tokens:    rapid.Int64Range(2, 60).Draw(t, "tokens"),
		Per:       time.Duration(rapid.Int64Range(1, 5000).Draw(t, "per")) * time.Millisecond,
		Algorithm: rapid.SampledFrom([]sluice.Algorithm{sluice.TokenBucket, sluice.FixedWindow, sluice.SlidingWindow, sluice.SlidingLog}).Draw(t, "algorithm"),
	}
	if limit.Algorithm == sluice.TokenBucket {
		limit.Burst = rapid.Int64Range(2, 60).Draw(t, "burst")
	}
	return limit
}

func (w *world) take(t *rapid.T, n, unit int64) sluice.Decision {
	c := sluice.Charge{Key: "key", Limit: w.limit, N: n, Unit: unit, Shards: w.shards}
	got, err := w.store.Take(context.Background(), nil, []sluice.Charge{c})
	if err != nil {
		t.Fatal(err)
	}
	d := got[0]
	checkSound(t, &c, &d)
	if d.Granted > 0 {
		w.past = append(w.past, admission{w.clock.Now(), d.Granted})
	}
	return d
}

// checkSound checks what holds of every decision.
func checkSound(t *rapid.T, c *sluice.Charge, d *sluice.Decision) {
	switch {
	case d.Limit != c.Limit.Capacity(), d.Remaining < 0, d.Remaining > d.Limit,
		d.RetryAfter < 0, d.ResetAfter < 0, d.Granted < 0, d.Granted > c.N,
		c.N > 0 && !d.Allowed && d.RetryAfter == 0,
		c.N == d.Granted && d.Allowed && d.RetryAfter != 0,
		!d.Allowed && d.Granted != 0,
		c.Unit > 0 && d.Granted%c.Unit != 0,
		c.Unit == 0 && d.Granted != 0 && d.Granted != c.N:
		t.Fatalf("Take(%+v) = %+v, which no decision may be", *c, *d)
	}
}

// draw asks for an amount, mostly a small one.
func (w *world) draw(t *rapid.T) sluice.Decision {
	most := w.limit.Capacity()
	if rapid.Bool().Draw(t, "small") {
		most = min(most, 3)
	}
	n, unit := rapid.Int64Range(0, most).Draw(t, "n"), int64(0)
	if n > 1 && rapid.IntRange(0, 3).Draw(t, "units") == 0 {
		unit = rapid.Int64Range(1, n).Draw(t, "unit")
	}
	return w.take(t, n, unit)
}

// TestNeverOver: whatever is asked and whenever, every window admits at most what
// the limit does in one piece.
func TestNeverOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.clock.Advance(time.Duration(rapid.Int64Range(0, int64(w.limit.Per)/8).Draw(t, "wait")))
			w.draw(t)
		}
		for to := range w.past {
			total := int64(0)
			for from := to; from >= 0; from-- {
				total += w.past[from].n
				if most := mostIn(w.limit, w.past[from].at, w.past[to].at); total > most {
					t.Fatalf("%v in %d shards admitted %d in %v, at most %d may pass",
						w.limit, w.shards, total, w.past[to].at.Sub(w.past[from].at), most)
				}
			}
		}
	})
}

// mostIn returns what a limit in one piece may admit from one moment to another.
func mostIn(l sluice.Limit, from, to time.Time) int64 {
	span := to.Sub(from)
	switch l.Algorithm {
	case sluice.TokenBucket:
		return l.Burst + int64(span)*l.Tokens/int64(l.Per)
	case sluice.SlidingLog:
		return l.Tokens * (1 + int64(span/l.Per))
	case sluice.FixedWindow:
		windows := to.UnixNano()/int64(l.Per) - from.UnixNano()/int64(l.Per) + 1
		return l.Tokens * windows
	}
	return l.Tokens * (2 + int64(span/l.Per))
}

// TestPeeksAreExact: while no token comes back, a peek tells to the token what was
// not granted and what was given back.
func TestPeeksAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.limit.Per = 300 * 24 * time.Hour
		if w.limit.Algorithm == sluice.TokenBucket {
			w.limit.Tokens = w.limit.Burst * 2 // fills in half a period
		}
		used := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := w.draw(t)
			used += d.Granted
			if d.Granted > 0 && rapid.IntRange(0, 3).Draw(t, "back") == 0 {
				used -= w.giveBack(t, d)
			}
			if d := w.take(t, 0, 0); d.Remaining != w.limit.Capacity()-used || !d.Allowed || d.RetryAfter != 0 {
				t.Fatalf("%v in %d shards: peek %+v after %d were used", w.limit, w.shards, d, used)
			}
		}
	})
}

// giveBack gives back a part of a whole grant, or all of it.
func (w *world) giveBack(t *rapid.T, d sluice.Decision) int64 {
	if d.RetryAfter != 0 {
		return 0 // of a part: the unit is not known here
	}
	n := rapid.Int64Range(1, d.Granted).Draw(t, "n back")
	c := sluice.Charge{Key: "key", Limit: w.limit, N: -n, Shards: w.shards}
	if d.Granted > w.limit.Capacity()/int64(w.shards) {
		return 0 // whether in units is not known here
	}
	if err := w.store.Settle(context.Background(), []sluice.Settlement{{Charge: c, From: d}}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTheWaitIsTruthful: whoever waits that long, alone, passes, whichever shards
// the next call asks.
func TestTheWaitIsTruthful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.clock.Advance(time.Duration(rapid.Int64Range(0, int64(w.limit.Per)/8).Draw(t, "wait")))
			n := rapid.Int64Range(1, w.limit.Capacity()).Draw(t, "n")
			d := w.take(t, n, 0)
			if d.Allowed {
				continue
			}
			w.clock.Advance(d.RetryAfter)
			if again := w.take(t, n, 0); !again.Allowed {
				t.Fatalf("%v in %d shards: %d refused with %+v, and again after the wait with %+v", w.limit, w.shards, n, d, again)
			}
		}
	})
}

// TestGroupsConserve: a group takes all of its charges or none, with and without
// shards.
func TestGroupsConserve(t *testing.T) {
	limit := sluice.Limit{Tokens: 30, Per: 1000 * time.Hour, Algorithm: sluice.FixedWindow}
	shards := []int{1, 2, 3, 10}
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		s := newStore(memory.New(memory.Options{}), random.IntN)
		used := make([]int64, len(shards))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var charges []sluice.Charge
			for i, n := range shards {
				if rapid.Bool().Draw(t, "in") {
					c := sluice.Charge{Key: fmt.Sprint("key", i), Limit: limit, Shards: n, N: rapid.Int64Range(0, 8).Draw(t, "n"), Group: rapid.IntRange(0, 1).Draw(t, "group")}
					charges = append(charges, c)
				}
			}
			got, err := s.Take(context.Background(), nil, charges)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				c := &charges[i]
				checkSound(t, c, &got[i])
				used[c.Key[3]-'0'] += got[i].Granted
				if i > 0 && c.Group == charges[i-1].Group && c.N > 0 && charges[i-1].N > 0 && (got[i].Granted > 0) != (got[i-1].Granted > 0) {
					t.Fatalf("Take(%+v) = %+v: a group in part", charges, got)
				}
			}
		}
		for i, n := range shards {
			got, err := s.Take(context.Background(), nil, []sluice.Charge{{Key: fmt.Sprint("key", i), Limit: limit, Shards: n}})
			if err != nil || got[0].Remaining != 30-used[i] {
				t.Fatalf("key %d: %+v, error %v, after %d were granted of 30", i, got, err, used[i])
			}
		}
	})
}

// TestLittleIsRefusedEarly: with even traffic over the limit nearly all of it is
// admitted, and under the limit next to nothing is refused.
func TestLittleIsRefusedEarly(t *testing.T) {
	for _, tt := range []struct {
		offered float64 // of the limit
		burst   int64
		least   float64 // admitted, of what a limit in one piece admits
	}{
		{0.9, 1000, 0.999},
		{1.1, 1000, 0.99},
		{2, 1000, 0.999},
		{1.1, 100, 0.99},
		{2, 100, 0.99},
	} {
		var clock storetest.Clock
		random := rand.New(rand.NewPCG(7, 7))
		sharded := newStore(memory.New(memory.Options{Now: clock.Now}), random.IntN)
		limit := sluice.Limit{Tokens: 1000, Per: time.Second, Burst: tt.burst}
		admitted := make(map[int]int64)
		for range 20_000 {
			clock.Advance(time.Duration(random.ExpFloat64() / tt.offered * float64(time.Millisecond)))
			for _, shards := range []int{1, 10} {
				got, err := sharded.Take(t.Context(), nil, []sluice.Charge{{Key: fmt.Sprint(shards), Limit: limit, N: 1, Shards: shards}})
				if err != nil {
					t.Fatal(err)
				}
				admitted[shards] += got[0].Granted
			}
		}
		ratio := float64(admitted[10]) / float64(admitted[1])
		t.Logf("offered %.1f of the limit, burst %d: %.4f of what one counter admits", tt.offered, tt.burst, ratio)
		if ratio < tt.least || ratio > 1 {
			t.Errorf("offered %.1f of the limit, burst %d: admitted %.4f of what one counter does, want at least %.3f", tt.offered, tt.burst, ratio, tt.least)
		}
	}
}
