package rules

import (
	"container/heap"
	"context"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
)

// refresh fetches what is pending, or looks at everything.
func (t *Table) refresh(ctx context.Context) error {
	p := t.pending
	t.pending = pending{}
	defer func() { t.fetched = time.Now() }()
	if p.all || len(p.ids) == 0 || t.reload.Load() {
		return t.refreshAll(ctx)
	}
	return t.refreshSome(ctx, slices.Sorted(maps.Keys(p.ids)))
}

// refreshSome fetches rows by their numbers; those that are not there any more
// are gone.
func (t *Table) refreshSome(ctx context.Context, ids []int64) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	rows, err := t.conn.Query(ctx, t.columns.rows("id = ANY($1)"), ids)
	if err != nil {
		return err
	}
	c := begin(t.o.Current().Edit())
	missing := make(map[int64]bool, len(ids))
	for _, id := range ids {
		missing[id] = true
	}
	if err := t.reader.each(rows, func(r policy.Row) {
		delete(missing, r.ID)
		c.put(r)
	}); err != nil {
		return err
	}
	for id := range missing {
		c.edit.Remove(id)
	}
	t.finish(c)
	t.status.fetched(len(ids))
	return nil
}

// refreshAll compares the table with what is known and fetches what differs. It
// sees one moment of the table, however long it takes.
func (t *Table) refreshAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	anew := t.reload.Swap(false)
	err := pgx.BeginTxFunc(ctx, t.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return t.compare(ctx, tx, anew)
	})
	if err != nil {
		if anew {
			t.reload.Store(true)
		}
		return err
	}
	now := time.Now()
	t.looked, t.pollAt = now, now.Add(t.o.Poll)
	t.looks++
	if t.status.reached() {
		t.log.Info("rules are read from the database again")
	}
	return nil
}

// A total is what one question tells of the whole table.
type total struct {
	rows int
	sum  int64
}

func totalOf(s *policy.Set) total { return total{s.RowCount(), s.RowSum()} }

// compare asks for the total first, then for what was changed of late, and for
// all rows only if the total still differs.
func (t *Table) compare(ctx context.Context, tx pgx.Tx, anew bool) error {
	c, err := discover(ctx, tx)
	if err != nil {
		return err
	}
	same := c.fields == t.columns.fields && !anew
	if c.notifies = c.notifies && !t.deaf; c.notifies != t.columns.notifies || t.columns.fields == "" {
		t.sayHow(c.notifies)
	}
	t.columns = c
	want, err := t.total(ctx, tx)
	if err != nil {
		return err
	}
	switch {
	case same && want == totalOf(t.o.Current()):
		return nil
	case same && c.updated && want.rows > 0 && !t.reader.updated.IsZero():
		done, err := t.fetchLate(ctx, tx, want)
		if done || err != nil {
			return err
		}
	}
	return t.fetchAll(ctx, tx, want)
}

// sayHow tells how changes are heard of.
func (t *Table) sayHow(notifies bool) {
	if notifies {
		t.log.Info("rules: changes are told by the database at once")
		return
	}
	if t.deaf {
		t.log.Warn("rules: a standby tells nobody of changes, so that they are seen by polling: name the primary in rules.url", slog.Duration("poll", t.o.Poll))
		return
	}
	t.log.Warn("rules: no trigger tells of changes, so that they are seen by polling: run sluice rules migrate", slog.Duration("poll", t.o.Poll))
}

func (t *Table) total(ctx context.Context, tx pgx.Tx) (total, error) {
	var n int64
	var sum string
	var clock time.Time
	if err := tx.QueryRow(ctx, t.columns.total()).Scan(&n, &sum, &clock); err != nil {
		return total{}, err
	}
	t.skew = time.Until(clock)
	return total{int(n), wrap(sum)}, nil
}

// wrap returns a sum of any size as one that went over the end of an int64.
func wrap(sum string) int64 {
	n, ok := new(big.Int).SetString(sum, 10)
	if !ok {
		return 0
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1))
	return int64(low.Uint64())
}

// lateness is how long a change may take to be seen after the time that it bears,
// which is when its transaction began.
const lateness = time.Minute

