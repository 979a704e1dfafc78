package rules

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The table that exists is used as it is: no further columns, no trigger.
func TestTableAsItIs(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec(tableSQL)
	d.add("shop-a", "create-order", 200)
	d.add("*", "login", 7)
	i := follow(t, d.url, func(o *TableOptions) { o.Poll = 20 * time.Millisecond })
	if got := i.capacity("shop-a", "create-order"); got != 200 {
		t.Errorf("capacity %d after Load, want 200", got)
	}
	if i.log.count("run sluice rules migrate") != 1 {
		t.Errorf("the log does not say that no trigger is there:\n%s", i.log)
	}
	d.add("shop-b", "*", 9)
	i.wants("shop-b", "*", 9)
	d.exec("UPDATE rate_limit_rule SET capacity = 201 WHERE tenant_id = 'shop-a'") // updated_at stays
	i.wants("shop-a", "create-order", 201)
	d.exec("DELETE FROM rate_limit_rule WHERE tenant_id = 'shop-a'")
	i.wants("shop-a", "create-order", 0)
	d.exec("UPDATE rate_limit_rule SET id = id + 100")
	eventually(t, "the new numbers of rows", func() bool { _, ok := i.current().Row(102); return ok && i.current().RowCount() == 2 })
	loads := i.table.Status().Loads
	time.Sleep(100 * time.Millisecond) // several polls
	if again := i.table.Status().Loads; again != loads {
		t.Errorf("%d loads of a table that does not change", again-loads)
	}
}

func TestNotifyAtOnce(t *testing.T) {
	d := migrated(t)
	i := follow(t, d.url, nil) // no poll within the test
	d.add("shop-a", "r", 1)
	i.wants("shop-a", "r", 1)
	d.exec("UPDATE rate_limit_rule SET capacity = 2, tenant_id = 'shop-b'")
	i.wants("shop-b", "r", 2)
	i.wants("shop-a", "r", 0)
	d.exec("INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) VALUES ('shop-b', 'r', 3, 1) ON CONFLICT (tenant_id, route_id) DO UPDATE SET capacity = excluded.capacity")
	i.wants("shop-b", "r", 3)
	d.exec("DELETE FROM rate_limit_rule")
	i.wants("shop-b", "r", 0)
	d.exec("INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) SELECT 't' || n, 'r', n, 1 FROM generate_series(1, 5000) AS n")
	i.wants("t5000", "r", 5000)
	if n := i.current().RowCount(); n != 5000 {
		t.Errorf("%d rows, want 5000", n)
	}
	d.exec("TRUNCATE rate_limit_rule")
	eventually(t, "an empty table", func() bool { return i.current().RowCount() == 0 })
}

// A transaction that is rolled back changes nothing, one under way neither.
func TestNotifyAfterCommit(t *testing.T) {
	d := migrated(t)
	i := follow(t, d.url, nil)
	d.exec("BEGIN")
	d.add("a", "r", 1)
	d.exec("ROLLBACK")
	d.exec("BEGIN")
	d.add("b", "r", 2)
	if i.current().RowCount() != 0 {
		t.Error("a row counts before it is committed")
	}
	d.exec("COMMIT")
	i.wants("b", "r", 2)
	if got := i.capacity("a", "r"); got != 0 {
		t.Errorf("capacity %d by a row that was rolled back", got)
	}
}

func TestOptionalColumns(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec(tableSQL)
	d.exec("ALTER TABLE rate_limit_rule ADD limit_name VARCHAR(40), ADD period INTERVAL, ADD algorithm TEXT, ADD expires_at TIMESTAMPTZ, ADD note TEXT")
	d.exec(`INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, limit_name, period, algorithm, expires_at) VALUES
		('a', 'r', 20, 5, NULL, '15 minutes', NULL, 'infinity'),
		('b', '*', 9, 9, 'login', '1 hour', NULL, NULL),
		('c', '*', 8, 8, 'tenant-route', NULL, 'fixed_window', now() + interval '1 day'),
		('d', 'r', 8, 8, NULL, NULL, NULL, now() - interval '1 second'),
		('e', 'r', 8, 8, NULL, NULL, NULL, '-infinity')`)
	i := load(t, d.url, nil)
	defer i.table.Close()
	if n, bad := i.current().RowCount(), i.current().BadRows(10); n != 3 || len(bad) > 0 {
		t.Errorf("%d rows, bad %+v; want 3, those that have not expired", n, bad)
	}
	r, _ := i.current().Row(1)
	if r.Period != "900000000us" || !r.Expires.IsZero() {
		t.Errorf("row %+v, want a period of 15 minutes and no end", r)
	}
	if r, _ := i.current().Row(3); r.Expires.IsZero() || r.Algorithm != "fixed_window" || r.Limit != "tenant-route" {
		t.Errorf("row %+v, want limit, algorithm and an end", r)
	}
}

