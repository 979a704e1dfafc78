package rules

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-limiter/sluice/policy"
)

// Records are the rows of a table of rules for those who read and change them;
// servers follow them with a [Table]. Each call is one transaction on a
// connection of its own. Records may be used from many goroutines; they hold
// nothing that must be closed.
type Records struct {
	source *place
	slots  chan struct{} // one for each connection
}

// maxConnections bounds the connections at one time.
const maxConnections = 4

// NewRecords returns the records of a database, which is not connected to yet.
// The error is about the URL, see [CheckURL].
func NewRecords(url string) (*Records, error) {
	source, err := parseDatabase(url)
	if err != nil {
		return nil, err
	}
	return &Records{source: source, slots: make(chan struct{}, maxConnections)}, nil
}

// Name returns where the records are, "HOST:PORT/DATABASE", without anything
// secret.
func (r *Records) Name() string { return r.source.name }

// Errors about what is not there.
var (
	ErrNoRow     = errors.New("there is no such rule")
	ErrNoHistory = errors.New("the database has no history of rules: run sluice rules migrate, as the owner of the table")
)

// ErrValue says that a column does not hold a value.
var ErrValue = errors.New("the table does not hold this")

// ErrTaken says that the table does not let a row be beside another.
var ErrTaken = errors.New("the table allows one row for a tenant and a route, and there is another: for another limit, or lasting where a temporary one is wanted, or the reverse: delete that, or have the table hold both with sluice rules migrate -several")

// A ConflictError says that a row is not as a writer expects it. Now is the row,
// the zero value if there is none.
type ConflictError struct{ Now policy.Row }

// Error says what is the case.
func (e *ConflictError) Error() string {
	if e.Now.ID == 0 {
		return "the rule is gone"
	}
	return fmt.Sprintf("the rule is another by now: its version is %s", Version(&e.Now))
}

// Version returns a text that differs for two contents of a row.
func Version(r *policy.Row) string { return strconv.FormatUint(uint64(r.Sum), 16) }

// A session is a transaction and what the table is like in it.
type session struct {
	pgx.Tx
	columns columns
	read    rowReader
}

// transact runs f in a transaction in which the history knows who acts; "" is
// the database's user.
func (r *Records) transact(ctx context.Context, actor string, o pgx.TxOptions, f func(*session) error) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := r.source.connect(ctx)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		// What was done is committed or not; how the connection ends is no matter.
		_ = conn.Close(leaving)
	}()
	err = pgx.BeginTxFunc(ctx, conn, o, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('sluice.actor', $1, true)", cleanActor(actor)); err != nil {
			return err
		}
		c, err := discover(ctx, tx)
		if err != nil {
			return err
		}
		return f(&session{Tx: tx, columns: c})
	})
	return explainWrite(err)
}

// cleanActor returns a name that can stand in a line.
func cleanActor(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > 120 {
		name = strings.ToValidUTF8(name[:120], "")
	}
	return strings.TrimSpace(name)
}

// More codes of PostgreSQL's errors.
const (
	uniqueViolation = "23505"
	tooLong         = "22001"
	outOfRange      = "22003"
	badText         = "22P02" // such as a tenant that is to be a UUID
	serialization   = "40001"
	deadlock        = "40P01"
)

// explainWrite adds what can be done about an error of the database.
func explainWrite(err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Code {
	case uniqueViolation:
		return ErrTaken
	case insufficientPrivilege:
		return fmt.Errorf("rules: %w: the database user needs SELECT, INSERT, UPDATE and DELETE on rate_limit_rule, USAGE on its sequence, and SELECT on rate_limit_rule_history", err)
	case readOnly:
		return fmt.Errorf("rules: %w: the database is a standby: name the primary", err)
	case tooLong:
		return fmt.Errorf("%w: the tenant, the route or the limit's name is longer than its column: %s", ErrValue, answer.Message)
	case outOfRange:
		return fmt.Errorf("%w: the rate or the burst is larger than its column holds, which for an INT is 2147483647: %s", ErrValue, answer.Message)
	case badText:
		return fmt.Errorf("%w: %s", ErrValue, answer.Message)
	case serialization, deadlock:
		return fmt.Errorf("rules: %w: somebody else changed rules at the same time: try again", err)
	}
	return fmt.Errorf("rules: %w", err)
}

// A Filter says which rows are meant; "" is any.
type Filter struct{ Tenant, Route, Limit string }

// where returns the condition of a filter, with its values behind args.
func (f *Filter) where(c *columns, args []any) (string, []any) {
	var where strings.Builder
	where.WriteString("true")
	for _, field := range [...]struct{ column, value string }{
		{"tenant_id", f.Tenant}, {"route_id", f.Route}, {"limit_name", f.Limit},
	} {
		switch {
		case field.value == "":
		case c.types[field.column] == "":
			where.WriteString(" AND false") // no row names a limit
		default:
			args = append(args, field.value)
			where.WriteString(fmt.Sprintf(" AND %s = %s", field.column, c.typed(field.column, len(args))))
		}
	}
	return where.String(), args
}

// typed returns the n-th argument, a text, as a value of a column.
func (c *columns) typed(column string, n int) string {
	return fmt.Sprintf("$%d::text::%s", n, c.types[column])
}

// List returns the rows that count now, by tenant, route and limit, at most so
// many; 0 is all.
func (r *Records) List(ctx context.Context, f Filter, most int) ([]policy.Row, error) {
	var found []policy.Row
	err := r.transact(ctx, "", pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(s *session) error {
		where, args := f.where(&s.columns, nil)
		where += ` ORDER BY tenant_id::text COLLATE "C", route_id::text COLLATE "C", 6 NULLS FIRST, id` // 6 is limit_name
		if most > 0 {
			args = append(args, most)
			where += fmt.Sprintf(" LIMIT $%d", len(args))
		}
		var err error
		found, err = s.rows(ctx, s.columns.rows(where), args...)
		return err
	})
	return found, err
}

// rows asks for rows.
func (s *session) rows(ctx context.Context, query string, args ...any) ([]policy.Row, error) {
	answer, err := s.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var found []policy.Row
	err = s.read.each(answer, func(r policy.Row) { found = append(found, r) })
	return found, err
}
