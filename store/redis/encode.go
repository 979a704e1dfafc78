package redis

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/sluice-limiter/sluice"
)

// The kinds of a record, as take.lua names them.
const (
	kindBucket = iota
	kindFixed
	kindSliding
	kindLog
	kindCalendar
)

// The flags of a record.
const (
	flagGroup  = 1 // begins a group
	flagSettle = 2 // the group settles
)

// A request is one call of the script being put together. Its slices are used
// again; the strings that it hands out are not.
type request struct {
	mode      string
	keys      []string
	args      []string
	meters    []sluice.Meter
	index     []uint16 // of each charge: its key
	calendars []sluice.Calendar
	clock     int64 // this machine's, in Unix microseconds, if it is to decide; else 0

	text    []byte // the keys' text, cut into keys afterwards
	ends    []int
	records []byte
}

// encode puts a call together.
func (r *request) encode(prefix string, charges []sluice.Charge) error {
	r.reset()
	simple := true
	for i := range charges {
		c := &charges[i]
		m, err := c.Limit.Meter()
		if err != nil {
			return err
		}
		r.meters = append(r.meters, m)
		r.text = appendKey(r.text, prefix, c)
		r.ends = append(r.ends, len(r.text))
		simple = simple && c.Limit.Algorithm == sluice.TokenBucket
	}
	if shared := r.cutKeys(); shared || !simple {
		r.mode = "g"
		r.general(charges)
	} else {
		r.mode = "b"
		r.buckets(charges)
	}
	r.finish()
	return nil
}

// finish makes the arguments of what was packed. Calendars are sent as the
// windows around this machine's time, which reach two windows to either side;
// the time that decides chooses among them.
func (r *request) finish() {
	around := int64(0)
	if len(r.calendars) > 0 {
		around = sluice.Ticks(time.Now())
	}
	r.arguments(around)
}

// arguments puts the arguments together, with calendars as the windows around a
// store time.
func (r *request) arguments(around int64) {
	mode := r.mode
	if r.clock != 0 {
		mode = callersTime[mode]
	}
	r.args = append(r.args[:0], mode, string(r.records))
	for _, calendar := range r.calendars {
		r.args = append(r.args, packCalendar(calendar, around))
	}
	if r.clock != 0 {
		r.args = append(r.args, strconv.FormatInt(r.clock, 10))
	}
}

// callersTime names the modes of the script that are sent this machine's time.
var callersTime = map[string]string{"b": "B", "g": "G"}

func (r *request) reset() {
	r.keys, r.args, r.meters, r.index = r.keys[:0], r.args[:0], r.meters[:0], r.index[:0]
	r.calendars, r.text, r.ends, r.records = r.calendars[:0], r.text[:0], r.ends[:0], r.records[:0]
}

// cutKeys makes the list of keys, each once, and says whether any was named
// twice. All are cut from one string.
func (r *request) cutKeys() (shared bool) {
	text, start := string(r.text), 0
	var seen map[string]uint16
	if len(r.ends) > 16 {
		seen = make(map[string]uint16, len(r.ends))
	}
	for _, end := range r.ends {
		key := text[start:end]
		start = end
		i, ok := r.find(key, seen)
		if !ok {
			i = uint16(len(r.keys))
			r.keys = append(r.keys, key)
			if seen != nil {
				seen[key] = i
			}
		}
		shared = shared || ok
		r.index = append(r.index, i)
	}
	return shared
}

func (r *request) find(key string, seen map[string]uint16) (uint16, bool) {
	if seen != nil {
		i, ok := seen[key]
		return i, ok
	}
	for i, k := range r.keys {
		if k == key {
			return uint16(i), true
		}
	}
	return 0, false
}

// buckets packs charges on token buckets, no two on one.
func (r *request) buckets(charges []sluice.Charge) {
	for i := range charges {
		c, m := &charges[i], &r.meters[i]
		ends := byte(0)
		if i+1 == len(charges) || charges[i+1].Group != c.Group {
			ends = 1
		}
		r.records = append(r.records, ends)
		r.float(whole(c))
		r.float(unit(c))
		r.float(m.Interval())
		r.float(m.Capacity())
	}
}

// general packs charges of any kind.
func (r *request) general(charges []sluice.Charge) {
	for i := range charges {
		c := &charges[i]
		flags := byte(0)
		if i == 0 || c.Group != charges[i-1].Group {
			flags = flagGroup
		}
		r.record(i, flags, whole(c), unit(c), &c.Limit)
	}
}