// Columns that come while it runs are read from then on.
func TestColumnsAreAddedLater(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec(tableSQL)
	d.add("a", "r", 5)
	i := follow(t, d.url, func(o *TableOptions) { o.Poll = 20 * time.Millisecond })
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	d.exec("UPDATE rate_limit_rule SET limit_name = 'nowhere'")
	eventually(t, "a row of an unknown limit", func() bool { return i.current().BadRowCount() == 1 })
}

func TestTemporaryRows(t *testing.T) {
	d := migrated(t)
	d.exec("ALTER TABLE rate_limit_rule DROP CONSTRAINT rate_limit_rule_tenant_id_route_id_key")
	d.add("a", "r", 10)
	i := follow(t, d.url, nil) // no poll, and nothing is notified when time passes
	d.exec("INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, expires_at) VALUES ('a', 'r', 99, 1, now() + interval '700 ms'), ('b', 'r', 5, 1, now() + interval '1 hour')")
	eventually(t, "the temporary rows", func() bool { return i.current().RowCount() == 3 })
	eventually(t, "the end of one", func() bool { return i.current().RowCount() == 2 })
	i.wants("a", "r", 10)
	d.exec("UPDATE rate_limit_rule SET expires_at = NULL WHERE tenant_id = 'a'") // comes back
	eventually(t, "the row that was made to stay", func() bool { return i.current().RowCount() == 3 })
	loads := i.table.Status().Loads
	d.exec("UPDATE rate_limit_rule SET expires_at = now() WHERE tenant_id = 'b'")
	i.wants("b", "r", 0)
	if again := i.table.Status().Loads; again != loads {
		t.Errorf("%d loads where single rows had to be fetched", again-loads)
	}
}

// Bad rows are skipped one by one, and told of once.
func TestBadRows(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec("CREATE TABLE rate_limit_rule (id BIGINT, tenant_id TEXT, route_id TEXT, capacity BIGINT, refill_per_second BIGINT, limit_name TEXT, period TEXT, algorithm TEXT)")
	d.exec(`INSERT INTO rate_limit_rule VALUES
		(1, 'good', 'r', 5, 5, NULL, NULL, NULL),
		(2, 'a', 'r', -5, 5, NULL, NULL, NULL),
		(3, 'b', 'r', 9223372036854775807, 5, NULL, NULL, NULL),
		(4, 'c', 'r', 5, 5, 'nowhere', NULL, NULL),
		(5, 'd', 'r', 5, 5, NULL, NULL, 'leaky'),
		(6, 'e', 'r', 5, 5, NULL, 'soon', NULL),
		(7, NULL, 'r', 5, 5, NULL, NULL, NULL),
		(8, 'f', 'r', NULL, 5, NULL, NULL, NULL)`)
	i := follow(t, d.url, func(o *TableOptions) { o.Poll = 10 * time.Millisecond })
	if n := i.current().BadRowCount(); n != 7 || i.capacity("good", "r") != 5 {
		t.Errorf("%d bad rows, capacity %d for the good one; want 7 and 5", n, i.capacity("good", "r"))
	}
	d.exec("INSERT INTO rate_limit_rule VALUES (9, 'good2', 'r', 6, 5)")
	i.wants("good2", "r", 6)
	for id := 2; id <= 8; id++ {
		if n := i.log.count(fmt.Sprintf("rule skipped\" database=%s id=%d ", i.table.source.name, id)); n != 1 {
			t.Errorf("row %d is told of %d times, want once:\n%s", id, n, i.log)
		}
	}
	d.exec("UPDATE rate_limit_rule SET capacity = 3 WHERE id IN (2, 8)")
	eventually(t, "two rows mended", func() bool { return i.current().BadRowCount() == 5 })
}

