package sluice

import (
	"fmt"
	"sync"
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
	_, err := c.location()
	return err
}

// zones keeps every location loaded: the database on disk is read once a zone.
var zones sync.Map // string -> *time.Location

func (c Calendar) location() (*time.Location, error) {
	if c.Zone == "" || c.Zone == "UTC" {
		return time.UTC, nil
	}
	if loc, ok := zones.Load(c.Zone); ok {
		return loc.(*time.Location), nil
	}
	// "Local" would mean another zone on each machine.
	loc, err := time.LoadLocation(c.Zone)
	if err != nil || c.Zone == "Local" {
		return nil, fmt.Errorf("calendar zone %q is unknown: want an IANA name such as Asia/Ho_Chi_Minh or UTC", c.Zone)
	}
	zones.Store(c.Zone, loc)
	return loc, nil
}

// Window returns the start and the end of the window that holds a store time.
// A zone that cannot be loaded, which Validate reports, counts as UTC.
func (c Calendar) Window(now int64) (start, end int64) {
	loc, err := c.location()
	if err != nil {
		loc = time.UTC
	}
	year, month, day := time.Unix(0, epochMicros*1000+floorDiv(now*125, 2)).In(loc).Date()
	if c.Unit == CalendarMonth {
		return dayStart(year, month, 1, loc), dayStart(year, month+1, 1, loc)
	}
	start, end = dayStart(year, month, day, loc), dayStart(year, month, day+1, loc)
	// Where the clocks are set back over midnight a date is shown twice; the
	// day that has begun stays begun.
	for end <= now {
		day++
		start, end = end, dayStart(year, month, day+1, loc)
	}
	return start, end
}

// dayStart returns the first instant of a local day. Where the clocks skip or
// repeat midnight, time.Date may answer an hour off, so the edge is looked for:
// the earliest instant near it whose date is that day or later.
func dayStart(year int, month time.Month, day int, loc *time.Location) int64 {
	noon := time.Date(year, month, day, 12, 0, 0, 0, loc)
	year, month, day = noon.Date()
	guess := time.Date(year, month, day, 0, 0, 0, 0, loc)
	begun := func(t time.Time) bool {
		y, m, d := t.Date()
		return y == year && m == month && d == day
	}
	if begun(guess) && !begun(guess.Add(-time.Nanosecond)) {
		return Ticks(guess)
	}
	lo, hi := noon.Add(-18*time.Hour), noon
	for hi.Sub(lo) > time.Microsecond {
		mid := lo.Add(hi.Sub(lo) / 2).Truncate(time.Microsecond)
		if !mid.After(lo) {
			break
		}
		if begun(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return Ticks(hi)
}

// Number counts the days or months from the beginning of 1970 to the window that
// starts at a store time: one more for each window.
func (c Calendar) Number(start int64) int64 {
	loc, err := c.location()
	if err != nil {
		loc = time.UTC
	}
	year, month, day := time.Unix(0, epochMicros*1000+floorDiv(start*125, 2)).In(loc).Date()
	if c.Unit == CalendarMonth {
		return int64(year-1970)*12 + int64(month-1)
	}
	return floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), 24*60*60)
}
