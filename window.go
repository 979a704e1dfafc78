package sluice

// A view is what a state means at a moment: the window that the moment lies in
// and the tokens counted in it and in the one before.
type view struct {
	start, end  int64 // ticks
	count, prev int64
}

// Bounds returns the start and the end, in ticks, of the window of a fixed or
// sliding window that holds a store time.
func (m *Meter) Bounds(now int64) (start, end int64) { return m.bounds(now) }

// bounds returns the window that holds a store time. Windows are aligned to
// the Unix epoch, or to the calendar.
func (m *Meter) bounds(now int64) (start, end int64) {
	if m.calendar != (Calendar{}) {
		return m.calendar.Window(now)
	}
	span := m.span / ticksPerMicro
	unixMicros := floorDiv(now, ticksPerMicro) + epochMicros
	start = MicroTicks(floorDiv(unixMicros, span) * span)
	return start, start + m.span
}

// window reads a state. Three windows matter: the one of now; the one before,
// whose count becomes prev; and, when the clock was set back, the one after,
// in which stored time stands until the clock is there again. A state from
// further ahead is taken for one of now, so that stored time stands still for at
// most a window.
func (m *Meter) window(s *State, now int64) view {
	start, end := m.bounds(now)
	v := view{start: start, end: end}
	switch {
	case s.Count == 0 && s.Prev == 0:
		return v
	case s.Time < start:
		if m.algorithm == SlidingWindow && s.Time+m.span == start {
			v.prev = s.Count
		}
		return v
	case s.Time == end:
		v.start, v.end = s.Time, m.after(s.Time)
	}
	v.count, v.prev = s.Count, s.Prev
	return v
}

// after returns the end of the window that starts at a time.
func (m *Meter) after(start int64) int64 {
	if m.calendar != (Calendar{}) {
		_, end := m.calendar.Window(start)
		return end
	}
	return start + m.span
}

// put writes a view back.
func (s *State) put(v view) {
	s.Time, s.Count, s.Prev = v.start, v.count, v.prev
}

func (m *Meter) windowRoom(s *State, now int64) int64 {
	v := m.window(s, now)
	return max(0, m.capacity-v.count-m.weigh(&v, now))
}

// The weight of the window before is kept in at most 2^20 steps, so that a
// count of up to 2^32 times the steps stays below 2^53. It is rounded up.
const weightSteps = 1 << 20

// steps returns the length of one step in microseconds and the number of whole
// steps in a window.
func (m *Meter) steps() (step, number int64) {
	micros := m.span / ticksPerMicro
	step = ceilDiv(micros, weightSteps)
	return step, micros / step
}

// weigh returns the tokens of the window before that still count: its count by
// the part of it that a window ending now covers, rounded up. This is the
// estimate of the sliding window counter, as in Cloudflare's description of
// 2017 ("How we built rate limiting capable of scaling to millions of
// domains").
func (m *Meter) weigh(v *view, now int64) int64 {
	if m.algorithm != SlidingWindow || v.prev == 0 {
		return 0
	}
	step, number := m.steps()
	left := ceilDiv(m.span-max(0, now-v.start), ticksPerMicro)
	return ceilDiv(v.prev*min(number, ceilDiv(left, step)), number)
}

// lightAt returns the time in the window that starts at start from which the
// window before, with its count, weighs at most room.
func (m *Meter) lightAt(start, count, room int64) int64 {
	step, number := m.steps()
	if count == 0 {
		return start
	}
	light := room * number / count
	if light >= number {
		return start
	}
	return start + m.span - light*step*ticksPerMicro
}

func (m *Meter) windowWait(s *State, now, n int64) int64 {
	v := m.window(s, now)
	room := m.capacity - v.count - n
	switch {
	case m.algorithm == FixedWindow && room >= 0:
		return 0
	case m.algorithm == FixedWindow:
		return v.end - now
	case room >= 0 && m.weigh(&v, now) <= room:
		return 0
	case room >= 0:
		return m.lightAt(v.start, v.prev, room) - now
	}
	return m.lightAt(v.end, v.count, m.capacity-n) - now
}

func (m *Meter) windowReset(s *State, now int64) int64 {
	v := m.window(s, now)
	switch {
	case m.algorithm == SlidingWindow && v.count > 0:
		return v.end + m.span - now
	case v.count > 0 || m.weigh(&v, now) > 0:
		return v.end - now
	}
	return 0
}

func (m *Meter) windowTake(s *State, now, n int64) {
	v := m.window(s, now)
	v.count += n
	s.put(v)
}

func (m *Meter) windowCharge(s *State, now, n int64) {
	v := m.window(s, now)
	// What a lowered limit has left over the capacity is kept.
	v.count = max(v.count, min(m.capacity, v.count+n))
	s.put(v)
}

// windowRepair moves a state from further ahead than the next window into the
// window of now.
func (m *Meter) windowRepair(s *State, now int64) {
	if s.Count == 0 && s.Prev == 0 {
		return // nothing to move
	}
	if v := m.window(s, now); s.Time > v.start {
		s.put(v)
	}
}

// windowGiveBack lowers the count of the window that the tokens came from.
func (m *Meter) windowGiveBack(s *State, now, n, at int64) {
	v := m.window(s, now)
	from, _ := m.bounds(at)
	switch {
	case from == v.start:
		v.count = max(0, v.count-n)
	case m.algorithm == SlidingWindow && from+m.span == v.start:
		v.prev = max(0, v.prev-n)
	default:
		return
	}
	s.put(v)
}
