package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
)

// A Change is what becomes of one row: it is new if there is none before, and
// gone if there is none after.
type Change struct{ Before, After *policy.Row }

// place returns the row that says whom the change is for.
func (c *Change) place() *policy.Row {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// A Plan is what an import or a rollback changes.
type Plan struct {
	// Changes are sorted by tenant, route and limit.
	Changes []Change
	// Same is how many rows stay as they are.
	Same int
	// Expired is how many rules of the file are left out, since their time is
	// over.
	Expired int
	// Unrecorded is how many of the rows that a rollback changes were changed
	// since without a record: they are not as the history says.
	Unrecorded int
}

// Count returns how many rows are added, changed and removed.
func (p *Plan) Count() (added, changed, removed int) {
	for _, c := range p.Changes {
		switch {
		case c.Before == nil:
			added++
		case c.After == nil:
			removed++
		default:
			changed++
		}
	}
	return added, changed, removed
}

func (p *Plan) sort() {
	slices.SortFunc(p.Changes, func(a, b Change) int {
		x, y := a.place(), b.place()
		return cmp.Or(strings.Compare(x.Tenant, y.Tenant), strings.Compare(x.Route, y.Route), strings.Compare(x.Limit, y.Limit), x.Expires.Compare(y.Expires))
	})
}

// ImportOptions say how an import is made.
type ImportOptions struct {
	// Prune removes the rows that the import lacks, those whose time is over
	// apart.
	Prune bool
	// DryRun changes nothing.
	DryRun bool
	// Actor is who imports, for the history; "" is the database's user.
	Actor string
}

// Import makes the rows of the table those that are given, of which no two may
// be for the same tenant, route and limit unless one is temporary. All is done
// in one transaction, or nothing; others wait with their changes meanwhile. The
// plan returned is what was changed or, in a dry run, would be.
func (r *Records) Import(ctx context.Context, rows []policy.Row, o ImportOptions) (Plan, error) {
	var p Plan
	tx := pgx.TxOptions{}
	if o.DryRun {
		tx.AccessMode = pgx.ReadOnly
	}
	err := r.transact(ctx, o.Actor, tx, func(s *session) error {
		if err := s.alone(ctx, o.DryRun); err != nil {
			return err
		}
		var clock time.Time
		if err := s.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&clock); err != nil {
			return err
		}
		now, err := s.rows(ctx, s.columns.rows("true"))
		if err != nil {
			return err
		}
		p = compareRows(now, rows, clock, o.Prune)
		if o.DryRun {
			return nil
		}
		return s.apply(ctx, &p)
	})
	return p, err
}

// alone keeps others from changing rules until the transaction ends; they can
// still be read.
func (s *session) alone(ctx context.Context, dryRun bool) error {
	if dryRun {
		return nil
	}
	_, err := s.Exec(ctx, "LOCK TABLE rate_limit_rule IN SHARE ROW EXCLUSIVE MODE")
	return err
}

// compareRows says what makes some rows others.
func compareRows(now, want []policy.Row, clock time.Time, prune bool) Plan {
	var p Plan
	there := make(map[spot]*policy.Row, len(now))
	for i := range now {
		// Of two for the same spot the one with the larger number counts.
		if old := there[spotOf(&now[i])]; old == nil || old.ID < now[i].ID {
			there[spotOf(&now[i])] = &now[i]
		}
	}
	kept := make(map[int64]bool, len(want))
	for i := range want {
		w := &want[i]
		if !w.Expires.IsZero() && !w.Expires.After(clock) {
			p.Expired++
			continue
		}
		old := there[spotOf(w)]
		if old != nil {
			kept[old.ID] = true
		}
		if old != nil && alike(old, w) {
			p.Same++
			continue
		}
		p.Changes = append(p.Changes, Change{Before: old, After: w})
	}
	for i := range now {
		if prune && !kept[now[i].ID] {
			p.Changes = append(p.Changes, Change{Before: &now[i]})
		}
	}
	p.sort()
	return p
}

