package sluice

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naiveUnits finds how many units a group can have by trying each number on
// copies of the states, charge after charge.
func naiveUnits(charges []Charge, meters []Meter, states []*State, now int64) int64 {
	most := int64(0)
	for i := range charges {
		most = max(most, charges[i].N)
	}
	for units := most; units > 0; units-- {
		if tryUnits(charges, meters, states, now, units) != nil {
			return units
		}
	}
	return 0
}

// tryUnits takes units of every charge on copies of the states, which it
// returns, or nil where one does not have them.
func tryUnits(charges []Charge, meters []Meter, states []*State, now, units int64) map[*State]*State {
	copies := map[*State]*State{}
	for _, s := range states {
		copies[s] = clone(s)
	}
	for i := range charges {
		n := units * charges[i].unit()
		if n == 0 {
			continue
		}
		if n > charges[i].N || n > meters[i].Room(copies[states[i]], now) {
			return nil
		}
		meters[i].Take(copies[states[i]], now, n)
	}
	return copies
}

// TestGroupsPassTogether compares random calls, with parts, peeks and keys
// named twice, against trying.
func TestGroupsPassTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []*key
		for range 4 {
			l := drawLimit(t, rapid.SampledFrom(algorithms).Draw(t, "algorithm"))
			l.Tokens, l.Burst = min(l.Tokens, 30), min(l.Burst, 30)
			keys = append(keys, newKey(t, l))
		}
		h := newHistory(t, &keys[0].meter, 0)
		for range min(h.steps, 300) {
			h.forward()
			charges, meters, states := drawGroup(h.Rand, keys)
			if CheckCharges(charges) != nil {
				continue
			}
			checkGroup(t, charges, meters, states, h.now)
		}
	})
}

// drawGroup draws the charges of one group.
func drawGroup(r *rand.Rand, keys []*key) (charges []Charge, meters []Meter, states []*State) {
	for range 1 + r.IntN(4) {
		i := r.IntN(len(keys))
		k := keys[i]
		c := Charge{Key: string(rune('a' + i)), Limit: k.limit, N: r.Int64N(4)}
		if c.N > 0 && r.IntN(2) == 0 {
			c.N = r.Int64N(20) + 1
			c.Unit = 1 + r.Int64N(min(c.N, 3))
		}
		charges, meters, states = append(charges, c), append(meters, k.meter), append(states, &k.state)
	}
	return charges, meters, states
}

func checkGroup(t *rapid.T, charges []Charge, meters []Meter, states []*State, now int64) {
	units := naiveUnits(charges, meters, states, now)
	before, after := tryUnits(charges, meters, states, now, 0), tryUnits(charges, meters, states, now, units)
	decisions := Decide(nil, charges, meters, states, now)
	all, asks := true, false
	for i, d := range decisions {
		if want := units * charges[i].unit(); d.Granted != want {
			t.Fatalf("%+v: charge %d has %d, want %d", charges, i, d.Granted, want)
		}
		all, asks = all && d.Allowed, asks || charges[i].N > 0
		if !d.Allowed && d.RetryAfter <= 0 {
			t.Fatalf("%+v: charge %d is refused without a wait", charges, i)
		}
	}
	if asks && all != (units > 0) {
		t.Fatalf("%+v: all allowed is %v with %d units", charges, all, units)
	}
	if units == 0 {
		after = before
	}
	for s, want := range after {
		if !same(s, want) {
			t.Fatalf("%+v: state is %+v, want %+v", charges, *s, *want)
		}
	}
	checkGroupRetry(t, charges, meters, states, now, decisions)
}

// checkGroupRetry fails unless a group that asks for more than it was granted
// has a unit more after the longest of its waits.
func checkGroupRetry(t *rapid.T, charges []Charge, meters []Meter, states []*State, now int64, decisions []Decision) {
	wait, more := time.Duration(0), true
	for i, d := range decisions {
		wait = max(wait, d.RetryAfter)
		more = more && d.Granted+charges[i].unit() <= charges[i].N
	}
	if more && wait > 0 && naiveUnits(charges, meters, states, now+durationTicks(wait)) == 0 {
		t.Fatalf("%+v: refused again after %v", charges, wait)
	}
}

func TestGroupsOfACallAreIndependent(t *testing.T) {
	full, empty := newKey(t, "5/s"), newKey(t, "1/s")
	empty.take(0, 1)
	charges := []Charge{
		{Key: "a", Limit: full.limit, N: 1, Group: 1},
		{Key: "b", Limit: empty.limit, N: 1, Group: 1},
		{Key: "a", Limit: full.limit, N: 2, Group: 2},
	}
	got := Decide(nil, charges, []Meter{full.meter, empty.meter, full.meter}, []*State{&full.state, &empty.state, &full.state}, 0)
	for i, want := range []Decision{
		{Allowed: true, Limit: 5, Remaining: 5},
		{Limit: 1, RetryAfter: time.Second, ResetAfter: time.Second},
		{Allowed: true, Granted: 2, Limit: 5, Remaining: 3, ResetAfter: 400 * time.Millisecond},
	} {
		if got[i] != want {
			t.Errorf("charge %d: %+v, want %+v", i, got[i], want)
		}
	}
}

// TestPartOfAGroupNamesTheWaitForOneUnitMore holds also for a key named twice,
// of which a unit needs two tokens.
func TestPartOfAGroupNamesTheWaitForOneUnitMore(t *testing.T) {
	k := newKey(t, "10/s")
	k.take(0, 5)
	c := Charge{Key: "a", Limit: k.limit, N: 9, Unit: 1}
	got := Decide(nil, []Charge{c, c}, []Meter{k.meter, k.meter}, []*State{&k.state, &k.state}, 0)
	for i, wait := range []time.Duration{0, 100 * time.Millisecond} {
		if d := got[i]; !d.Allowed || d.Granted != 2 || d.Remaining != 1 || d.RetryAfter != wait {
			t.Errorf("charge %d: %+v, want 2 granted, 1 remaining, a wait of %v", i, d, wait)
		}
	}
}
