package rules

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

// A restart without the database comes up with the rules of the last run.
func TestSnapshot(t *testing.T) {
	p := ownServer(t)
	d := newDB(t, p)
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	d.add("secret-key", "r", 5)
	d.add("b", "r", 6)
	d.exec("UPDATE rate_limit_rule SET limit_name = 'nowhere' WHERE tenant_id = 'b'")
	d.exec("INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, expires_at) VALUES ('c', 'r', 7, 1, now() + interval '1 hour'), ('d', 'r', 8, 1, now() + interval '1 s')")
	path := filepath.Join(t.TempDir(), "state", "rules.snapshot")
	tune := func(o *TableOptions) {
		o.Snapshot = path
		o.Value = func(attribute, text string) string {
			if attribute == "tenant" {
				return "hash-of-" + strings.TrimPrefix(text, "secret-")
			}
			return text
		}
	}
	first := follow(t, d.url, tune)
	first.wants("hash-of-key", "r", 5)
	first.stop()
	p.Kill()
	time.Sleep(1100 * time.Millisecond) // the row of one second is over

	second := follow(t, d.url, tune)
	if got := second.capacity("hash-of-key", "r"); got != 5 {
		t.Errorf("capacity %d after a start without the database, want 5", got)
	}
	if n, bad := second.current().RowCount(), second.current().BadRowCount(); n != 3 || bad != 1 || second.capacity("hash-of-d", "r") != 0 {
		t.Errorf("%d rows, %d bad; want 3 and 1, without the one whose time is over", n, bad)
	}
	if s := second.table.Status(); !s.Stale || s.Problem == "" {
		t.Errorf("status %+v, want a stale one", s)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("secret-key")) || bytes.Contains(data, []byte(p.Password)) {
		t.Error("the snapshot holds a secret")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the snapshot's mode is %v, %v; want 0600", info.Mode(), err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("files left beside the snapshot: %q, %v", left, err)
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.conn = connectTo(t, d.url)
	d.exec("UPDATE rate_limit_rule SET capacity = 50 WHERE tenant_id = 'secret-key'")
	second.wants("hash-of-key", "r", 50)
}

func TestSnapshotIsDamaged(t *testing.T) {
	set := setOf(t, limitsYAML)
	e := set.Edit()
	for n := range 3 {
		if err := e.Put(policy.Row{ID: int64(n), Tenant: "a", Route: "b", Capacity: 5, Refill: 5}); err != nil {
			t.Fatal(err)
		}
	}
	var whole bytes.Buffer
	if err := writeSnapshot(&whole, "db", e.Set()); err != nil {
		t.Fatal(err)
	}
	rows := 0
	if err := readSnapshot(whole.Bytes(), "db", func(policy.Row) { rows++ }); err != nil || rows != 3 {
		t.Fatalf("%d rows, %v; want 3", rows, err)
	}
	if err := readSnapshot(whole.Bytes(), "db2", func(policy.Row) {}); err == nil {
		t.Error("a snapshot of another database is taken")
	}
	for i := range whole.Len() {
		damaged := bytes.Clone(whole.Bytes())
		damaged[i] ^= 1
		if err := readSnapshot(damaged, "db", func(policy.Row) {}); err == nil {
			t.Errorf("byte %d is not noticed", i)
		}
		if err := readSnapshot(whole.Bytes()[:i], "db", func(policy.Row) {}); err == nil {
			t.Errorf("an end at %d is not noticed", i)
		}
	}
	path := filepath.Join(t.TempDir(), "rules.snapshot")
	if err := os.WriteFile(path, []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := load(t, "postgres://postgres@"+ownPort(t)+"/x?connect_timeout=1", func(o *TableOptions) { o.Snapshot = path })
	if i.log.count("the snapshot of the rules cannot be read") != 1 || i.current() == nil {
		t.Errorf("the log does not tell of the snapshot:\n%s", i.log)
	}
}

// A folder that cannot be written to costs the snapshot alone.
func TestSnapshotCannotBeWritten(t *testing.T) {
	d := migrated(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	i := follow(t, d.url, func(o *TableOptions) { o.Snapshot = filepath.Join(file, "rules.snapshot") })
	d.add("a", "r", 5)
	i.wants("a", "r", 5)
	eventually(t, "a line about the snapshot", func() bool { return i.log.count("the snapshot of the rules cannot be written") == 1 })
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add([]byte(snapshotLine), []byte("\x02db\x00"))
	f.Fuzz(func(t *testing.T, data, body []byte) {
		// The first has no right sum, the second one has.
		_ = readSnapshot(data, "db", func(policy.Row) {})
		_ = readSnapshot(seal(append([]byte(snapshotLine), body...)), "db", func(policy.Row) {})
	})
}

// seal adds the sum of a snapshot.
func seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}