// apply makes the changes of a plan, each kind in one statement.
func (s *session) apply(ctx context.Context, p *Plan) error {
	var gone []int64
	var added, changed batch
	for _, c := range p.Changes {
		var err error
		switch {
		case c.After == nil:
			gone = append(gone, c.Before.ID)
		case c.Before == nil:
			err = added.add(&s.columns, 0, c.After)
		default:
			err = changed.add(&s.columns, c.Before.ID, c.After)
		}
		if err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		if _, err := s.Exec(ctx, "DELETE FROM rate_limit_rule WHERE id = ANY ($1)", gone); err != nil {
			return err
		}
	}
	return cmp.Or(s.change(ctx, &changed), s.add(ctx, &added))
}

// A batch holds rows column by column, as one statement takes them.
type batch struct {
	ids                []int64
	tenants, routes    []string
	capacities, refill []int64
	limits, periods    []string
	algorithms         []string
	expires            []*time.Time
}

func (b *batch) add(c *columns, id int64, r *policy.Row) error {
	if _, err := c.assign(r); err != nil {
		return err
	}
	b.ids = append(b.ids, id)
	b.tenants, b.routes = append(b.tenants, r.Tenant), append(b.routes, r.Route)
	b.capacities, b.refill = append(b.capacities, r.Capacity), append(b.refill, r.Refill)
	b.limits, b.periods = append(b.limits, r.Limit), append(b.periods, c.period(r.Period))
	b.algorithms, b.expires = append(b.algorithms, r.Algorithm), append(b.expires, orNil(r.Expires))
	return nil
}

// batchFrom is a table of the rows of a batch.
const batchFrom = `unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::timestamptz[])
	AS n (id, tenant_id, route_id, capacity, refill_per_second, limit_name, period, algorithm, expires_at)`

func (b *batch) args() []any {
	return []any{b.ids, b.tenants, b.routes, b.capacities, b.refill, b.limits, b.periods, b.algorithms, b.expires}
}

// filled returns the columns that a batch fills and the values they get.
func (c *columns) filled() (names, values []string) {
	for _, name := range []string{"tenant_id", "route_id", "capacity", "refill_per_second", "limit_name", "period", "algorithm", "expires_at"} {
		kind := c.types[name]
		if kind == "" {
			continue
		}
		value := "n." + name
		switch name {
		case "limit_name", "period", "algorithm":
			value = "nullif(" + value + ", '')"
		}
		names, values = append(names, name), append(values, value+"::"+kind)
	}
	if c.updated {
		names, values = append(names, "updated_at"), append(values, "now()")
	}
	return names, values
}

func (s *session) add(ctx context.Context, b *batch) error {
	if len(b.ids) == 0 {
		return nil
	}
	if s.columns.types["expires_at"] != "" {
		// What expired is in the way of what takes its place.
		query := fmt.Sprintf(`DELETE FROM rate_limit_rule WHERE NOT %s AND (tenant_id, route_id) IN
			(SELECT n.t::%s, n.r::%s FROM unnest($1::text[], $2::text[]) AS n (t, r))`, s.columns.live, s.columns.types["tenant_id"], s.columns.types["route_id"])
		if _, err := s.Exec(ctx, query, b.tenants, b.routes); err != nil {
			return err
		}
	}
	names, values := s.columns.filled()
	_, err := s.Exec(ctx, fmt.Sprintf("INSERT INTO rate_limit_rule (%s) SELECT %s FROM %s", strings.Join(names, ", "), strings.Join(values, ", "), batchFrom), b.args()...)
	return err
}

func (s *session) change(ctx context.Context, b *batch) error {
	if len(b.ids) == 0 {
		return nil
	}
	names, values := s.columns.filled()
	sets := make([]string, len(names))
	for i := range names {
		sets[i] = names[i] + " = " + values[i]
	}
	_, err := s.Exec(ctx, fmt.Sprintf("UPDATE rate_limit_rule AS r SET %s FROM %s WHERE r.id = n.id", strings.Join(sets, ", "), batchFrom), b.args()...)
	return err
}
