package rules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Point is a moment in the history: before a change, or if its number is 0, a
// time.
type Point struct {
	Before int64
	Time   time.Time
}

// A Rollback says what is taken back.
type Rollback struct {
	To     Point
	Filter Filter // whose rules; the zero value: all
	DryRun bool   // change nothing
	Actor  string // for the history; "": the database's user
}

// Rollback makes rows what they were at a moment, as far as the history knows:
// it undoes all changes since, in one transaction, and is itself recorded. The
// plan returned is what was changed or, in a dry run, would be. The error may be
// [ErrNoHistory] or [ErrNoRow], which says that there is no such change.
func (r *Records) Rollback(ctx context.Context, b Rollback) (Plan, error) {
	var p Plan
	tx := pgx.TxOptions{}
	if b.DryRun {
		tx.AccessMode = pgx.ReadOnly
	}
	err := r.transact(ctx, b.Actor, tx, func(s *session) error {
		if _, err := s.recording(ctx); err != nil {
			return err
		}
		if err := s.alone(ctx, b.DryRun); err != nil {
			return err
		}
		undo, err := s.undo(ctx, &b)
		if err != nil {
			return err
		}
		for _, u := range undo {
			p.Changes = append(p.Changes, u.Change)
			if !u.recorded {
				p.Unrecorded++
			}
		}
		p.sort()
		if b.DryRun {
			return nil
		}
		return s.putBack(ctx, undo)
	})
	return p, err
}

// An undoing is a row that is to be what it was before a change.
type undoing struct {
	Change
	event    int64 // the first change that is undone
	rule     int64
	recorded bool // the row is as the last change left it
}

// undo finds what differs between then and now.
func (s *session) undo(ctx context.Context, b *Rollback) ([]undoing, error) {
	where, args := b.Filter.past(nil)
	if b.To.Before > 0 {
		var there bool
		if err := s.QueryRow(ctx, "SELECT EXISTS (SELECT FROM rate_limit_rule_history WHERE id = $1)", b.To.Before).Scan(&there); err != nil {
			return nil, err
		}
		if !there {
			return nil, fmt.Errorf("change %d: %w", b.To.Before, ErrNoRow)
		}
		args = append(args, b.To.Before)
		where += fmt.Sprintf(" AND id >= $%d", len(args))
	} else {
		args = append(args, b.To.Time)
		where += fmt.Sprintf(" AND changed_at > $%d", len(args))
	}
	rows, err := s.Query(ctx, `WITH since AS (SELECT * FROM rate_limit_rule_history WHERE `+where+`),
		firsts AS (SELECT DISTINCT ON (rule_id) id, rule_id, old_row FROM since ORDER BY rule_id, id),
		lasts AS (SELECT DISTINCT ON (rule_id) rule_id, new_row FROM since ORDER BY rule_id, id DESC)
		SELECT f.id, f.rule_id, f.old_row, to_jsonb(r),
			jsonb_strip_nulls(l.new_row) - 'updated_at' IS NOT DISTINCT FROM jsonb_strip_nulls(to_jsonb(r)) - 'updated_at'
		FROM firsts AS f JOIN lasts AS l USING (rule_id) LEFT JOIN rate_limit_rule AS r ON r.id = f.rule_id
		WHERE jsonb_strip_nulls(f.old_row) - 'updated_at' IS DISTINCT FROM jsonb_strip_nulls(to_jsonb(r)) - 'updated_at'`, args...)
	if err != nil {
		return nil, err
	}
	var found []undoing
	var u undoing
	var then, now []byte
	_, err = pgx.ForEachRow(rows, []any{&u.event, &u.rule, &then, &now, &u.recorded}, func() error {
		u.Change = Change{Before: pastRow(now), After: pastRow(then)}
		found = append(found, u)
		return nil
	})
	return found, err
}

// putBack makes rows what they were: first those go that were not there, so that
// their places are free.
func (s *session) putBack(ctx context.Context, undo []undoing) error {
	var gone, changed, lost []int64
	for _, u := range undo {
		switch {
		case u.After == nil:
			gone = append(gone, u.rule)
		case u.Before == nil:
			lost = append(lost, u.event)
		default:
			changed = append(changed, u.event)
		}
	}
	sets, names, values, err := s.restored(ctx)
	if err != nil {
		return err
	}
	then := " FROM rate_limit_rule_history AS h, LATERAL jsonb_populate_record(NULL::rate_limit_rule, h.old_row) AS p WHERE h.id = ANY ($1)"
	for _, step := range []struct {
		query string
		ids   []int64
	}{
		{"DELETE FROM rate_limit_rule WHERE id = ANY ($1)", gone},
		{"UPDATE rate_limit_rule AS r SET " + strings.Join(sets, ", ") + then + " AND r.id = p.id", changed},
		{"INSERT INTO rate_limit_rule (" + strings.Join(names, ", ") + ") OVERRIDING SYSTEM VALUE SELECT " + strings.Join(values, ", ") + then, lost},
	} {
		if len(step.ids) == 0 {
			continue
		}
		if _, err := s.Exec(ctx, step.query, step.ids); err != nil {
			return err
		}
	}
	return nil
}

// restored returns the columns that are put back, the values that they get from
// the row p as it was, and both as an update wants them.
func (s *session) restored(ctx context.Context) (sets, names, values []string, err error) {
	columns, err := s.writable(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, column := range columns {
		name := pgx.Identifier{column}.Sanitize()
		value := "p." + name
		if column == "updated_at" && s.columns.updated {
			value = "now()" // it was changed now
		}
		names, values = append(names, name), append(values, value)
		if column != "id" {
			sets = append(sets, name+" = "+value)
		}
	}
	return sets, names, values, nil
}

// writable returns the columns of the table that are not computed.
func (s *session) writable(ctx context.Context) ([]string, error) {
	rows, err := s.Query(ctx, `SELECT attname::text FROM pg_attribute AS a WHERE attrelid = to_regclass('rate_limit_rule')
		AND attnum > 0 AND NOT attisdropped AND coalesce(to_jsonb(a) ->> 'attgenerated', '') = '' ORDER BY attnum`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
