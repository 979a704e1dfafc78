package replay

import (
	"cmp"
	"slices"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// A tally counts what one limit said, by key, exactly for as many keys as it
// may hold; keys that come later are counted together.
type tally struct {
	limit     *policy.Limit
	maxKeys   int
	index     map[string]int32
	keys      []string
	counts    []count // beside keys
	all       count
	other     count // of keys beyond maxKeys
	unlimited int64
	calendar  calendarWindow
	text      []byte // scratch
}

// A count is what is known of one key.
type count struct {
	allowed, refused int64
	first            int64 // time of the first refusal, Unix nanoseconds
	period           int64 // the period that asked is of
	asked            int64 // tokens asked in the period
	peak             int64 // the most tokens asked in a period
}

func newTally(limit *policy.Limit, maxKeys int) *tally {
	return &tally{limit: limit, maxKeys: maxKeys, index: map[string]int32{}}
}

// add counts one answer of the limit.
func (t *tally) add(r *policy.Result, read *attributes, now int64) {
	c := &t.other
	if i, ok := t.find(read); ok {
		c = &t.counts[i]
	}
	period := t.period(&r.Effective, now)
	for _, c := range [...]*count{c, &t.all} {
		if r.Decision.Allowed {
			c.allowed++
		} else {
			if c.refused == 0 {
				c.first = now
			}
			c.refused++
		}
		if c.period != period {
			c.period, c.asked = period, 0
		}
		c.asked += r.Cost
		c.peak = max(c.peak, c.asked)
	}
}

// find returns the number of the request's key; ok is false if it is beyond
// the keys that may be held.
func (t *tally) find(read *attributes) (i int, ok bool) {
	key := t.key(read)
	if i, ok := t.index[key]; ok {
		return int(i), true
	}
	if len(t.counts) >= t.maxKeys {
		return 0, false
	}
	t.index[key] = int32(len(t.counts))
	t.keys = append(t.keys, key)
	t.counts = append(t.counts, count{})
	return len(t.counts) - 1, true
}

// key returns the name of a counter for people: the value of a limit's one
// attribute as it is, or "tenant=shop-a|route=order".
func (t *tally) key(read *attributes) string {
	names := t.limit.Key
	if len(names) == 0 {
		return ""
	}
	if len(names) == 1 {
		return read.shown(names[0])
	}
	t.text = t.text[:0]
	for i, name := range names {
		if i > 0 {
			t.text = append(t.text, '|')
		}
		t.text = append(append(t.text, name...), '=')
		for _, c := range []byte(read.shown(name)) {
			switch c {
			case '|':
				t.text = append(t.text, "%7C"...)
			case '%':
				t.text = append(t.text, "%25"...)
			default:
				t.text = append(t.text, c)
			}
		}
	}
	return read.texts.get(t.text)
}

// period numbers the periods of a limit, aligned to the Unix epoch or to the
// calendar; never 0, which is the period of a new count.
func (t *tally) period(l *sluice.Limit, now int64) int64 {
	if l.Calendar != (sluice.Calendar{}) {
		return t.calendar.start(l.Calendar, now)<<1 | 1
	}
	per := int64(l.Per)
	return floorDiv(now, per)<<1 | 1
}

// A calendarWindow remembers the window met last.
type calendarWindow struct {
	of       sluice.Calendar
	from, to int64 // ticks
}

func (w *calendarWindow) start(c sluice.Calendar, now int64) int64 {
	ticks := sluice.Ticks(*logTime(now))
	if w.of != c || ticks < w.from || ticks >= w.to {
		w.of = c
		w.from, w.to = c.Window(ticks)
	}
	return w.from
}

// top returns the indices of the n keys with the most refusals, then the most
// requests, then in the order of their names.
func (t *tally) top(n int) []int {
	var best []int
	compare := func(a, b int) int {
		x, y := &t.counts[a], &t.counts[b]
		return cmp.Or(
			cmp.Compare(y.refused, x.refused),
			cmp.Compare(y.allowed, x.allowed),
			cmp.Compare(t.keys[a], t.keys[b]))
	}
	for i := range t.counts {
		if len(best) == n && compare(i, best[n-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, i, compare)
		best = slices.Insert(best, at, i)
		best = best[:min(n, len(best))]
	}
	return best
}
