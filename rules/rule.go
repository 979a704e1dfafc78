package rules

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// A Rule is a row of the table as people write it.
type Rule struct {
	// Tenant and Route are whom it is for; [policy.AnyValue] asks for none.
	Tenant, Route string
	// Limit is the name of the limit that it overrides; "" is the one whose
	// key is tenant and route.
	Limit string
	// Rate is how much may pass, such as "100/s" or "5/15m".
	Rate string
	// Burst is the capacity of a token bucket; 0 means the amount of Rate.
	Burst int64
	// Algorithm is by its name in configuration; "" is that of the limit.
	Algorithm string
	// Expires is when the rule stops to count; zero: never.
	Expires time.Time
}

// A FieldError says what is wrong with a field of a rule: tenant, route, limit,
// rate, burst or algorithm.
type FieldError struct {
	Field string
	Err   error
}

// Error names the field.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *FieldError) Unwrap() error { return e.Err }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// Row returns the row that says the same. With a set, the error also says what
// keeps the row from counting beside the set's limits; nil is no set. The error
// is a [*FieldError].
func (r Rule) Row(set *policy.Set) (policy.Row, error) {
	for _, field := range [...]struct{ name, value string }{{"tenant", r.Tenant}, {"route", r.Route}} {
		if err := checkPlace(field.value); err != nil {
			return policy.Row{}, &FieldError{field.name, err}
		}
	}
	limit, err := r.overridden(set)
	if err != nil {
		return policy.Row{}, &FieldError{"limit", err}
	}
	row := policy.Row{Tenant: r.Tenant, Route: r.Route, Limit: r.Limit, Expires: r.Expires}
	if r.Algorithm != "" {
		algorithm, err := sluice.ParseAlgorithm(r.Algorithm)
		if err != nil {
			return policy.Row{}, &FieldError{"algorithm", err}
		}
		row.Algorithm = algorithm.String()
	}
	if err := r.fillRate(&row, limit); err != nil {
		return policy.Row{}, err
	}
	if set == nil {
		return row, nil
	}
	if err := set.CheckRow(row); err != nil {
		return policy.Row{}, &FieldError{"rate", err}
	}
	return row, nil
}

// checkPlace says what is wrong with a tenant or a route.
func checkPlace(s string) error {
	switch {
	case s == "":
		return errors.New("missing: want a value, or * for any")
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return errors.New("want text in UTF-8 without NUL, as the database keeps no other")
	}
	return nil
}

// overridden returns the limit that the rule is about; nil if there is no set.
func (r *Rule) overridden(set *policy.Set) (*policy.Limit, error) {
	if strings.ContainsRune(r.Limit, 0) || !utf8.ValidString(r.Limit) {
		return nil, errors.New("want the name of a limit")
	}
	if set == nil {
		return nil, nil
	}
	if r.Limit == "" {
		l, err := set.TenantRoute()
		if err != nil {
			return nil, fmt.Errorf("missing: %w", err)
		}
		return l, nil
	}
	var names []string
	limits := set.Limits()
	for i := range limits {
		if limits[i].Name == r.Limit {
			return &limits[i], nil
		}
		names = append(names, limits[i].Name)
	}
	return nil, fmt.Errorf("%.80q: the configuration has no limit of this name: want one of %s", r.Limit, strings.Join(names, ", "))
}

// fillRate reads the rate and the burst; limit may be nil.
func (r *Rule) fillRate(row *policy.Row, limit *policy.Limit) error {
	if r.Burst < 0 || r.Burst > sluice.MaxTokens {
		return wrong("burst", "%d: want 1 to %d, or none, which means the amount of the rate", r.Burst, int64(sluice.MaxTokens))
	}
	words := strings.Fields(r.Rate)
	for _, word := range words {
		if _, err := sluice.ParseAlgorithm(word); err == nil || word == "burst" || word == "calendar" {
			return wrong("rate", "%.80q: want the rate alone, such as 100/s; burst and algorithm are fields of their own", r.Rate)
		}
	}
	text := strings.Join(words, " ")
	if r.Burst > 0 {
		text += " burst " + strconv.FormatInt(r.Burst, 10)
	}
	algorithm := row.Algorithm
	if limit != nil && algorithm == "" {
		algorithm = limit.Default.Algorithm.String()
	}
	text += " " + algorithm
	if limit != nil && limit.Default.Calendar != (sluice.Calendar{}) && algorithm == sluice.FixedWindow.String() {
		text += " calendar UTC" // the zone is the limit's, and no matter here
	}
	l, err := sluice.ParseLimit(strings.TrimSpace(text))
	if err != nil {
		return &FieldError{"rate", cmp.Or(errors.Unwrap(err), err)}
	}
	row.Refill, row.Capacity, row.Period = l.Tokens, l.Capacity(), periodOf(l, words)
	return nil
}

