package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A Row is a rule of a table that changes while the program runs: another limit
// for one tenant on one route. Rows are kept with a set, see [Set.Edit].
type Row struct {
	// ID tells rows apart.
	ID int64
	// Tenant and Route are values as limits see them; [AnyValue] asks for
	// nothing, every other text for just that value.
	Tenant, Route string
	// Capacity is the burst, Refill the tokens that come back in a Period.
	Capacity, Refill int64
	// Limit is the name of the limit that the row overrides; "" is the one
	// limit whose key is tenant and route.
	Limit string
	// Period is in the words of [sluice.ParseLimit], such as 15m; "": a second.
	Period string
	// Algorithm is by its name in configuration; "": that of the limit.
	Algorithm string
	// Expires is when the row stops to count; zero: never. A set does not look
	// at the clock: whoever edits it takes the row away then. A row that
	// expires comes before one for the same that does not.
	Expires time.Time
	// Sum is whatever tells two versions of the row apart, see [Set.RowSum].
	Sum int64
	// Fault is what made the row unfit where it comes from; "": nothing did.
	Fault string
}

// AnyValue is the tenant or the route of a row that asks for none.
const AnyValue = "*"

// A BadRow is a row that does not count, and why.
type BadRow struct {
	Row
	// Problem says what is wrong and what would be right.
	Problem string
}

// maxRowText bounds each text of a row, in bytes.
const maxRowText = 1024

// resolve says which limit a row overrides, by its number, and with what.
func (s *Set) resolve(r *Row) (limit int, rate sluice.Limit, err error) {
	if r.Fault != "" {
		return -1, rate, errors.New(r.Fault)
	}
	if limit, err = s.overridden(r.Limit); err != nil {
		return -1, rate, err
	}
	l := &s.limits[limit]
	if rate, err = r.rate(l.Limit); err != nil {
		return -1, rate, fmt.Errorf("limit %s: %w", l.Name, err)
	}
	return limit, rate, nil
}

// overridden returns the number of the limit that a row names.
func (s *Set) overridden(name string) (int, error) {
	if name != "" {
		for i := range s.source {
			if s.source[i].Name == name {
				return i, nil
			}
		}
		return -1, fmt.Errorf("limit_name %q: the configuration has no limit of this name", name)
	}
	first := -1
	for i := range s.source {
		if !byTenantAndRoute(s.source[i].Key) {
			continue
		}
		if first >= 0 {
			return -1, fmt.Errorf("the limits %s and %s both have the key tenant and route: name one in limit_name", s.source[first].Name, s.source[i].Name)
		}
		first = i
	}
	if first < 0 {
		return -1, errors.New("no limit of the configuration has the key [tenant, route]: add one, or name the limit in limit_name")
	}
	return first, nil
}

// CheckRows says why a row that names no limit would override none; nil if it
// would override one.
func (s *Set) CheckRows() error {
	_, err := s.overridden("")
	return err
}

// CheckRow says why a row would not count; nil if it would.
func (s *Set) CheckRow(r Row) error {
	r = r.clip()
	_, _, err := s.resolve(&r)
	return err
}

// TenantRoute returns the limit that a row without a limit's name overrides.
func (s *Set) TenantRoute() (*Limit, error) {
	i, err := s.overridden("")
	if err != nil {
		return nil, err
	}
	return &s.source[i], nil
}

func byTenantAndRoute(key []string) bool {
	return len(key) == 2 && slices.Contains(key, "tenant") && slices.Contains(key, "route")
}

// rate returns the limit that a row makes of the one it overrides.
func (r *Row) rate(l *Limit) (rate sluice.Limit, err error) {
	switch {
	case r.Refill < 1 || r.Refill > sluice.MaxTokens:
		return rate, fmt.Errorf("refill_per_second is %d: want 1 to %d", r.Refill, int64(sluice.MaxTokens))
	case r.Capacity < 1 || r.Capacity > sluice.MaxTokens:
		return rate, fmt.Errorf("capacity is %d: want 1 to %d", r.Capacity, int64(sluice.MaxTokens))
	}
	rate = sluice.Limit{Tokens: r.Refill, Per: time.Second, Algorithm: l.Default.Algorithm, Calendar: l.Default.Calendar}
	if r.Algorithm != "" {
		if rate.Algorithm, err = sluice.ParseAlgorithm(r.Algorithm); err != nil {
			return rate, err
		}
		if rate.Algorithm != sluice.FixedWindow {
			rate.Calendar = sluice.Calendar{}
		}
	}
	if err := r.period(&rate); err != nil {
		return rate, err
	}
	if rate.Algorithm == sluice.TokenBucket {
		rate.Burst = r.Capacity
	} else if r.Capacity != r.Refill {
		return rate, fmt.Errorf("capacity %d and refill_per_second %d: a %v has no burst, so want them equal", r.Capacity, r.Refill, rate.Algorithm)
	}
	return rate, checkRow(rate, l)
}

// period puts the row's period in place, which of a limit by calendar is a day
// or a month of its zone.
func (r *Row) period(rate *sluice.Limit) error {
	if rate.Calendar != (sluice.Calendar{}) {
		unit, ok := sluice.ParseCalendarUnit(r.Period)
		if !ok {
			return fmt.Errorf("period %q: the limit counts by calendar, so want day or month", r.Period)
		}
		rate.Per, rate.Calendar.Unit = 0, unit
		return nil
	}
	if r.Period == "" {
		return nil
	}
	per, err := sluice.ParseLimit("1/" + r.Period)
	if err != nil || strings.Contains(r.Period, " ") {
		return fmt.Errorf("period %q: want a unit or a number and a unit, such as 15m, hour or day", r.Period)
	}
	rate.Per = per.Per
	return nil
}

// checkRow holds the rate of a row against the bounds of limits and against what
// a request costs, as it is done with overrides of a file.
func checkRow(rate sluice.Limit, l *Limit) error {
	c := compiler{}
	c.checkRate(rateOf(rate), l)
	if len(c.problems) == 0 {
		return nil
	}
	messages := make([]string, len(c.problems))
	for i := range c.problems {
		messages[i] = c.problems[i].message
	}
	return errors.New(strings.Join(messages, "; "))
}

func rateOf(l sluice.Limit) rate { return rate{rule: -1, value: l} }

// clip returns a row whose texts are short enough to be kept; one that had to be
// clipped does not count.
func (r Row) clip() Row {
	for _, field := range [...]struct {
		name string
		text *string
	}{
		{"tenant_id", &r.Tenant},
		{"route_id", &r.Route},
		{"limit_name", &r.Limit},
		{"period", &r.Period},
		{"algorithm", &r.Algorithm},
		{"the row", &r.Fault},
	} {
		if n := len(*field.text); n > maxRowText {
			*field.text = strings.ToValidUTF8((*field.text)[:maxRowText], "")
			r.Fault = fmt.Sprintf("%s has %d bytes: want at most %d", field.name, n, maxRowText)
		}
	}
	return r
}