// A table or view without a key is followed all the same.
func TestIDsAreNotUnique(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec("CREATE TABLE limits_of_shops (id INT, tenant_id TEXT, route_id TEXT, capacity INT, refill_per_second INT)")
	d.exec("CREATE VIEW rate_limit_rule AS SELECT * FROM limits_of_shops")
	d.exec("INSERT INTO limits_of_shops VALUES (1, 'a', 'r', 5, 5), (1, 'b', 'r', 6, 5), (2, 'c', 'r', 7, 5)")
	i := follow(t, d.url, func(o *TableOptions) { o.Poll = 10 * time.Millisecond })
	i.wants("c", "r", 7)
	d.exec("UPDATE limits_of_shops SET capacity = 8 WHERE id = 2")
	i.wants("c", "r", 8)
	if n := i.log.count("rows share an id"); n != 1 {
		t.Errorf("told %d times that rows share an id, want once", n)
	}
}

// What tenants are called never becomes part of a question.
func TestNamesAreOnlyNames(t *testing.T) {
	d := migrated(t)
	names := []string{
		"'; DROP TABLE rate_limit_rule; --", `"; DELETE FROM rate_limit_rule; --`, "$1", "\\", "a,b", "(1,2)", "*'", "%", "NULL", "shop\n-a", "é\u202e", "1 OR 1=1", "{}", `{"a"}`,
	}
	i := follow(t, d.url, nil)
	for n, name := range names {
		d.add(name, name, 100+n)
	}
	for n, name := range names {
		i.wants(name, name, int64(100+n))
	}
	d.exec("SELECT pg_notify('rate_limit_rule', $1)", "1); DROP TABLE rate_limit_rule; --")
	d.exec("SELECT pg_notify('rate_limit_rule', $1)", strings.Repeat("9", 7000))
	d.exec("SELECT pg_notify('rate_limit_rule', '')")
	d.add("last", "r", 5)
	i.wants("last", "r", 5)
	if n := i.current().RowCount(); n != len(names)+1 {
		t.Errorf("%d rows, want %d", n, len(names)+1)
	}
}

// 10,000 changes in a moment are gathered, and afterwards all are there.
func TestNotifyStorm(t *testing.T) {
	d := migrated(t)
	d.exec("INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) SELECT 't' || n, 'r', 1, 1 FROM generate_series(1, 10000) AS n")
	i := follow(t, d.url, nil)
	before := i.publications()
	start := time.Now()
	batch := &pgx.Batch{}
	for n := range 10_000 {
		batch.Queue("UPDATE rate_limit_rule SET capacity = 2 WHERE tenant_id = 't' || $1::int", n+1)
		if batch.Len() == 500 { // each batch is a transaction with so many notifications
			if err := d.conn.SendBatch(t.Context(), batch).Close(); err != nil {
				t.Fatal(err)
			}
			batch = &pgx.Batch{}
		}
	}
	took := time.Since(start)
	eventually(t, "all changes", func() bool {
		for r := range i.current().Rows() {
			if r.Capacity != 2 {
				return false
			}
		}
		return true
	})
	n := i.publications() - before
	t.Logf("10,000 changes in %v: %d publications", took, n)
	if most := 3 + int(2*time.Since(start)/defaultTableSettle); n > most {
		t.Errorf("%d publications, want at most one in 50 ms", n)
	}
}