// periodOf returns what stands in the column period; "" is a second. A month
// stays a month, which a limit with a calendar counts as one.
func periodOf(l sluice.Limit, words []string) string {
	if l.Calendar != (sluice.Calendar{}) {
		return l.Calendar.Unit.String()
	}
	last := words[len(words)-1]
	_, last, slash := strings.Cut(last, "/")
	if !slash {
		last = words[len(words)-1]
	}
	if unit, ok := sluice.ParseCalendarUnit(last); ok && unit == sluice.CalendarMonth && l.Per == 30*24*time.Hour {
		return unit.String()
	}
	if l.Per == time.Second {
		return ""
	}
	_, period, _ := strings.Cut(rateText(l), "/")
	return period
}

// rateText returns a limit without burst and algorithm, "100/s".
func rateText(l sluice.Limit) string {
	text, _, _ := strings.Cut(l.String(), " ")
	return text
}

// RuleOf returns the rule that says the same as a row. Of a row that makes no
// sense the rate is what stands there.
func RuleOf(row policy.Row) Rule {
	r := Rule{
		Tenant: row.Tenant, Route: row.Route, Limit: row.Limit,
		Burst: row.Capacity, Algorithm: row.Algorithm, Expires: row.Expires,
	}
	r.Rate = fmt.Sprintf("%d/%s", row.Refill, cmp.Or(row.Period, "s"))
	if unit, ok := sluice.ParseCalendarUnit(row.Period); ok && unit == sluice.CalendarMonth {
		return r
	}
	if l, err := sluice.ParseLimit(r.Rate); err == nil {
		r.Rate = rateText(l)
	}
	return r
}

// Says returns what the rule says but not whom it is for: "100/s burst 200
// sliding_log of login until 2026-01-02T15:04:05Z".
func (r Rule) Says() string {
	var b strings.Builder
	b.WriteString(r.Rate)
	if amount, _, _ := strings.Cut(r.Rate, "/"); r.Burst != 0 && amount != strconv.FormatInt(r.Burst, 10) {
		fmt.Fprintf(&b, " burst %d", r.Burst)
	}
	if r.Algorithm != "" {
		b.WriteString(" " + r.Algorithm)
	}
	if r.Limit != "" {
		b.WriteString(" of " + r.Limit)
	}
	if !r.Expires.IsZero() {
		b.WriteString(" until " + r.Expires.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// A spot is what a row is for: of each there is at most one row.
type spot struct {
	tenant, route, limit string
	temporary            bool
}

func spotOf(r *policy.Row) spot {
	return spot{r.Tenant, r.Route, r.Limit, !r.Expires.IsZero()}
}

// alike says whether two rows for the same spot say the same, however that is
// written.
func alike(a, b *policy.Row) bool {
	return a.Capacity == b.Capacity && a.Refill == b.Refill &&
		canonicalPeriod(a.Period) == canonicalPeriod(b.Period) &&
		canonicalAlgorithm(a.Algorithm) == canonicalAlgorithm(b.Algorithm) &&
		a.Expires.UnixMicro() == b.Expires.UnixMicro()
}

func canonicalPeriod(period string) string {
	if unit, ok := sluice.ParseCalendarUnit(period); ok && unit == sluice.CalendarMonth {
		return unit.String()
	}
	if l, err := sluice.ParseLimit("1/" + cmp.Or(period, "s")); err == nil {
		return l.Per.String()
	}
	return period
}

func canonicalAlgorithm(name string) string {
	if algorithm, err := sluice.ParseAlgorithm(name); err == nil {
		return algorithm.String()
	}
	return name
}

// ParseTerm reads how long a temporary rule holds, such as "2h", "90m" or "7days".
func ParseTerm(text string) (time.Duration, error) {
	l, err := sluice.ParseLimit("1/" + text)
	if err != nil || l.Per < time.Second || len(strings.Fields(text)) != 1 {
		return 0, fmt.Errorf("%.40q: want a time from 1s to 366days, such as 2h or 7days", text)
	}
	return l.Per, nil
}
