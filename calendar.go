package sluice

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Calendar makes windows of the days or months of a time zone, right also on
// days of 23 and 25 hours. The zero value is no calendar.
type Calendar struct {
	// Unit is a day or a month.
	Unit CalendarUnit
	// Zone names the time zone as the IANA database does; empty means UTC.
	Zone string
}

// A CalendarUnit is what a [Calendar] counts in.
type CalendarUnit uint8

const (
	// CalendarNone is the unit of no calendar.
	CalendarNone CalendarUnit = iota
	// CalendarDay begins at the first instant of a local day.
	CalendarDay
	// CalendarMonth begins at the first instant of a local month.
	CalendarMonth
)

// String returns "day", "month" or, for the zero value, "none".
func (u CalendarUnit) String() string {
	switch u {
	case CalendarNone:
		return "none"
	case CalendarDay:
		return "day"
	case CalendarMonth:
		return "month"
	}
	return fmt.Sprintf("calendar unit(%d)", uint8(u))
}

func (c Calendar) validate() error {
	if c.Unit != CalendarDay && c.Unit != CalendarMonth {
		return fmt.Errorf("calendar unit is %v: want day or month", c.Unit)
	}
	_, err := c.zone()
	return err
}

// A zone is a location with the windows that were last asked for, which are
// nearly always the ones asked for next.
type zone struct {
	location   *time.Location
	day, month atomic.Pointer[span]
}

// A span is a window, from start to before end, in ticks.
type span struct{ start, end int64 }

// zones keeps every zone in use: the database on disk is read once a zone.
var zones sync.Map // string -> *zone

// zone returns the calendar's zone. One that cannot be loaded is an error, and
// counts as UTC.
func (c Calendar) zone() (*zone, error) {
	if z, ok := zones.Load(c.Zone); ok {
		return z.(*zone), nil
	}
	// "Local" would mean another zone on each machine. The empty name is UTC.
	loc, err := time.LoadLocation(c.Zone)
	if err != nil || c.Zone == "Local" {
		return &zone{location: time.UTC}, fmt.Errorf("calendar zone %q is unknown: want an IANA name such as Asia/Ho_Chi_Minh or UTC", c.Zone)
	}
	z, _ := zones.LoadOrStore(c.Zone, &zone{location: loc})
	return z.(*zone), nil
}

// Window returns the start and the end of the window that holds a store time.
// A zone that cannot be loaded, which Validate reports, counts as UTC.
func (c Calendar) Window(now int64) (start, end int64) {
	z, _ := c.zone()
	last := &z.day
	if c.Unit == CalendarMonth {
		last = &z.month
	}
	if w := last.Load(); w != nil && w.start <= now && now < w.end {
		return w.start, w.end
	}
	w := c.find(now, z.location)
	last.Store(&w)
	return w.start, w.end
}

// find returns the window that holds a store time.
func (c Calendar) find(now int64, loc *time.Location) span {
	year, month, day := TicksTime(now).In(loc).Date()
	edge := func(n int) int64 { return dayStart(year, month, day+n, loc) }
	if c.Unit == CalendarMonth {
		edge = func(n int) int64 { return dayStart(year, month+time.Month(n), 1, loc) }
	}
	// Where the clocks are set back over midnight a date is shown twice; the
	// window that has begun stays begun.
	n := 1
	for edge(n) <= now {
		n++
	}
	return span{edge(n - 1), edge(n)}
}

// dayStart returns the first instant whose local date is the given one or a
// later one. It reckons by the spans between changes of the zone's clocks, since
// these may skip or repeat midnight, or skip a whole day.
func dayStart(year int, month time.Month, day int, loc *time.Location) int64 {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	// No zone is a day from UTC: the date has not begun at the first span.
	for t := time.Unix(midnight-24*60*60, 0).In(loc); ; {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		first := max(t.Unix(), midnight-int64(offset))
		// On the last day of a leap year past its table a zone's span may end
		// before it begins; no clocks are changed there.
		if !end.IsZero() && !end.After(t) {
			end = t.Add(time.Hour)
		}
		if end.IsZero() || first < end.Unix() {
			return (first - epochSeconds) * ticksPerSecond
		}
		t = end
	}
}

// Number counts the days or months from the beginning of 1970 to the window that
// starts at a store time: one more for each window.
func (c Calendar) Number(start int64) int64 {
	z, _ := c.zone()
	year, month, day := TicksTime(start).In(z.location).Date()
	if c.Unit == CalendarMonth {
		return int64(year-1970)*12 + int64(month-1)
	}
	return floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), 24*60*60)
}
