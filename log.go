package sluice

import "sort"

// A sliding log keeps the time of every token of the last period. Times are
// counted in quanta, a microsecond for periods up to 17 minutes, and rounded
// up, so that an entry never leaves early. Only the low 32 bits of each are
// stored: the full time follows from the age against the newest, which is
// known in full and at most two periods, or 2^31 quanta, older.

// Quantum returns the ticks of a sliding log's unit of time.
func (m *Meter) Quantum() int64 {
	return ceilDiv(m.span/ticksPerMicro, 1<<30) * ticksPerMicro
}

// logStamp returns the time, in quanta, under which a token taken now is kept.
// After a clock that was set back by up to a period, stored time stands still;
// further back, the log moves with the clock.
func (m *Meter) logStamp(s *State, now int64) int64 {
	quantum := m.Quantum()
	stamp := ceilDiv(now, quantum)
	if newest := s.Time / quantum; len(s.Log) > 0 && newest > stamp && !m.ahead(s, now) {
		return newest
	}
	return stamp
}

// ahead says whether the log's newest entry lies further ahead than any entry
// made at or before now can: the clock was set back by more than a period.
func (m *Meter) ahead(s *State, now int64) bool {
	return len(s.Log) > 0 && s.Time-now > m.span+m.Quantum()
}

// newest returns the time of the newest entry in quanta as it counts now.
func (m *Meter) newest(s *State, now int64) int64 {
	if m.ahead(s, now) {
		return ceilDiv(now, m.Quantum())
	}
	return s.Time / m.Quantum()
}

// leaves returns when the entry at index i leaves the log, in ticks.
func (m *Meter) leaves(s *State, now int64, i int) int64 {
	age := int64(uint32(s.Time/m.Quantum()) - s.Log[i])
	return (m.newest(s, now)-age)*m.Quantum() + m.span
}

// dead returns how many of the oldest entries have left.
func (m *Meter) dead(s *State, now int64) int {
	return sort.Search(len(s.Log), func(i int) bool { return m.leaves(s, now, i) > now })
}

func (m *Meter) logRoom(s *State, now int64) int64 {
	return max(0, m.capacity-int64(len(s.Log)-m.dead(s, now)))
}

func (m *Meter) logWait(s *State, now, n int64) int64 {
	dead := m.dead(s, now)
	over := int64(len(s.Log)-dead) + n - m.capacity
	if over <= 0 {
		return 0
	}
	return m.leaves(s, now, dead+int(over)-1) - now
}

func (m *Meter) logReset(s *State, now int64) int64 {
	if len(s.Log) == 0 {
		return 0
	}
	return max(0, m.leaves(s, now, len(s.Log)-1)-now)
}

// logRepair moves a log that lies too far ahead to now, entry by entry.
func (m *Meter) logRepair(s *State, now int64) {
	if !m.ahead(s, now) {
		return
	}
	newest := m.newest(s, now)
	back := uint32(s.Time/m.Quantum()) - uint32(newest)
	for i := range s.Log {
		s.Log[i] -= back
	}
	s.Time = newest * m.Quantum()
}

func (m *Meter) logTake(s *State, now, n int64) {
	m.logRepair(s, now)
	s.Log = s.Log[m.dead(s, now):]
	stamp := m.logStamp(s, now)
	for range n {
		s.Log = append(s.Log, uint32(stamp))
	}
	s.Time = stamp * m.Quantum()
}

// logCharge keeps the newest of what would be more than the capacity, or more
// than what a lowered limit has left over it.
func (m *Meter) logCharge(s *State, now, n int64) {
	m.logTake(s, now, n)
	if over := min(n, int64(len(s.Log))-m.capacity); over > 0 {
		s.Log = s.Log[over:]
	}
}

// logGiveBack removes up to n entries of the time at. What a clock set back has
// left ahead is no longer known by its time, and stays.
func (m *Meter) logGiveBack(s *State, now, n, at int64) {
	quantum := m.Quantum()
	age := s.Time/quantum - at/quantum
	if m.ahead(s, now) || age < 0 || age > 1<<31 {
		return
	}
	stamp := uint32(at / quantum)
	from := sort.Search(len(s.Log), func(i int) bool {
		return int64(uint32(s.Time/quantum)-s.Log[i]) <= age
	})
	to := from
	for to < len(s.Log) && s.Log[to] == stamp && int64(to-from) < n {
		to++
	}
	s.Log = append(s.Log[:from], s.Log[to:]...)
}
