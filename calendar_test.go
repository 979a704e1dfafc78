package sluice

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCalendarWindowsEndWhereTheZoneSays(t *testing.T) {
	for _, tt := range []struct {
		name       string
		calendar   Calendar
		now        string
		start, end string
	}{
		{
			"a UTC day",
			Calendar{Unit: CalendarDay},
			"2026-02-28T23:59:59.999999Z",
			"2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z",
		},
		{
			"the first tick of 2026 begins a day",
			Calendar{Unit: CalendarDay},
			"2026-01-01T00:00:00Z",
			"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z",
		},
		{
			"a day before 2026, as logs hold",
			Calendar{Unit: CalendarDay},
			"2015-05-17T10:05:03Z",
			"2015-05-17T00:00:00Z", "2015-05-18T00:00:00Z",
		},
		{
			"D66: a day of 23 hours",
			Calendar{CalendarDay, "America/New_York"},
			"2026-03-08T12:00:00-04:00",
			"2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00",
		},
		{
			"D66: a day of 25 hours",
			Calendar{CalendarDay, "America/New_York"},
			"2026-11-01T12:00:00-05:00",
			"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00",
		},
		{
			"D64: February has 28 days",
			Calendar{Unit: CalendarMonth},
			"2026-02-14T00:00:00Z",
			"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z",
		},
		{
			"D67: February of a leap year has 29",
			Calendar{Unit: CalendarMonth},
			"2028-02-29T23:00:00Z",
			"2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z",
		},
		{
			"December ends the year",
			Calendar{CalendarMonth, "Asia/Ho_Chi_Minh"},
			"2026-12-31T23:59:59+07:00",
			"2026-12-01T00:00:00+07:00", "2027-01-01T00:00:00+07:00",
		},
		{
			"a month with an hour less",
			Calendar{CalendarMonth, "Europe/Berlin"},
			"2026-03-20T00:00:00Z",
			"2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00",
		},
		{
			"the clocks skip midnight",
			Calendar{CalendarDay, "America/Sao_Paulo"},
			"2018-11-04T03:00:00Z",
			"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z",
		},
		{
			"before the clocks skip midnight",
			Calendar{CalendarDay, "Africa/Cairo"},
			"2026-04-23T21:59:59Z",
			"2026-04-22T22:00:00Z", "2026-04-23T22:00:00Z",
		},
		{
			"the clocks repeat the hour after midnight",
			Calendar{CalendarDay, "America/Havana"},
			"2026-11-01T05:30:00Z",
			"2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z",
		},
		{
			"the clocks repeat the hour before midnight",
			Calendar{CalendarDay, "America/Sao_Paulo"},
			"2018-02-18T02:30:00Z",
			"2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z",
		},
		{
			"a month shown twice stays begun",
			Calendar{CalendarMonth, "America/St_Johns"},
			"2009-11-01T02:45:00Z",
			"2009-11-01T02:30:00Z", "2009-12-01T03:30:00Z",
		},
		{
			"a zone without one of its days",
			Calendar{CalendarDay, "Pacific/Apia"},
			"2011-12-30T09:59:59Z",
			"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z",
		},
		{
			"the last day of a leap year by the zone's rule",
			Calendar{CalendarDay, "America/New_York"},
			"2040-12-31T12:00:00Z",
			"2040-12-31T05:00:00Z", "2041-01-01T05:00:00Z",
		},
		{
			"a zone that is unknown counts as UTC",
			Calendar{CalendarDay, "No/Where"},
			"2026-05-05T05:05:05Z",
			"2026-05-05T00:00:00Z", "2026-05-06T00:00:00Z",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start, end := tt.calendar.Window(Ticks(instant(t, tt.now)))
			if !TicksTime(start).Equal(instant(t, tt.start)) || !TicksTime(end).Equal(instant(t, tt.end)) {
				t.Errorf("Window(%s) = %v, %v, want %s, %s", tt.now, TicksTime(start).UTC(), TicksTime(end).UTC(), tt.start, tt.end)
			}
		})
	}
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestCalendarWindowsPartTime holds that windows follow each other without a
// gap, hold the time asked for, and begin where the date changes.
func TestCalendarWindowsPartTime(t *testing.T) {
	names := []string{
		"", "America/New_York", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Africa/Cairo", "Asia/Beirut",
		"Asia/Ho_Chi_Minh", "Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Dublin", "Pacific/Apia", "Pacific/Kiritimati",
	}
	rapid.Check(t, func(t *rapid.T) {
		c := Calendar{
			rapid.SampledFrom([]CalendarUnit{CalendarDay, CalendarMonth}).Draw(t, "unit"),
			rapid.SampledFrom(names).Draw(t, "zone"),
		}
		loc, err := time.LoadLocation(c.Zone)
		if err != nil {
			t.Fatal(err)
		}
		now := rapid.Int64Range(-30*366*ticksPerDay, 60*366*ticksPerDay).Draw(t, "now")
		for range 20 {
			start, end := c.Window(now)
			if start > now || end <= now || end-start < 20*ticksPerDay/24 {
				t.Fatalf("Window(%d) = %d, %d", now, start, end)
			}
			if s, e := c.Window(start); s != start || e != end {
				t.Fatalf("Window(%d) = %d, %d, and of its start %d, %d", now, start, end, s, e)
			}
			if s, e := c.Window(end - 1); s != start || e != end {
				t.Fatalf("Window(%d) = %d, %d, and of its last tick %d, %d", now, start, end, s, e)
			}
			if first, _ := c.Window(end); first != end {
				t.Fatalf("the window after %d, %d begins at %d", start, end, first)
			}
			if before, begun := TicksTime(start-1).In(loc), TicksTime(start).In(loc); before.Day() == begun.Day() {
				t.Fatalf("a window begins at %v, within a day", begun)
			}
			now = end + rapid.Int64Range(0, 2*(end-start)).Draw(t, "on")
		}
	})
}

func TestCalendarNumbersCountUp(t *testing.T) {
	for _, c := range []Calendar{{CalendarDay, "America/New_York"}, {CalendarMonth, "Africa/Cairo"}, {Unit: CalendarDay}} {
		start, end := c.Window(0)
		number := c.Number(start)
		for range 800 {
			start, end = c.Window(end)
			if next := c.Number(start); next != number+1 {
				t.Fatalf("%v: Number(%v) = %d after %d", c, TicksTime(start), next, number)
			}
			number++
		}
	}
	if got := (Calendar{Unit: CalendarMonth}).Number(0); got != 56*12 {
		t.Errorf("the number of January 2026 = %d, want %d", got, 56*12)
	}
}

func TestCalendarWindowAllocatesNothing(t *testing.T) {
	c := Calendar{CalendarMonth, "Europe/Berlin"}
	if got := testing.AllocsPerRun(100, func() { c.Window(12345) }); got != 0 {
		t.Errorf("Window allocates %v times", got)
	}
}