// record packs one record of the general mode.
func (r *request) record(i int, flags byte, n, unit int64, l *sluice.Limit) {
	kind, a := r.kind(i, l)
	r.records = binary.LittleEndian.AppendUint16(r.records, r.index[i]+1)
	r.records = append(r.records, kind, flags)
	r.float(n)
	r.float(unit)
	r.float(a)
	r.float(r.meters[i].Capacity())
}

// kind returns a limit's kind and what the script computes with for it.
func (r *request) kind(i int, l *sluice.Limit) (kind byte, a int64) {
	switch {
	case l.Calendar != sluice.Calendar{}:
		return kindCalendar, r.calendar(l.Calendar)
	case l.Algorithm == sluice.FixedWindow:
		return kindFixed, l.Per.Microseconds()
	case l.Algorithm == sluice.SlidingWindow:
		return kindSliding, l.Per.Microseconds()
	case l.Algorithm == sluice.SlidingLog:
		return kindLog, l.Per.Microseconds()
	}
	return kindBucket, r.meters[i].Interval()
}

// calendar returns the number of the script's argument that holds a calendar.
func (r *request) calendar(c sluice.Calendar) int64 {
	for i, known := range r.calendars {
		if known == c {
			return int64(i) + 3
		}
	}
	r.calendars = append(r.calendars, c)
	return int64(len(r.calendars)) + 2
}

func (r *request) float(n int64) {
	r.records = binary.LittleEndian.AppendUint64(r.records, math.Float64bits(float64(n)))
}

func unit(c *sluice.Charge) int64 {
	if c.Unit != 0 {
		return c.Unit
	}
	return c.N
}

// whole returns the amount in whole units, the most that can be granted.
func whole(c *sluice.Charge) int64 {
	if c.Unit != 0 {
		return c.N - c.N%c.Unit
	}
	return c.N
}

// appendKey writes the name under which a charge's state is stored:
//
//	rl:b:KEY                token bucket
//	rl:{TAG}b:KEY           with a hash tag
//	rl:f60000000:KEY        fixed window of a minute
//	rl:dEurope/Berlin:KEY   calendar day
//
// The kind is part of the name, so that a changed algorithm or window starts
// clean. Different charges never have one name: the prefix is the store's, a tag
// cannot hold a closing brace, and a kind no colon.
func appendKey(b []byte, prefix string, c *sluice.Charge) []byte {
	b = append(b, prefix...)
	b = append(b, ':')
	if c.Tag != "" {
		b = append(b, '{')
		b = appendTag(b, c.Tag)
		b = append(b, '}')
	}
	b = appendKind(b, &c.Limit)
	b = append(b, ':')
	return append(b, c.Key...)
}

// appendTag writes a tag so that a cluster takes all of it for the tag.
func appendTag(b []byte, tag string) []byte {
	for i := range len(tag) {
		switch tag[i] {
		case '%':
			b = append(b, "%25"...)
		case '}':
			b = append(b, "%7D"...)
		default:
			b = append(b, tag[i])
		}
	}
	return b
}

func appendKind(b []byte, l *sluice.Limit) []byte {
	switch {
	case l.Calendar.Unit == sluice.CalendarDay:
		return append(append(b, 'd'), l.Calendar.Zone...)
	case l.Calendar.Unit == sluice.CalendarMonth:
		return append(append(b, 'm'), l.Calendar.Zone...)
	case l.Algorithm == sluice.FixedWindow:
		b = append(b, 'f')
	case l.Algorithm == sluice.SlidingWindow:
		b = append(b, 'w')
	case l.Algorithm == sluice.SlidingLog:
		b = append(b, 'l')
	default:
		return append(b, 'b')
	}
	return strconv.AppendInt(b, l.Per.Microseconds(), 10)
}

// windowsSent is how many windows of a calendar travel with a call: two before
// that of the time they are made for, and two after.
const windowsSent = 5

// packCalendar packs five windows around a store time: the number of the first,
// which counts days or months, and the start of each.
func packCalendar(c sluice.Calendar, now int64) string {
	var starts [windowsSent]int64
	starts[2], starts[3] = c.Window(now)
	_, starts[4] = c.Window(starts[3])
	starts[1], _ = c.Window(starts[2] - 1)
	starts[0], _ = c.Window(starts[1] - 1)
	b := make([]byte, 0, 8*(windowsSent+1))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(c.Number(starts[0]))))
	for _, start := range starts {
		micros := float64(sluice.TicksTime(start).UnixMicro())
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(micros))
	}
	return string(b)
}
