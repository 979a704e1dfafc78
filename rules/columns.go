package rules

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/columns.sql
var columnsSQL string

// ErrNoTable says that the database has no table of rules.
var ErrNoTable = errors.New("the database has no table rate_limit_rule on its search path: run sluice rules migrate, or name its schema with search_path in the URL")

// triggers is how many triggers tell of changes.
const triggers = 4

// columns are what a table of rules has, and the questions made of it.
type columns struct {
	fields   string // the values of a row; a table with other columns has others
	live     string // which rows count now
	updated  bool   // updated_at tells when a row was changed
	notifies bool   // a trigger tells of every change
	types    map[string]string
}

var (
	whole = []string{"int2", "int4", "int8"}
	words = []string{"text", "varchar", "bpchar", "name", "citext"}
	times = []string{"timestamptz", "timestamp"}
)

// discover reads which of the columns that a row may have are there.
func discover(ctx context.Context, tx pgx.Tx) (columns, error) {
	rows, err := tx.Query(ctx, columnsSQL)
	if err != nil {
		return columns{}, err
	}
	types := make(map[string]string)
	var name, kind string
	var told int64
	if _, err = pgx.ForEachRow(rows, []any{&name, &kind, &told}, func() error {
		types[name] = kind
		return nil
	}); err != nil {
		return columns{}, err
	}
	if len(types) == 0 {
		return columns{}, ErrNoTable
	}
	return choose(types, told == triggers)
}

// choose makes the questions for a table with columns of some types. The names
// in them are ours; nothing that a table holds becomes part of a question.
func choose(types map[string]string, notifies bool) (columns, error) {
	var errs []error
	// column returns how a value is read: as it is, or as absent.
	column := func(name, as, absent string, needed bool, kinds ...string) string {
		kind, ok := types[name]
		switch {
		case !ok && !needed:
			return absent
		case !ok:
			errs = append(errs, fmt.Errorf("rate_limit_rule has no column %s", name))
		case !slices.Contains(kinds, kind):
			errs = append(errs, fmt.Errorf("rate_limit_rule.%s is %s: want %s", name, kind, strings.Join(kinds, ", ")))
		}
		return as
	}
	textOrUUID := append(slices.Clone(words), "uuid")
	expires := column("expires_at", "CASE WHEN isfinite(expires_at) THEN (extract(epoch FROM expires_at) * 1000000)::bigint END", "NULL::bigint", false, times...)
	period := "period::text"
	if types["period"] == "interval" {
		period = "(extract(epoch FROM period) * 1000000)::bigint || 'us'"
	}
	fields := []string{
		column("id", "id::bigint", "", true, whole...),
		column("tenant_id", "tenant_id::text", "", true, textOrUUID...),
		column("route_id", "route_id::text", "", true, textOrUUID...),
		column("capacity", "capacity::bigint", "", true, whole...),
		column("refill_per_second", "refill_per_second::bigint", "", true, whole...),
		column("limit_name", "limit_name::text", "NULL::text", false, words...),
		column("period", period, "NULL::text", false, append(slices.Clone(words), "interval")...),
		column("algorithm", "algorithm::text", "NULL::text", false, words...),
		expires,
	}
	c := columns{fields: strings.Join(fields, ", "), live: "true", notifies: notifies, types: types}
	if types["expires_at"] != "" {
		c.live = "(expires_at IS NULL OR expires_at > now())"
	}
	c.updated = slices.Contains(times, types["updated_at"])
	return c, errors.Join(errs...)
}

// sum is a number that differs for two versions of a row, whatever else of it
// is changed: an edit is found also where updated_at does not tell.
func (c *columns) sum() string { return "hashtextextended(ROW(" + c.fields + ")::text, 0)" }

// total asks for the number of rows that count, the sum of their sums, and the
// clock of the database.
func (c *columns) total() string {
	return "SELECT count(*), coalesce(sum(" + c.sum() + "), 0)::text, clock_timestamp() FROM rate_limit_rule WHERE " + c.live
}

// rows asks for rows that count.
func (c *columns) rows(where string) string {
	return "SELECT " + c.values() + " FROM rate_limit_rule WHERE " + c.live + " AND " + where
}

// values are all that a rowReader reads of a row.
func (c *columns) values() string {
	updated := "NULL::timestamptz"
	if c.updated {
		updated = "updated_at::timestamptz"
	}
	return c.fields + ", " + c.sum() + ", " + updated
}
