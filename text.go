package sluice

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseLimit reads a limit as people write it: an amount per period, such as
// "100/s", "5/15m", "1000/day", "0.5/s", "1M/month" or "10 per second",
// optionally followed by "burst N", an algorithm, and "calendar ZONE", in the
// form that [Limit.String] writes. A fraction keeps its rate: "0.5/s" is 1 per
// 2 s and "99.9/s" is 999 per 10 s, in a token bucket with a burst of 100
// unless another is given. With a calendar the period is "day" or "month" and
// the algorithm fixed_window. The limit returned is valid.
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
	l, err := parseOptions(options)
	if err != nil {
		return Limit{}, err
	}
	l.Tokens = tokens
	if divisor > 1 && l.Algorithm == TokenBucket && l.Burst == 0 {
		l.Burst = ceilDiv(tokens, divisor)
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
		return Limit{}, fmt.Errorf("rate is under 1 per %s, the longest period: want a higher one", spoken(MaxPer))
	}
	l.Per = per * time.Duration(divisor)
	if l.Burst == l.Tokens && divisor > 1 {
		l.Burst = 0 // the default
	}
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

// reduce shortens a fraction whose divisor is a power of ten, so that the period
// of the limit is as short as the numbers allow.
func reduce(tokens, divisor int64) (int64, int64) {
	for _, p := range [...]int64{2, 5} {
		for divisor%p == 0 && tokens%p == 0 {
			tokens, divisor = tokens/p, divisor/p
		}
	}
	return tokens, divisor
}

// multiples are the suffixes of an amount. A small m is missing on purpose: it
// could be a million or a thousandth.
var multiples = map[byte]int64{'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9}

// parseAmount reads "100", "0.5", "1_000", "10k" or "100r", the last being how
// nginx counts requests, as tokens / divisor in lowest terms.
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
	bad := fmt.Errorf("amount %q: want a number such as 100, 0.5, 1_000_000, 10k or 1M%s", clip(s), amountHint(digits))
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
	tokens, divisor = reduce(tokens*scale, divisor)
	return tokens, divisor, nil
}

// amountHint says which habit of writing numbers is not read, if it is a usual
// one; the digits are those before any suffix.
func amountHint(digits string) string {
	plain := digits != "" && '0' <= digits[0] && digits[0] <= '9'
	switch {
	case !plain:
		return ""
	case strings.Contains(digits, ","):
		return ", without a comma"
	case strings.ContainsAny(digits, "eE"):
		return ", without an exponent"
	case strings.HasSuffix(digits, "m"):
		return "; a small m could mean two things"
	}
	return ""
}

// parseOptions reads what stands behind the period, each option at most once.
func parseOptions(words []string) (l Limit, err error) {
	seen := map[string]bool{}
	for len(words) > 0 {
		option := words[0]
		if option != "burst" && option != "calendar" {
			option = "algorithm"
		}
		if seen[option] {
			return l, fmt.Errorf("%q behind the period: want one %s", clip(words[0]), option)
		}
		seen[option] = true
		if words, err = l.parseOption(option, words); err != nil {
			return l, err
		}
	}
	if seen["calendar"] && !seen["algorithm"] {
		l.Algorithm = FixedWindow
	}
	return l, nil
}

// parseOption reads the option that words begin with and returns those behind.
func (l *Limit) parseOption(option string, words []string) ([]string, error) {
	if option == "algorithm" {
		algorithm, err := ParseAlgorithm(words[0])
		if err != nil {
			return nil, fmt.Errorf("%q behind the period: want burst N, calendar ZONE or an algorithm", clip(words[0]))
		}
		l.Algorithm = algorithm
		return words[1:], nil
	}
	if len(words) == 1 {
		return nil, fmt.Errorf("%s: want a value behind it", option)
	}
	if option == "calendar" {
		// ParseLimit sets the unit, which the period says.
		l.Calendar = Calendar{Unit: CalendarDay, Zone: words[1]}
		return words[2:], nil
	}
	burst, divisor, err := parseAmount(words[1])
	if err != nil || divisor != 1 {
		return nil, fmt.Errorf("burst %q: want a whole number such as 200", clip(words[1]))
	}
	l.Burst = burst
	return words[2:], nil
}

// useCalendar turns the period of the text into the calendar's unit.
func (l *Limit) useCalendar(period string, divisor int64) error {
	if divisor != 1 {
		return fmt.Errorf("a calendar needs a whole amount: want one such as 1000")
	}
	unit, ok := ParseCalendarUnit(period)
	if !ok {
		return fmt.Errorf("period %q with a calendar: want day or month", clip(period))
	}
	l.Calendar.Unit = unit
	return nil
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
