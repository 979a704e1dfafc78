package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
)

// An Expectation is what must be true of a row for a write to be made. The zero
// value is nothing.
type Expectation struct {
	// Absent says that there must be no such row.
	Absent bool
	// Version is that of the row; "*": any, but there must be one.
	Version string
}

// check holds an expectation against the row that is there, nil if none is.
func (e Expectation) check(now *policy.Row) error {
	switch {
	case now == nil && e.Version != "":
		return &ConflictError{}
	case now != nil && (e.Absent || e.Version != "" && e.Version != "*" && e.Version != Version(now)):
		return &ConflictError{Now: *now}
	}
	return nil
}

// A Write is a rule to be written.
type Write struct {
	// Row is what the row shall say. Its ID, if not 0, is that of the row to
	// change, whose tenant, route and limit stay; 0 is the one for the same
	// tenant, route and limit, a temporary one apart from a lasting one, or a
	// new one.
	Row policy.Row
	// For, if not 0, is how long the row counts, by the clock of the database.
	For    time.Duration
	Expect Expectation
	// Actor is who writes, for the history; "" is the database's user.
	Actor string
	// Check, if not nil, judges the row before it is written.
	Check func(policy.Row) error
}

// Put writes one row. It returns the row before, nil if it is new, and as it is
// now. The error is [ErrNoRow], [ErrTaken], a [*ConflictError], that of Check, or
// wraps the database's.
func (r *Records) Put(ctx context.Context, w Write) (before *policy.Row, now policy.Row, err error) {
	err = r.transact(ctx, w.Actor, pgx.TxOptions{}, func(s *session) error {
		if err := s.settle(ctx, &w); err != nil {
			return err
		}
		if before, err = s.find(ctx, &w.Row); err != nil {
			return err
		}
		if before == nil && w.Row.ID != 0 {
			return ErrNoRow
		}
		if err := w.Expect.check(before); err != nil {
			return err
		}
		if w.Row.ID != 0 {
			w.Row.Tenant, w.Row.Route, w.Row.Limit = before.Tenant, before.Route, before.Limit
		}
		if w.Check != nil {
			if err := w.Check(w.Row); err != nil {
				return err
			}
		}
		now, err = s.write(ctx, before, &w.Row)
		return err
	})
	return before, now, err
}

// settle keeps others from writing for the same spot and says when the row
// expires. The lock on the table comes first: it is what an import waits for.
func (s *session) settle(ctx context.Context, w *Write) error {
	if _, err := s.Exec(ctx, "LOCK TABLE rate_limit_rule IN ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	if w.For > 0 {
		var clock time.Time
		if err := s.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&clock); err != nil {
			return err
		}
		w.Row.Expires = clock.Add(w.For)
	}
	if w.Row.ID != 0 {
		return nil
	}
	_, err := s.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 7))", w.Row.Tenant+"\n"+w.Row.Route)
	return err
}

