package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
)

// recorders is how many triggers record changes.
const recorders = 4

// An Event is one change of one row that the history recorded.
type Event struct {
	ID   int64
	At   time.Time
	Who  string // as the program said it, or the database's user
	User string // the database's user
	// Change is what the row was and became.
	Change
}

// History returns the last changes of rows, the latest first, at most so many.
// recording is false if further changes are not recorded: the triggers are
// missing or disabled. Without a history the error is [ErrNoHistory].
func (r *Records) History(ctx context.Context, f Filter, most int) (events []Event, recording bool, err error) {
	err = r.transact(ctx, "", pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(s *session) error {
		if recording, err = s.recording(ctx); err != nil {
			return err
		}
		where, args := f.past(nil)
		args = append(args, most)
		rows, err := s.Query(ctx, fmt.Sprintf("SELECT id, changed_at, actor, db_user, old_row, new_row FROM rate_limit_rule_history WHERE %s ORDER BY id DESC LIMIT $%d", where, len(args)), args...)
		if err != nil {
			return err
		}
		var e Event
		var before, after []byte
		_, err = pgx.ForEachRow(rows, []any{&e.ID, &e.At, &e.Who, &e.User, &before, &after}, func() error {
			e.Change = Change{pastRow(before), pastRow(after)}
			events = append(events, e)
			return nil
		})
		return err
	})
	return events, recording, err
}

// recording says whether changes are recorded; the error may be ErrNoHistory.
func (s *session) recording(ctx context.Context) (bool, error) {
	var there bool
	var triggers int
	err := s.QueryRow(ctx, `SELECT to_regclass('rate_limit_rule_history') IS NOT NULL, (SELECT count(*) FROM pg_trigger
		WHERE tgrelid = to_regclass('rate_limit_rule') AND tgname LIKE 'rate\_limit\_rule\_record\_%' AND tgenabled <> 'D')`).Scan(&there, &triggers)
	switch {
	case err != nil:
		return false, err
	case !there:
		return false, ErrNoHistory
	}
	return triggers == recorders, nil
}

// renamed is the condition of the index rate_limit_rule_history_renamed.
const renamed = "(old_row ->> 'tenant_id' <> tenant_id OR old_row ->> 'route_id' <> route_id)"

// past returns the condition of a filter on the history. A row is meant if it was
// or became one for them.
func (f *Filter) past(args []any) (string, []any) {
	now, before := "true", renamed
	for _, field := range [...]struct{ column, value string }{{"tenant_id", f.Tenant}, {"route_id", f.Route}} {
		if field.value == "" {
			continue
		}
		args = append(args, field.value)
		now += fmt.Sprintf(" AND %s = $%d", field.column, len(args))
		before += fmt.Sprintf(" AND old_row ->> '%s' = $%d", field.column, len(args))
	}
	where := "true"
	if len(args) > 0 {
		where = "(" + now + " OR " + before + ")"
	}
	if f.Limit != "" {
		args = append(args, f.Limit)
		where += fmt.Sprintf(" AND coalesce(new_row, old_row) ->> 'limit_name' = $%d", len(args))
	}
	return where, args
}

// pastRow reads a row as the history keeps it; nil is none. What cannot be read
// is left out: it is for people.
func pastRow(data []byte) *policy.Row {
	if data == nil {
		return nil
	}
	var raw struct {
		ID        int64      `json:"id"`
		Tenant    string     `json:"tenant_id"`
		Route     string     `json:"route_id"`
		Capacity  int64      `json:"capacity"`
		Refill    int64      `json:"refill_per_second"`
		Limit     string     `json:"limit_name"`
		Period    string     `json:"period"`
		Algorithm string     `json:"algorithm"`
		Expires   *time.Time `json:"expires_at"`
	}
	// A field of another type, such as the expiry without a zone, is left zero.
	_ = json.Unmarshal(data, &raw)
	row := policy.Row{
		ID: raw.ID, Tenant: raw.Tenant, Route: raw.Route, Capacity: raw.Capacity, Refill: raw.Refill,
		Limit: raw.Limit, Period: raw.Period, Algorithm: raw.Algorithm,
	}
	if raw.Expires != nil {
		row.Expires = *raw.Expires
	}
	return &row
}