// fetchLate fetches the rows that were changed of late and says whether that was
// all there was to do.
func (t *Table) fetchLate(ctx context.Context, tx pgx.Tx, want total) (done bool, err error) {
	most := 1000 + want.rows/10
	rows, err := tx.Query(ctx, t.columns.rows("updated_at >= $1 LIMIT $2"), t.reader.updated.Add(-lateness), most)
	if err != nil {
		return false, err
	}
	current := t.o.Current()
	c := begin(current.Edit())
	changed, seen := 0, 0
	if err := t.reader.each(rows, func(r policy.Row) {
		seen++
		if old, ok := current.Row(r.ID); !ok || old.Sum != r.Sum {
			c.put(r)
			changed++
		}
	}); err != nil || seen == most || changed == 0 {
		return false, err
	}
	next := c.edit.Set()
	if totalOf(next) != want {
		return false, nil
	}
	t.publish(c, next)
	t.status.fetched(changed)
	return true, nil
}

// fetchAll makes a set of all rows, beside the one in force.
func (t *Table) fetchAll(ctx context.Context, tx pgx.Tx, want total) error {
	rows, err := tx.Query(ctx, t.columns.rows("true"))
	if err != nil {
		return err
	}
	t.reader.hidden, t.reader.updated = "", time.Time{}
	c := begin(t.o.Current().Refill(want.rows))
	c.anew = true
	if err := t.reader.each(rows, c.put); err != nil {
		return err
	}
	next := c.edit.Set()
	if uneven := totalOf(next) != want; uneven != t.uneven {
		if t.uneven = uneven; uneven {
			t.log.Warn("rules: rows share an id, of which one counts, and all rows are read at every poll: make id unique")
		}
	}
	t.publish(c, next)
	t.status.loaded()
	return nil
}

// A change is an edit of a set and what is to be remembered with it.
type change struct {
	edit    *policy.Editor
	anew    bool // it began with no rows
	expires []expiry
	bad     map[int64]string
}

func begin(e *policy.Editor) *change {
	return &change{edit: e, bad: make(map[int64]string)}
}

// put takes a row in.
func (c *change) put(r policy.Row) {
	if !r.Expires.IsZero() {
		c.expires = append(c.expires, expiry{r.Expires, r.ID})
	}
	if err := c.edit.Put(r); err != nil {
		c.bad[r.ID] = err.Error()
	}
}

func (t *Table) finish(c *change) { t.publish(c, c.edit.Set()) }

// publish puts a changed set in force and keeps it for the next start.
func (t *Table) publish(c *change, next *policy.Set) {
	t.enforce(c, next)
	t.keep()
}

// enforce puts a changed set in force.
func (t *Table) enforce(c *change, next *policy.Set) {
	if c.anew {
		t.expiry = nil
	}
	for _, x := range c.expires {
		heap.Push(&t.expiry, x)
	}
	t.o.Publish(next)
	t.tell(c.bad)
}

// keep hands the rows to the snapshot.
func (t *Table) keep() {
	if t.keeper != nil {
		t.keeper.offer(t.o.Current())
	}
}

// maxTold bounds how many bad rows one refresh tells of, and how many are
// remembered as told.
const maxTold = 20

// tell says once what is wrong with a row.
func (t *Table) tell(bad map[int64]string) {
	told := 0
	for _, id := range slices.Sorted(maps.Keys(bad)) {
		if t.told[id] == bad[id] {
			continue
		}
		if told++; told > maxTold {
			continue
		}
		t.log.Warn("rule skipped", slog.Int64("id", id), slog.String("problem", bad[id]))
		if len(t.told) >= 50*maxTold {
			clear(t.told)
		}
		t.told[id] = bad[id]
	}
	if told > maxTold {
		t.log.Warn("more rules were skipped", slog.Int("rules", told-maxTold))
	}
}

// expires returns when the next row expires, by our clock; zero: none does.
func (t *Table) expires() time.Time {
	if len(t.expiry) == 0 {
		return time.Time{}
	}
	return t.expiry[0].at.Add(-t.skew)
}

// expire takes away the rows whose time is over.
func (t *Table) expire(now time.Time) {
	if next := t.expires(); next.IsZero() || next.After(now) {
		return
	}
	current := t.o.Current()
	e := current.Edit()
	gone := 0
	for {
		x, ok := t.expiry.due(now.Add(t.skew))
		if !ok {
			break
		}
		if r, ok := current.Row(x.id); ok && r.Expires.Equal(x.at) && e.Remove(x.id) {
			gone++
		}
	}
	if gone > 0 {
		t.o.Publish(e.Set())
		t.log.Info("rules expired", slog.Int("rules", gone))
		t.keep()
	}
}
