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

// zone is location for a calendar that Validate has passed; a zone that cannot
// be loaded counts as UTC.
func (c Calendar) zone() *time.Location {
	loc, err := c.location()
	if err != nil {
		return time.UTC
	}
	return loc
}

// Window returns the start and the end of the window that holds a store time.
// A zone that cannot be loaded, which Validate reports, counts as UTC.
func (c Calendar) Window(now int64) (start, end int64) {
	loc := c.zone()
	year, month, day := TicksTime(now).In(loc).Date()
	months, days := 0, 1
	if c.Unit == CalendarMonth {
		months, days, day = 1, 0, 1
	}
	start = dayStart(year, month, day, loc)
	end = dayStart(year, month+time.Month(months), day+days, loc)
	// Where the clocks are set back over midnight a date is shown twice; the
	// window that has begun stays begun.
	for n := 2; end <= now; n++ {
		start, end = end, dayStart(year, month+time.Month(n*months), day+n*days, loc)
	}
	return start, end
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
		if end.IsZero() || first < end.Unix() {
			return (first - epochSeconds) * ticksPerSecond
		}
		t = end
	}
}

// Number counts the days or months from the beginning of 1970 to the window that
// starts at a store time: one more for each window.
func (c Calendar) Number(start int64) int64 {
	year, month, day := TicksTime(start).In(c.zone()).Date()
	if c.Unit == CalendarMonth {
		return int64(year-1970)*12 + int64(month-1)
	}
	return floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), 24*60*60)
}
