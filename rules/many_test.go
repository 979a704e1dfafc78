package rules

import (
	"runtime"
	"testing"
	"time"
)

// TestManyRows reports what 300,000 rows cost; the bounds leave room for slow
// machines.
func TestManyRows(t *testing.T) {
	d := migrated(t)
	d.exec(`INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, updated_at)
		SELECT 'shop-' || n, r, 1 + n % 1000, 1, now() - n * interval '1 second' FROM generate_series(1, 100000) AS n, unnest(ARRAY['create-order', 'list-orders', 'get-order']) AS r`)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	i := follow(t, d.url, nil)
	took := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap := float64(after.HeapAlloc-before.HeapAlloc) / (1 << 20)
	t.Logf("%d rows in %v, %.0f MB kept, %.0f MB from the system", i.current().RowCount(), took, heap, float64(after.Sys-before.Sys)/(1<<20))
	if i.current().RowCount() != 300_000 || took > 30*time.Second || heap > 150 {
		t.Errorf("%d rows, want 300000 in under 30 s and 150 MB", i.current().RowCount())
	}
	start = time.Now()
	i.table.Reload()
	eventually(t, "a second load", func() bool { return i.table.Status().Loads == 2 })
	runtime.ReadMemStats(&after)
	t.Logf("all rows again beside the old ones in %v, %.0f MB from the system", time.Since(start), float64(after.Sys-before.Sys)/(1<<20))
	loads := i.table.Status().Loads
	for n := range 3 {
		start = time.Now()
		d.exec("UPDATE rate_limit_rule SET capacity = $1 WHERE id = 150000", 5000+n)
		eventually(t, "one changed row", func() bool { r, _ := i.current().Row(150_000); return r.Capacity == int64(5000+n) })
		t.Logf("one changed row is live after %v", time.Since(start))
	}
	// Without a trigger, and by a query for what changed of late.
	d.exec("ALTER TABLE rate_limit_rule DISABLE TRIGGER USER")
	d.exec("UPDATE rate_limit_rule SET capacity = 7000, updated_at = now() + interval '5 minutes' WHERE id = 150000")
	start = time.Now()
	i.table.Look()
	eventually(t, "a row that nobody told of", func() bool { r, _ := i.current().Row(150_000); return r.Capacity == 7000 })
	t.Logf("one changed row without a trigger is live %v after a look", time.Since(start))
	if again := i.table.Status().Loads; again != loads {
		t.Errorf("%d loads where one row had to be fetched", again-loads)
	}
	d.exec("DELETE FROM rate_limit_rule WHERE id = 150000")
	start = time.Now()
	i.table.Look()
	eventually(t, "a deleted row that nobody told of", func() bool { return i.current().RowCount() == 299_999 })
	t.Logf("one deleted row without a trigger is gone %v after a look", time.Since(start))
}