// find returns the row that is to be changed, locked; nil: there is none.
func (s *session) find(ctx context.Context, r *policy.Row) (*policy.Row, error) {
	where, args := "id = $1", []any{r.ID}
	if r.ID == 0 {
		spot := spotOf(r)
		f := Filter{Tenant: r.Tenant, Route: r.Route}
		where, args = f.where(&s.columns, nil)
		where += " AND " + s.columns.live
		if s.columns.types["limit_name"] != "" {
			args = append(args, spot.limit)
			where += fmt.Sprintf(" AND coalesce(limit_name::text, '') = $%d", len(args))
		}
		if s.columns.types["expires_at"] != "" {
			args = append(args, spot.temporary)
			where += fmt.Sprintf(" AND (expires_at IS NOT NULL) = $%d", len(args))
		}
	}
	found, err := s.rows(ctx, "SELECT "+s.columns.values()+" FROM rate_limit_rule WHERE "+where+" ORDER BY id DESC LIMIT 1 FOR UPDATE", args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// write changes a row or adds one, and returns it.
func (s *session) write(ctx context.Context, before, r *policy.Row) (policy.Row, error) {
	a, err := s.columns.assign(r)
	if err != nil {
		return policy.Row{}, err
	}
	var query string
	if before == nil {
		if err := s.sweep(ctx, r); err != nil {
			return policy.Row{}, err
		}
		query = fmt.Sprintf("INSERT INTO rate_limit_rule (%s) VALUES (%s)", strings.Join(a.names, ", "), strings.Join(a.values, ", "))
	} else {
		var sets []string
		for i, name := range a.names {
			sets = append(sets, name+" = "+a.values[i])
		}
		a.args = append(a.args, before.ID)
		query = fmt.Sprintf("UPDATE rate_limit_rule SET %s WHERE id = $%d", strings.Join(sets, ", "), len(a.args))
	}
	written, err := s.rows(ctx, query+" RETURNING "+s.columns.values(), a.args...)
	if err != nil {
		return policy.Row{}, err
	}
	if len(written) != 1 {
		return policy.Row{}, fmt.Errorf("rules: %d rows were written in place of one: a trigger or a policy of the table is in the way", len(written))
	}
	return written[0], nil
}

// sweep takes away rows whose time is over and that are in the way of a new one.
func (s *session) sweep(ctx context.Context, r *policy.Row) error {
	if s.columns.types["expires_at"] == "" {
		return nil
	}
	f := Filter{Tenant: r.Tenant, Route: r.Route}
	where, args := f.where(&s.columns, nil)
	_, err := s.Exec(ctx, "DELETE FROM rate_limit_rule WHERE NOT "+s.columns.live+" AND "+where, args...)
	return err
}

// An assignment is what is written into the columns of a row.
type assignment struct {
	names, values []string
	args          []any
}

// assign returns the columns that a row fills. Columns that the table lacks must
// have nothing to say.
func (c *columns) assign(r *policy.Row) (assignment, error) {
	a := assignment{
		names: []string{"tenant_id", "route_id", "capacity", "refill_per_second"},
		values: []string{
			c.typed("tenant_id", 1), c.typed("route_id", 2), "$3::bigint", "$4::bigint",
		},
		args: []any{r.Tenant, r.Route, r.Capacity, r.Refill},
	}
	add := func(name string, value any, as func(n int) string, empty bool) error {
		if c.types[name] == "" {
			if empty {
				return nil
			}
			return &columnError{name}
		}
		a.args = append(a.args, value)
		a.names, a.values = append(a.names, name), append(a.values, as(len(a.args)))
		return nil
	}
	asText := func(column string) func(int) string {
		return func(n int) string { return fmt.Sprintf("nullif($%d::text, '')", n) + "::" + c.types[column] }
	}
	asTime := func(n int) string { return fmt.Sprintf("$%d::timestamptz", n) }
	err := cmp.Or(
		add("limit_name", r.Limit, asText("limit_name"), r.Limit == ""),
		add("period", c.period(r.Period), asText("period"), r.Period == ""),
		add("algorithm", r.Algorithm, asText("algorithm"), r.Algorithm == ""),
		add("expires_at", orNil(r.Expires), asTime, r.Expires.IsZero()),
	)
	if err != nil {
		return a, err
	}
	if c.updated {
		a.names, a.values = append(a.names, "updated_at"), append(a.values, "now()")
	}
	return a, nil
}

// period returns a period in the words of the column, which may be an interval.
func (c *columns) period(period string) string {
	if period == "" || c.types["period"] != "interval" {
		return period
	}
	if per, err := time.ParseDuration(canonicalPeriod(period)); err == nil {
		return fmt.Sprintf("%d microseconds", per.Microseconds())
	}
	return period // a month, which the database knows too
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ErrColumn says that the table lacks a column that a rule needs.
var ErrColumn = errors.New("the table rate_limit_rule lacks a column")

// A columnError says that the table lacks a column that a rule needs.
type columnError struct{ column string }

// Error names the column and the remedy.
func (e *columnError) Error() string {
	needs := map[string]string{
		"limit_name": "a rule that names its limit",
		"period":     "a rate that is not a whole number a second",
		"algorithm":  "an algorithm",
		"expires_at": "a temporary rule",
	}
	return fmt.Sprintf("%s needs the column %s, which the table rate_limit_rule does not have: run sluice rules migrate", needs[e.column], e.column)
}

// Unwrap returns [ErrColumn].
func (e *columnError) Unwrap() error { return ErrColumn }

// Delete takes a row away and returns it as it was. The error is [ErrNoRow], a
// [*ConflictError], or wraps the database's.
func (r *Records) Delete(ctx context.Context, id int64, expect Expectation, actor string) (gone policy.Row, err error) {
	err = r.transact(ctx, actor, pgx.TxOptions{}, func(s *session) error {
		before, err := s.find(ctx, &policy.Row{ID: id})
		switch {
		case err != nil:
			return err
		case before == nil:
			return ErrNoRow
		}
		if err := expect.check(before); err != nil {
			return err
		}
		gone = *before
		_, err = s.Exec(ctx, "DELETE FROM rate_limit_rule WHERE id = $1", id)
		return err
	})
	return gone, err
}
