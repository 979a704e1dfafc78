package sluice

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are the words for a period, each with what it means. A month is 30 days
// and a year 365 unless the limit has a calendar.
var units = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "millisecond": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour,
	"d": day, "day": day,
	"w": 7 * day, "week": 7 * day,
	"mo": 30 * day, "month": 30 * day,
	"y": 365 * day, "year": 365 * day,
}

const day = 24 * time.Hour

// parsePeriod reads "s", "15m", "1h30m", "2days" or "month".
func parsePeriod(s string) (time.Duration, error) {
	bad := fmt.Errorf("period %q: want a unit such as s, min, h, day, week or month, with a whole number before it if need be, as in 15m", clip(s))
	if s == "" {
		return 0, bad
	}
	var total time.Duration
	for rest := s; rest != ""; {
		n, word, tail := cutUnit(rest)
		unit, ok := lookupUnit(word)
		if !ok || n < 1 {
			return 0, bad
		}
		if time.Duration(n) > MaxPer/unit || total > MaxPer-time.Duration(n)*unit {
			return 0, fmt.Errorf("period %q: want at most %s", clip(s), spoken(MaxPer))
		}
		total += time.Duration(n) * unit
		rest = tail
	}
	return total, nil
}

// cutUnit parts the first number and unit of a period: "1h30m" gives 1, "h" and
// "30m". A missing number is 1; one too large for any period is 0.
func cutUnit(s string) (n int64, word, tail string) {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	digits := len(s) - len(strings.TrimLeftFunc(s, isDigit))
	n = 1
	if digits > 0 {
		n, _ = strconv.ParseInt(s[:digits], 10, 64)
		if n == math.MaxInt64 {
			n = MaxTokens * int64(time.Millisecond)
		}
	}
	word = s[digits:]
	if end := strings.IndexFunc(word, isDigit); end >= 0 {
		word, tail = word[:end], word[end:]
	}
	return n, word, tail
}

func lookupUnit(word string) (time.Duration, bool) {
	if unit, ok := units[word]; ok {
		return unit, true
	}
	word = strings.ToLower(word)
	if singular, ok := strings.CutSuffix(word, "s"); ok && len(singular) > 2 {
		word = singular
	}
	if len(word) < 2 {
		return 0, false
	}
	unit, ok := units[word]
	return unit, ok
}

// ParseCalendarUnit reads the period of a limit with a calendar: a day or a
// month, in any of the spellings that [ParseLimit] takes.
func ParseCalendarUnit(period string) (CalendarUnit, bool) {
	switch per, _ := lookupUnit(period); per {
	case day:
		return CalendarDay, true
	case 30 * day:
		return CalendarMonth, true
	}
	return CalendarNone, false
}

// spoken writes a period for people, "366 days", where formatPeriod writes what
// can be read back.
func spoken(d time.Duration) string {
	return strings.Replace(formatPeriod(d), "days", " days", 1)
}

// formatPeriod writes a period by the largest unit that divides it.
func formatPeriod(d time.Duration) string {
	for _, u := range [...]struct {
		word string
		unit time.Duration
	}{
		{"day", day},
		{"h", time.Hour},
		{"m", time.Minute},
		{"s", time.Second},
		{"ms", time.Millisecond},
		{"us", time.Microsecond},
	} {
		if d >= u.unit && d%u.unit == 0 {
			if n := d / u.unit; n > 1 {
				if u.unit == day {
					return strconv.FormatInt(int64(n), 10) + "days"
				}
				return strconv.FormatInt(int64(n), 10) + u.word
			}
			return u.word
		}
	}
	return d.String()
}
