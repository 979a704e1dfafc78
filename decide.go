package sluice

import "math"

// Decide answers the charges of one call in order, group by group, and changes
// the states of what passes. meters and states stand beside the charges; equal
// keys of one kind share one state. It appends one Decision for each charge to
// dst. This is the whole contract of [Store.Take] but for finding the states;
// the charges must have passed [CheckCharges].
func Decide(dst []Decision, charges []Charge, meters []Meter, states []*State, now int64) []Decision {
	for i := 0; i < len(charges); {
		j := i + 1
		for j < len(charges) && charges[j].Group == charges[i].Group {
			j++
		}
		dst = decideGroup(dst, charges[i:j], meters[i:j], states[i:j], now)
		i = j
	}
	return dst
}

// decideGroup finds the number of units that every charge of the group can
// have, and takes them if it is at least one.
func decideGroup(dst []Decision, charges []Charge, meters []Meter, states []*State, now int64) []Decision {
	first := len(dst)
	units := int64(math.MaxInt64)
	for i := range charges {
		c := &charges[i]
		d := Decision{Allowed: true, Limit: meters[i].capacity}
		if c.N > 0 {
			before, all := demand(charges, states, i)
			room := meters[i].Room(states[i], now)
			d.Allowed = room >= before+c.unit()
			units = min(units, c.N/c.unit(), room/all)
		}
		dst = append(dst, d)
	}
	decisions := dst[first:]
	for i := range charges {
		if charges[i].N == 0 {
			continue
		}
		if units > 0 {
			decisions[i].Granted = units * charges[i].unit()
			decisions[i].At = meters[i].Stamp(states[i], now)
			meters[i].Take(states[i], now, decisions[i].Granted)
		} else {
			meters[i].Repair(states[i], now)
		}
	}
	for i := range charges {
		finish(&decisions[i], charges, meters, states, i, now)
	}
	return dst
}

// demand returns the tokens that one unit of the group asks of the state of
// charge i: by the charges before it, and by all.
func demand(charges []Charge, states []*State, i int) (before, all int64) {
	for j := range charges {
		if states[j] != states[i] || charges[j].N == 0 {
			continue
		}
		all += charges[j].unit()
		if j < i {
			before += charges[j].unit()
		}
	}
	return before, all
}

// finish describes the state of charge i after the group.
func finish(d *Decision, charges []Charge, meters []Meter, states []*State, i int, now int64) {
	c, m, s := &charges[i], &meters[i], states[i]
	d.Remaining = m.Room(s, now)
	d.ResetAfter = TicksDuration(m.Reset(s, now))
	if d.Granted == 0 {
		d.At = m.Stamp(s, now)
	}
	if !d.Allowed || d.Granted > 0 && d.Granted < c.N {
		before, _ := demand(charges, states, i)
		d.RetryAfter = TicksDuration(m.Wait(s, now, before+c.unit()))
	}
}

// Correct applies a settlement to a state.
func Correct(s *State, settlement *Settlement, m *Meter, now int64) {
	if n := settlement.Charge.N; n > 0 {
		m.Charge(s, now, n)
	} else {
		m.GiveBack(s, now, -n, settlement.From)
	}
}
