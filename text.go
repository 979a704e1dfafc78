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
	"us": time.Microsecond, "µs": time.Microsecond,
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

// ParseLimit reads a limit as people write it: an amount per period, such as
// "100/s", "5/15m", "1000/day", "0.5/s", "1M/month" or "10 per second",
// optionally followed by "burst N", an algorithm, and "calendar ZONE", in the
// form that [Limit.String] writes. A fraction keeps its rate: "0.5/s" is 1 per
// 2 s. With a calendar the period is "day" or "month". The limit returned is
// valid.
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("limit %q: %w", clip(s), err)
	}
	return l, nil
}

// clip keeps an error message readable when the input is not.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}

func parseLimit(s string) (Limit, error) {
	amount, rest, ok := splitRate(s)
	if !ok {
		return Limit{}, fmt.Errorf("want an amount per period, such as 100/s, 5/15m or 1000/day")
	}
	tokens, divisor, err := parseAmount(amount)
	if err != nil {
		return Limit{}, err
	}
	period, options := splitPeriod(rest)
	l := Limit{Tokens: tokens}
	if err := l.parseOptions(options); err != nil {
		return Limit{}, err
	}
	if l.Calendar != (Calendar{}) {
		if err := l.useCalendar(period, divisor); err != nil {
			return Limit{}, err
		}
		return l, l.Validate()
	}
	per, err := parsePeriod(period)
	if err != nil {
		return Limit{}, err
	}
	if per > MaxPer/time.Duration(divisor) {
		return Limit{}, fmt.Errorf("rate is under 1 per %s, the longest period", formatPeriod(MaxPer))
	}
	l.Per = per * time.Duration(divisor)
	l.reduce(divisor)
	return l, l.Validate()
}

// splitRate parts the amount from the period.
func splitRate(s string) (amount, rest string, ok bool) {
	if amount, rest, ok = strings.Cut(s, "/"); ok {
		return strings.TrimSpace(amount), strings.TrimSpace(rest), true
	}
	amount, rest, ok = strings.Cut(s, " per ")
	return strings.TrimSpace(amount), strings.TrimSpace(rest), ok
}

// splitPeriod parts the period, which may be a number and a word, from the
// options behind it.
func splitPeriod(rest string) (period string, options []string) {
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", nil
	}
	period, fields = fields[0], fields[1:]
	if len(fields) > 0 && strings.Trim(period, "0123456789") == "" {
		period, fields = period+fields[0], fields[1:]
	}
	return period, fields
}

// reduce undoes the scaling of a fraction as far as the numbers allow, so that
// "0.50/s" and "0.5/s" are one limit.
func (l *Limit) reduce(divisor int64) {
	for _, p := range [...]int64{2, 5} {
		for divisor%p == 0 && l.Tokens%p == 0 {
			divisor, l.Tokens, l.Per = divisor/p, l.Tokens/p, l.Per/time.Duration(p)
		}
	}
}

// multiples are the suffixes of an amount. A small m is missing on purpose: it
// could be a million or a thousandth.
var multiples = map[byte]int64{'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9}

// parseAmount reads "100", "0.5", "1_000", "10k" or "100r", the last being how
// nginx counts requests, as tokens / divisor; divisor is a power of ten.
func parseAmount(s string) (tokens, divisor int64, err error) {
	digits := s
	for _, word := range [...]string{"requests", "request", "reqs", "req", "r"} {
		if cut, ok := strings.CutSuffix(digits, word); ok {
			digits = strings.TrimSpace(cut)
			break
		}
	}
	scale := int64(1)
	if n := len(digits); n > 0 && multiples[digits[n-1]] != 0 {
		scale, digits = multiples[digits[n-1]], digits[:n-1]
	}
	bad := fmt.Errorf("amount %q: want a number such as 100, 0.5, 10k or 1M", s)
	whole, fraction, dotted := strings.Cut(digits, ".")
	if whole == "" || dotted && fraction == "" || whole[0] == '_' || strings.HasSuffix(whole, "_") {
		return 0, 0, bad
	}
	fraction = strings.TrimRight(fraction, "0")
	whole = strings.ReplaceAll(whole, "_", "")
	if len(fraction) > 9 {
		return 0, 0, fmt.Errorf("amount %q: want at most 9 decimals", s)
	}
	if strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, 0, bad
	}
	tokens, err = strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("amount %q: want at most %d", s, int64(MaxTokens))
	}
	divisor = int64(math.Pow10(len(fraction)))
	for scale > 1 && divisor > 1 {
		scale, divisor = scale/10, divisor/10
	}
	if tokens > math.MaxInt64/scale {
		return 0, 0, fmt.Errorf("amount %q: want at most %d", s, int64(MaxTokens))
	}
	if tokens == 0 {
		return 0, 0, fmt.Errorf("amount %q: want more than 0", s)
	}
	return tokens * scale, divisor, nil
}

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
			return 0, fmt.Errorf("period %q: want at most %s", clip(s), formatPeriod(MaxPer))
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

// parseOptions reads what stands behind the period.
func (l *Limit) parseOptions(words []string) error {
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "burst", "calendar":
			i++
			if i == len(words) {
				return fmt.Errorf("%s: want a value behind it", word)
			}
			if word == "calendar" {
				l.Calendar = Calendar{Unit: CalendarDay, Zone: words[i]}
				continue
			}
			burst, divisor, err := parseAmount(words[i])
			if err != nil || divisor != 1 {
				return fmt.Errorf("burst %q: want a whole number such as 200", clip(words[i]))
			}
			l.Burst = burst
		default:
			algorithm, err := ParseAlgorithm(word)
			if err != nil {
				return fmt.Errorf("%q behind the period: want burst N, calendar ZONE or an algorithm", clip(word))
			}
			l.Algorithm = algorithm
		}
	}
	return nil
}

// useCalendar turns the period of the text into the calendar's unit.
func (l *Limit) useCalendar(period string, divisor int64) error {
	if divisor != 1 {
		return fmt.Errorf("a calendar needs a whole amount")
	}
	unit, ok := ParseCalendarUnit(period)
	if !ok {
		return fmt.Errorf("period %q with a calendar: want day or month", clip(period))
	}
	l.Calendar.Unit = unit
	return nil
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

// String writes the limit in the form that [ParseLimit] reads, leaving out what
// is default: "100/s burst 200", "1000000/month fixed_window calendar UTC".
func (l Limit) String() string {
	b := strconv.AppendInt(nil, l.Tokens, 10)
	b = append(b, '/')
	if l.Calendar != (Calendar{}) {
		b = append(b, l.Calendar.Unit.String()...)
	} else {
		b = append(b, formatPeriod(l.Per)...)
	}
	if l.Burst != 0 {
		b = append(b, " burst "...)
		b = strconv.AppendInt(b, l.Burst, 10)
	}
	if l.Algorithm != TokenBucket {
		b = append(b, ' ')
		b = append(b, l.Algorithm.String()...)
	}
	if l.Calendar != (Calendar{}) {
		zone := l.Calendar.Zone
		if zone == "" {
			zone = "UTC"
		}
		b = append(b, " calendar "...)
		b = append(b, zone...)
	}
	return string(b)
}

// formatPeriod writes a period by the largest unit that divides it.
func formatPeriod(d time.Duration) string {
	for _, u := range [...]struct {
		word string
		unit time.Duration
	}{
		{"day", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
		{"ms", time.Millisecond}, {"us", time.Microsecond},
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

// MarshalText writes the limit as [Limit.String] does; a limit that is not
// valid is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads the limit as [ParseLimit] does.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
