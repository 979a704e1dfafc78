package rules

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-limiter/sluice/policy"
)

func recordsOf(t testing.TB, url string) *Records {
	t.Helper()
	r, err := NewRecords(url)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rule makes a row of a rule for one tenant on one route.
func rule(t testing.TB, tenant, route, rate string, burst int64) policy.Row {
	t.Helper()
	row, err := Rule{Tenant: tenant, Route: route, Rate: rate, Burst: burst}.Row(nil)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// put writes a row that must be written.
func (r *Records) mustPut(t testing.TB, row policy.Row) policy.Row {
	t.Helper()
	_, now, err := r.Put(t.Context(), Write{Row: row, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// says lists all rows as people write them.
func (r *Records) says(t testing.TB) []string {
	t.Helper()
	rows, err := r.List(t.Context(), Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, row := range rows {
		all = append(all, row.Tenant+" "+row.Route+" "+RuleOf(row).Says())
	}
	return all
}

func wantSays(t testing.TB, r *Records, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.says(t), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestPut(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	first := r.mustPut(t, rule(t, "shop-a", "create-order", "100/s", 200))
	if first.ID == 0 || first.Capacity != 200 || first.Sum == 0 {
		t.Fatalf("Put = %+v", first)
	}
	before, now, err := r.Put(t.Context(), Write{Row: rule(t, "shop-a", "create-order", "5/15m", 0), Actor: "alice"})
	if err != nil || before == nil || before.Sum != first.Sum || now.ID != first.ID || now.Period != "15m" || now.Sum == first.Sum {
		t.Fatalf("Put = %+v, %+v, %v; want the row changed", before, now, err)
	}
	// A version is one of contents.
	for _, tt := range []struct {
		expect Expectation
		taken  bool
	}{
		{Expectation{Version: Version(&first)}, false},
		{Expectation{Absent: true}, false},
		{Expectation{Version: Version(&now)}, true},
		{Expectation{Version: "*"}, true},
	} {
		_, _, err := r.Put(t.Context(), Write{Row: rule(t, "shop-a", "create-order", "5/15m", 0), Expect: tt.expect})
		var conflict *ConflictError
		if tt.taken != (err == nil) || !tt.taken && (!errors.As(err, &conflict) || conflict.Now.ID != first.ID) {
			t.Errorf("Put expecting %+v: %v, want it taken: %v", tt.expect, err, tt.taken)
		}
	}
	var conflict *ConflictError
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "shop-b", "*", "1/s", 0), Expect: Expectation{Version: "*"}}); !errors.As(err, &conflict) || conflict.Now.ID != 0 {
		t.Errorf("Put of what is not there: %v, want a conflict", err)
	}
	byID := now
	byID.Tenant, byID.Capacity, byID.Refill, byID.Period = "ignored", 7, 7, ""
	if _, now, err = r.Put(t.Context(), Write{Row: byID}); err != nil || now.Tenant != "shop-a" || now.Capacity != 7 {
		t.Errorf("Put by number = %+v, %v", now, err)
	}
	byID.ID = 999
	if _, _, err = r.Put(t.Context(), Write{Row: byID}); !errors.Is(err, ErrNoRow) {
		t.Errorf("Put of number 999: %v, want ErrNoRow", err)
	}
	if _, err := r.Delete(t.Context(), now.ID, Expectation{Version: "0"}, ""); !errors.As(err, &conflict) {
		t.Errorf("Delete of another version: %v, want a conflict", err)
	}
	if gone, err := r.Delete(t.Context(), now.ID, Expectation{Version: Version(&now)}, ""); err != nil || gone.Capacity != 7 {
		t.Errorf("Delete = %+v, %v", gone, err)
	}
	if _, err := r.Delete(t.Context(), now.ID, Expectation{}, ""); !errors.Is(err, ErrNoRow) {
		t.Errorf("Delete again: %v, want ErrNoRow", err)
	}
	wantSays(t, r)
}

// Of writers that saw the same version one wins.
func TestConcurrentPut(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	first := r.mustPut(t, rule(t, "a", "r", "1/s", 0))
	race := func(what string, expect Expectation, tenant string) {
		t.Helper()
		var wins, losses int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 8 {
			row := rule(t, tenant, "r", fmt.Sprintf("%d/s", i+2), 0)
			all.Go(func() {
				_, _, err := r.Put(t.Context(), Write{Row: row, Expect: expect})
				mu.Lock()
				defer mu.Unlock()
				var conflict *ConflictError
				switch {
				case err == nil:
					wins++
				case errors.As(err, &conflict):
					losses++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if wins != 1 || losses != 7 {
			t.Errorf("%s: %d won and %d lost, want 1 and 7", what, wins, losses)
		}
	}
	race("changes", Expectation{Version: Version(&first)}, "a")
	race("new rules", Expectation{Absent: true}, "b")
	// Imports and single writes do not lock each other out for ever.
	var all sync.WaitGroup
	for i := range 10 {
		row := rule(t, "a", "r", fmt.Sprintf("%d/s", i+100), 0)
		all.Go(func() {
			if _, err := r.Import(t.Context(), []policy.Row{row}, ImportOptions{}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { r.mustPut(t, row) })
	}
	all.Wait()
}

// Names are values, whatever they hold.
func TestNamesAreNoSQL(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	names := []string{
		"'; DROP TABLE rate_limit_rule; --", `"`, `\`, "$1", "a' OR '1'='1", "%", "a\nb", "é世", "{a,b}", "NULL", "/*", "\x01",
	}
	var rows []policy.Row
	for _, name := range names {
		row := rule(t, name, name, "1/s", 0)
		row.Limit = name
		now := r.mustPut(t, row)
		found, err := r.List(t.Context(), Filter{Tenant: name, Route: name, Limit: name}, 10)
		if err != nil || len(found) != 1 || found[0].ID != now.ID || found[0].Tenant != name {
			t.Errorf("List(%q) = %+v, %v", name, found, err)
		}
		events, _, err := r.History(t.Context(), Filter{Tenant: name, Route: name, Limit: name}, 10)
		if err != nil || len(events) != 1 {
			t.Errorf("History(%q) = %+v, %v", name, events, err)
		}
		rows = append(rows, now)
	}
	if p, err := r.Import(t.Context(), rows, ImportOptions{Prune: true}); err != nil || len(p.Changes) != 0 || p.Same != len(names) {
		t.Errorf("Import = %+v, %v; want no change", p, err)
	}
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, strings.Repeat("x", 65), "r", "1/s", 0)}); err == nil || !strings.Contains(err.Error(), "longer than its column") {
		t.Errorf("Put of a long tenant: %v", err)
	}
	for _, name := range []string{"a\x00b", "\xff", ""} {
		if _, err := (Rule{Tenant: name, Route: "r", Rate: "1/s"}).Row(nil); err == nil {
			t.Errorf("Row of tenant %q: no error", name)
		}
	}
}

// A table as it is has room for what its columns say.
func TestPutIntoTableAsItIs(t *testing.T) {
	d := newDB(t, sharedServer(t))
	r := recordsOf(t, d.url)
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "a", "r", "1/s", 0)}); !errors.Is(err, ErrNoTable) {
		t.Errorf("Put without a table: %v, want ErrNoTable", err)
	}
	d.exec(tableSQL)
	r.mustPut(t, rule(t, "a", "r", "100/s", 200))
	r.mustPut(t, rule(t, "a", "r", "101/s", 200))
	wantSays(t, r, "a r 101/s burst 200")
	named := rule(t, "a", "r", "1/s", 0)
	named.Limit = "x"
	temporary := rule(t, "a", "r", "1/s", 0)
	temporary.Expires = time.Now().Add(time.Hour)
	algorithm := rule(t, "a", "r", "1/s", 0)
	algorithm.Algorithm = "sliding_log"
	for want, row := range map[string]policy.Row{
		"needs the column period": rule(t, "a", "r", "5/15m", 0), "needs the column limit_name": named,
		"needs the column expires_at": temporary, "needs the column algorithm": algorithm,
	} {
		_, _, err := r.Put(t.Context(), Write{Row: row})
		_, imported := r.Import(t.Context(), []policy.Row{row}, ImportOptions{})
		for _, err := range []error{err, imported} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "run sluice rules migrate") {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "a", "r", "4000000000/2h", 0)}); err == nil {
		t.Error("no error for a rate that needs a period")
	}
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "a", "r", "1000/s", 3_000_000_000)}); err == nil || !strings.Contains(err.Error(), "larger than its column") {
		t.Errorf("Put of a burst that INT does not hold: %v", err)
	}
	if _, _, err := r.History(t.Context(), Filter{}, 10); !errors.Is(err, ErrNoHistory) {
		t.Errorf("History: %v, want ErrNoHistory", err)
	}
	if _, err := r.Rollback(t.Context(), Rollback{To: Point{Time: time.Now()}}); !errors.Is(err, ErrNoHistory) {
		t.Errorf("Rollback: %v, want ErrNoHistory", err)
	}
}

// Columns of other types are written in their words.
func TestPutOtherTypes(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec(`CREATE TABLE rate_limit_rule (id INT GENERATED ALWAYS AS IDENTITY, tenant_id UUID, route_id TEXT, capacity BIGINT, refill_per_second BIGINT,
		period INTERVAL, expires_at TIMESTAMP, twice BIGINT GENERATED ALWAYS AS (capacity * 2) STORED)`)
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	r := recordsOf(t, d.url)
	row := rule(t, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "r", "5/15m", 9)
	row.Expires = time.Now().Add(time.Hour).Truncate(time.Microsecond)
	now := r.mustPut(t, row)
	if !alike(&now, &row) || now.Tenant != row.Tenant {
		t.Errorf("Put = %+v, want %+v", now, row)
	}
	if p, err := r.Import(t.Context(), []policy.Row{row}, ImportOptions{Prune: true}); err != nil || p.Same != 1 || len(p.Changes) != 0 {
		t.Errorf("Import = %+v, %v, want no change", p, err)
	}
	row.Capacity = 10
	if p, err := r.Import(t.Context(), []policy.Row{row}, ImportOptions{}); err != nil || len(p.Changes) != 1 {
		t.Errorf("Import = %+v, %v, want a change", p, err)
	}
	if _, err := r.Delete(t.Context(), now.ID, Expectation{}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rollback(t.Context(), Rollback{To: Point{Before: 2}}); err != nil {
		t.Fatal(err)
	}
	back, err := r.List(t.Context(), Filter{}, 0)
	if err != nil || len(back) != 1 || !alike(&back[0], &now) || back[0].ID != now.ID {
		t.Errorf("after the rollback %+v, %v, want %+v", back, err, now)
	}
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "no-uuid", "r", "1/s", 0)}); !errors.Is(err, ErrValue) {
		t.Errorf("Put of a tenant that is no UUID: %v, want ErrValue", err)
	}
	d.exec("INSERT INTO rate_limit_rule (route_id) VALUES (NULL); UPDATE rate_limit_rule SET capacity = 1; DELETE FROM rate_limit_rule")
}

// A temporary rule goes in front of a lasting one and goes away by itself.
func TestTemporary(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	i := follow(t, d.url, nil)
	r.mustPut(t, rule(t, "a", "r", "10/s", 0))
	raise := Write{Row: rule(t, "a", "r", "100/s", 0), For: 700 * time.Millisecond}
	if _, _, err := r.Put(t.Context(), raise); !errors.Is(err, ErrTaken) {
		t.Fatalf("Put beside a lasting rule: %v, want ErrTaken", err)
	}
	if err := AllowSeveral(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	if err := AllowSeveral(t.Context(), d.url); err != nil { // again
		t.Fatal(err)
	}
	holds := func(capacity int64) func() bool {
		return func() bool {
			x := i.current().Explain(policy.Request{Attributes: func(name string) string {
				return map[string]string{"tenant": "a", "route": "r"}[name]
			}})
			return x[0].Chosen.Limit.Capacity() == capacity
		}
	}
	if before, _, err := r.Put(t.Context(), raise); err != nil || before != nil {
		t.Fatalf("Put = %+v, %v", before, err)
	}
	eventually(t, "the raise", holds(100))
	eventually(t, "the end of the raise", holds(10))
	eventually(t, "the end of the raise in the database", func() bool { return len(r.says(t)) == 1 })
	// The expired row makes room for the next.
	if before, _, err := r.Put(t.Context(), Write{Row: raise.Row, For: time.Hour}); err != nil || before != nil {
		t.Fatalf("Put = %+v, %v", before, err)
	}
	var n int
	if err := d.conn.QueryRow(t.Context(), "SELECT count(*) FROM rate_limit_rule").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v; want 2", n, err)
	}
}

func TestImport(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	var rows []policy.Row
	for n := range 10_000 {
		rows = append(rows, rule(t, fmt.Sprintf("tenant-%d", n), "r", "5/15m", int64(n+1)))
	}
	rows[7].Limit, rows[8].Algorithm, rows[9].Expires = "login", "token_bucket", time.Now().Add(time.Hour)
	dry, err := r.Import(t.Context(), rows, ImportOptions{DryRun: true})
	if added, _, _ := dry.Count(); err != nil || added != len(rows) || len(r.says(t)) != 0 {
		t.Fatalf("dry run: %d added, %v", added, err)
	}
	if _, err := r.Import(t.Context(), rows, ImportOptions{Actor: "importer"}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	exported, err := r.List(t.Context(), Filter{}, 0)
	if err != nil || len(exported) != len(rows) {
		t.Fatalf("List: %d rows, %v", len(exported), err)
	}
	if err := WriteFile(&file, exported); err != nil {
		t.Fatal(err)
	}
	again, err := ReadFile("rules.yaml", file.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.Import(t.Context(), again, ImportOptions{Prune: true}); err != nil || len(p.Changes) != 0 || p.Same != len(rows) {
		t.Errorf("what was exported, imported: %d changes, %d the same, %v", len(p.Changes), p.Same, err)
	}
	again[0].Refill++
	expired := again[2]
	expired.Expires = time.Now().Add(-time.Minute)
	fewer := append(again[:2:2], expired)
	p, err := r.Import(t.Context(), fewer, ImportOptions{})
	if added, changed, removed := p.Count(); err != nil || added != 0 || changed != 1 || removed != 0 || p.Expired != 1 {
		t.Errorf("Import: %d added, %d changed, %d removed, %d expired, %v", added, changed, removed, p.Expired, err)
	}
	p, err = r.Import(t.Context(), fewer, ImportOptions{Prune: true})
	if _, _, removed := p.Count(); err != nil || removed != len(rows)-2 || len(r.says(t)) != 2 {
		t.Errorf("%d removed, %v", removed, err)
	}
	// All or nothing.
	tooLong := append(again[:5:5], rule(t, strings.Repeat("x", 65), "r", "1/s", 0))
	if _, err := r.Import(t.Context(), tooLong, ImportOptions{}); err == nil || len(r.says(t)) != 2 {
		t.Errorf("Import with a bad row: %v, want an error and nothing changed", err)
	}
}