// Two writers and two instances: in the end all agree.
func TestTwoInstancesAgree(t *testing.T) {
	d := migrated(t)
	a, b := follow(t, d.url, nil), follow(t, d.url, nil)
	var writers sync.WaitGroup
	for w := range 2 {
		conn := connectTo(t, d.url)
		writers.Go(func() {
			for n := range 300 {
				if _, err := conn.Exec(t.Context(), "INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) VALUES ($1, 'r', $2, 1) ON CONFLICT (tenant_id, route_id) DO UPDATE SET capacity = excluded.capacity",
					fmt.Sprint("t", n%37), 1+n*2+w); err != nil {
					t.Error(err)
					return
				}
				if n%11 == w {
					if _, err := conn.Exec(t.Context(), "DELETE FROM rate_limit_rule WHERE tenant_id = $1", fmt.Sprint("t", (n+5)%37)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	want := map[int64]int64{}
	rows, err := d.conn.Query(t.Context(), "SELECT id, capacity FROM rate_limit_rule")
	if err != nil {
		t.Fatal(err)
	}
	var id, capacity int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &capacity}, func() error { want[id] = capacity; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, i := range []*instance{a, b} {
		eventually(t, "the rows of the table", func() bool {
			set := i.current()
			for id, capacity := range want {
				if r, ok := set.Row(id); !ok || r.Capacity != capacity {
					return false
				}
			}
			return set.RowCount() == len(want)
		})
	}
}

func TestTriggerIsDropped(t *testing.T) {
	d := migrated(t)
	i := follow(t, d.url, func(o *TableOptions) { o.Poll = 20 * time.Millisecond })
	d.exec("DROP TRIGGER rate_limit_rule_notify_insert ON rate_limit_rule")
	d.add("a", "r", 5)
	i.wants("a", "r", 5)
	eventually(t, "a line about the trigger", func() bool { return i.log.count("no trigger tells of changes") == 1 })
	if made, err := Migrate(t.Context(), d.url); err != nil || len(made) > 0 {
		t.Fatalf("Migrate = %q, %v, want nothing but the trigger", made, err)
	}
	eventually(t, "a line about the trigger", func() bool { return i.log.count("told by the database at once") == 2 })
}

// Whoever may only read follows by polling.
func TestNoRightToMakeTriggers(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec(tableSQL)
	user := "reader_" + d.name
	d.exec("CREATE ROLE " + user + " LOGIN PASSWORD 'word'")
	d.exec("GRANT SELECT ON rate_limit_rule TO " + user)
	url := d.as(user, "word")
	if _, err := Migrate(t.Context(), url); err == nil || !strings.Contains(err.Error(), "run it as the owner of the table") {
		t.Errorf("Migrate by a reader = %v, want an error that says who may", err)
	}
	i := follow(t, url, func(o *TableOptions) { o.Poll = 20 * time.Millisecond })
	d.add("a", "r", 5)
	i.wants("a", "r", 5)
	if s := i.table.Status(); s.Stale {
		t.Errorf("status %+v, want one that is not stale", s)
	}
}

// Messages that lead nowhere cost the database a look each half second, not each
// time.
func TestNonsenseIsNotLookedAtEachTime(t *testing.T) {
	d := migrated(t)
	i := follow(t, d.url, nil)
	start := time.Now()
	for n := range 400 {
		d.exec("SELECT pg_notify('rate_limit_rule', $1)", fmt.Sprint("nonsense ", n))
	}
	d.add("a", "r", 5)
	i.wants("a", "r", 5)
	i.stop()
	most := 2 + int64(time.Since(start)/lookGap)
	if n := i.table.looks; n > most {
		t.Errorf("%d looks at the table in %v, want at most %d", n, time.Since(start), most)
	}
}

func TestNoTable(t *testing.T) {
	d := newDB(t, sharedServer(t))
	i := follow(t, d.url, nil)
	if s := i.table.Status(); !s.Stale || !strings.Contains(s.Problem, "run sluice rules migrate") {
		t.Errorf("status %+v, want it to say what to run", s)
	}
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	d.add("a", "r", 5)
	i.wants("a", "r", 5)
	d.exec("ALTER TABLE rate_limit_rule DROP COLUMN capacity")
	i.table.Look()
	eventually(t, "an error that names the column", func() bool {
		return strings.Contains(i.table.Status().Problem, "rate_limit_rule has no column capacity")
	})
	if i.capacity("a", "r") != 5 {
		t.Error("the last rows did not stay")
	}
}

func TestMigrateTwiceAtOnce(t *testing.T) {
	d := newDB(t, sharedServer(t))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := Migrate(t.Context(), d.url); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.add("a", "r", 5)
	d.exec("UPDATE rate_limit_rule SET period = '15m', expires_at = now(), algorithm = 'gcra', limit_name = 'x'")
}
