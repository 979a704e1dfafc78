package server

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/rules"
	"github.com/sluice-limiter/sluice/servers"
)

// A rulesDB is a database with the table of rules.
type rulesDB struct {
	*servers.Postgres
	t    testing.TB
	conn *pgx.Conn
}

func newRulesDB(t testing.TB) *rulesDB {
	t.Helper()
	p, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if _, err := rules.Migrate(t.Context(), p.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	d := &rulesDB{Postgres: p, t: t}
	d.connect()
	return d
}

func (d *rulesDB) connect() {
	d.t.Helper()
	var err error
	if d.conn, err = pgx.Connect(context.Background(), d.URL("postgres")); err != nil {
		d.t.Fatal(err)
	}
	conn := d.conn
	d.t.Cleanup(func() { _ = conn.Close(context.Background()) })
}

func (d *rulesDB) set(tenant, route string, capacity int) {
	d.t.Helper()
	if _, err := d.conn.Exec(context.Background(), `INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) VALUES ($1, $2, $3, 1)
		ON CONFLICT (tenant_id, route_id) DO UPDATE SET capacity = excluded.capacity`, tenant, route, capacity); err != nil {
		d.t.Fatal(err)
	}
}

// yaml is a gateway whose tenants are told by secret keys.
func (d *rulesDB) yaml() string {
	return `rules: {url: "` + d.URL("postgres") + `", poll: 1h, snapshot: state/rules}
limits:
  - {name: tenant-route, key: [tenant, route], limit: 1/h}
  - {name: by-ip, key: [ip], limit: 1M/s}
identity:
  tenant: {header: X-Api-Key, unknown: 401}
gateway:
  listen: 127.0.0.1:0
  routes: [{id: all, match: /, upstream: "UPSTREAM"}]
admin: {listen: 127.0.0.1:0}
drain: {timeout: 5s}
`
}

// passes counts how many of some requests pass at once.
func (r *running) passes(n int, key string) int {
	r.t.Helper()
	count := 0
	for _, status := range r.statuses(n, "/", "X-Api-Key: "+key) {
		if status == http.StatusOK {
			count++
		}
	}
	return count
}

// applies waits until requests of a key are held to a capacity.
func (r *running) applies(key string, capacity string) {
	r.t.Helper()
	eventually(r.t, "a limit of "+capacity+" for "+key, func() bool {
		return r.get("/", "X-Api-Key: "+key).Header.Get("X-Ratelimit-Limit") == capacity
	})
}

func TestRulesOfTheDatabase(t *testing.T) {
	d := newRulesDB(t)
	d.set("key-a", "all", 3)
	r := start(t, d.yaml())
	if n := r.passes(6, "key-a"); n != 3 {
		t.Errorf("%d of 6 requests passed, want 3", n)
	}
	// A tenant that only a row names is not unknown.
	if status := r.get("/", "X-Api-Key: key-b").StatusCode; status != http.StatusUnauthorized {
		t.Errorf("status %d for a key that nobody named, want 401", status)
	}
	d.set("key-b", "*", 5)
	r.applies("key-b", "5")
	d.set("key-b", "*", 7)
	r.applies("key-b", "7")

	// The file comes back with other limits, and takes the rows over.
	r.edit("by-ip, key: [ip], limit: 1M/s", "by-ip, key: [ip], limit: 900k/s")
	r.waitLog("configuration reloaded", 1)
	r.applies("key-b", "7")
	d.set("key-b", "*", 8)
	r.applies("key-b", "8")
	if metrics := r.page("/metrics"); !strings.Contains(metrics, "sluice_rules 2\n") || !strings.Contains(metrics, "sluice_rules_stale 0\n") {
		t.Error("no metrics of rules")
	}
	// The limit that rows stand for goes and comes back.
	r.edit("key: [tenant, route]", "key: [tenant]")
	r.waitLog("configuration reloaded", 2)
	eventually(t, "rows that are skipped", func() bool { return strings.Contains(r.page("/metrics"), "sluice_rules_skipped 2\n") })
	r.edit("key: [tenant]", "key: [tenant, route]")
	r.waitLog("configuration reloaded", 3)
	r.applies("key-b", "8")
	for _, secret := range []string{d.Password, "key-a", "key-b"} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestRulesWithoutTheDatabase(t *testing.T) {
	d := newRulesDB(t)
	d.set("key-a", "all", 3)
	r := start(t, d.yaml())
	if ready := r.page("/readyz"); !strings.Contains(ready, `{"status":"ready"}`) {
		t.Errorf("readiness is %s", ready)
	}
	d.Kill()
	eventually(t, "readiness that says so", func() bool {
		return strings.Contains(r.page("/readyz"), `{"status":"degraded","rules":"stale"}`)
	})
	r.applies("key-a", "3")
	if !strings.Contains(r.page("/metrics"), "sluice_rules_stale 1\n") {
		t.Error("no metric of stale rules")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	again := startFile(t, r.file)
	again.applies("key-a", "3")
	again.waitLog("rules are those of the snapshot", 1)
	if ready := again.get("/readyz").StatusCode; ready != http.StatusOK {
		t.Errorf("readiness is %d, want 200", ready)
	}
	if err := d.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.connect()
	d.set("key-a", "all", 4)
	again.applies("key-a", "4")
	eventually(t, "readiness", func() bool { return strings.Contains(again.page("/readyz"), `{"status":"ready"}`) })
}

func TestRulesInTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"rules: {poll: 30s}":                                                  "rules.url: missing",
		`rules: {url: "mysql://u:hidden@h/x"}`:                                "rules.url: rules: url: it must begin with postgres://",
		`rules: {url: "postgres://h/x", changed: "kafka://h"}`:                "rules.changed: rules: changed: after the hosts stands the topic",
		`rules: {url: "postgres://h/x", poll: 1ms}`:                           "rules.poll",
		`rules: {url: "postgres://h/x", file: x}`:                             "file",
		`rules: {url: "postgres://h/x?password=hidden"}`:                      "use password_file or password_env",
		`rules: {url: "postgres://h/x", snapshot: ""}`:                        "rules.snapshot: want the name of a file, or none",
		`rules: {url: "postgres://u:hidden@h/x", changed: "kafka://u:p@h/t"}`: "no user stands before the hosts",
	} {
		_, err := decode(t, text+"\n"+wideYAML)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	t.Setenv("STATE_DIRECTORY", "/var/lib/sluice")
	c, err := decode(t, `rules: {url: "postgres://u:p@h/x", changed: "kafka://a,b:1/t"}`+"\n"+wideYAML)
	if err != nil {
		t.Fatal(err)
	}
	if match, err := filepath.Match("/var/lib/sluice/rules-????????.snapshot", c.Rules.Snapshot); err != nil || !match {
		t.Errorf("snapshot %q", c.Rules.Snapshot)
	}
	if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "rows without a limit_name are skipped") }) {
		t.Errorf("warnings %q, want one about the missing limit", c.Warnings)
	}
	other, err := decode(t, `rules: {url: "postgres://u:q@h/x", snapshot: none, poll: 1m}`+"\n"+wideYAML)
	if err != nil || other.Rules.Snapshot != "" {
		t.Errorf("snapshot %q, %v; want none", other.Rules.Snapshot, err)
	}
	if names := fix(other, c); !slices.Contains(names, "rules") {
		t.Errorf("fields that need a restart: %q", names)
	}
}
