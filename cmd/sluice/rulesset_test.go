package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/servers"
)

// A deskTest runs commands on a database of its own, whose tenants are secret.
type deskTest struct {
	t    *testing.T
	conf string
	url  string
	conn *pgx.Conn
}

func newDesk(t *testing.T) *deskTest {
	t.Helper()
	p, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	d := &deskTest{t: t, url: p.URL("postgres")}
	d.conf = file(t, "sluice.yaml", "rules: {url: \""+d.url+"\"}\n"+shopYAML+"identity: {tenant: {header: X-Api-Key, unknown: ip}}\n")
	if d.conn, err = pgx.Connect(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.conn.Close(t.Context()) })
	return d
}

// rules runs a command on the rules and demands what it says.
func (d *deskTest) rules(code int, stdoutHas, stderrHas, command string, words ...string) (stdout, stderr string) {
	d.t.Helper()
	return wantRun(d.t, code, stdoutHas, stderrHas, append([]string{"rules", command, "-c", d.conf}, words...)...)
}

// plain runs a command without the configuration.
func (d *deskTest) plain(code int, stdoutHas, stderrHas, command string, words ...string) (stdout, stderr string) {
	d.t.Helper()
	return wantRun(d.t, code, stdoutHas, stderrHas, append([]string{"rules", command, "-url", d.url}, words...)...)
}

func TestRulesSetListDelete(t *testing.T) {
	d := newDesk(t)
	d.rules(1, "", "run sluice rules migrate", "list")
	if _, err := d.conn.Exec(t.Context(), `CREATE TABLE rate_limit_rule (
		id BIGSERIAL PRIMARY KEY, tenant_id VARCHAR(64) NOT NULL, route_id VARCHAR(64) NOT NULL,
		capacity INT NOT NULL CHECK (capacity > 0), refill_per_second INT NOT NULL CHECK (refill_per_second > 0),
		updated_at TIMESTAMPTZ NOT NULL DEFAULT now(), UNIQUE (tenant_id, route_id))`); err != nil {
		t.Fatal(err)
	}
	// The table as it is.
	d.rules(0, "no rules", "", "list")
	out, _ := d.rules(0, "route create-order: 100/s burst 200 (new)", "", "set", "tenant=key-a", "route=create-order", "100/s", "burst", "200")
	if strings.Contains(out, "key-a") {
		t.Errorf("a key is shown: %s", out)
	}
	d.rules(0, "(was 100/s burst 200)", "", "set", "tenant=key-a", "route=create-order", "50/s burst 60")
	d.rules(1, "", "needs the column period, which the table rate_limit_rule does not have: run sluice rules migrate", "set", "tenant=key-a", "5/15m")
	d.rules(1, "", "a temporary rule needs the column expires_at", "set", "tenant=key-a", "5/s", "-for", "2h")
	d.rules(1, "", "the database has no history of rules: run sluice rules migrate", "history")
	d.rules(1, "", "the database has no history of rules", "rollback", "-ago", "1h")

	d.rules(0, "up to date", "", "migrate")
	d.rules(0, "route *: 5/15m (new)", "", "set", "tenant=key-a", "5/15m")
	d.rules(0, "5/15m sliding_log of by-ip (new)", "", "set", "route=login", "5/15m", "sliding_log", "--limit", "by-ip")
	d.rules(1, "", "sluice rules migrate -several", "set", "tenant=key-a", "route=create-order", "500/s", "--for", "2h")
	d.rules(0, "up to date", "", "migrate", "-several")
	d.rules(0, "500/s until ", "", "set", "tenant=key-a", "route=create-order", "500/s", "--for", "2h", "-as", "dora")
	out, _ = d.rules(0, "50/s", "", "list", "route=create-order")
	if strings.Contains(out, "key-a") || strings.Count(out, "\n") != 3 {
		t.Errorf("list: %s", out)
	}
	d.rules(0, "by-ip", "", "list", "-limit", "by-ip")
	d.rules(0, "", "note: there are more than 2: -n 0 shows all", "list", "-n", "2")
	var listed struct{ Rules []shownRule }
	out, _ = d.plain(0, "key-a", "", "list", "-json", "-n", "0")
	if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed.Rules) != 4 {
		t.Errorf("list -json: %v, %s", err, out)
	}
	// A rule that does not count beside the limits is shown with the reason.
	d.plain(0, "of gone (new)", "", "set", "tenant=x", "1/s", "-limit", "gone")
	d.rules(0, `limit_name "gone": the configuration has no limit of this name`, "", "list", "tenant=x")

	d.plain(0, `"\x1b[31mred"`, "", "set", "tenant=\x1b[31mred", "1/s")
	d.plain(0, `"\x1b[31mred"`, "", "list")

	d.rules(0, "deleted: ", "", "delete", "tenant=key-a", "route=create-order", "-temporary")
	d.rules(1, "", "there is no such rule", "delete", "tenant=key-a", "route=create-order", "-temporary")
	d.rules(0, "50/s burst 60", "", "delete", "tenant=key-a", "route=create-order")
	d.rules(1, "", "there is no such rule", "delete", "-id", "99")
	d.rules(0, "5/15m", "", "delete", "-id", fmt.Sprint(listed.Rules[1].ID))
	d.rules(0, "dora", "", "history")
}

func TestRulesMisuse(t *testing.T) {
	conf := file(t, "sluice.yaml", "rules: {url: \"postgres://127.0.0.1:1/x\"}\n"+shopYAML)
	for _, tt := range []struct {
		code   int
		stderr string
		words  []string
	}{
		{2, "no command is named: there is migrate, list,", nil},
		{2, "did you mean history?", []string{"histroy"}},
		{2, "no database is named: want -c FILE or -url URL", []string{"list"}},
		{2, "-c and -url both name a database", []string{"list", "-c", conf, "-url", "postgres://h/x"}},
		{1, "it must begin with postgres://", []string{"list", "-url", "mysql://h/x"}},
		{2, "want tenant=T, route=R or both", []string{"set", "-c", conf, "100/s"}},
		{2, "the rate is missing: want one such as 100/s", []string{"set", "-c", conf, "tenant=a"}},
		{2, "tenant is given twice", []string{"set", "-c", conf, "tenant=a", "tenant=b", "1/s"}},
		{2, "tenant= has no value: want one, or * for any", []string{"set", "-c", conf, "tenant=", "1/s"}},
		{2, "ip=: want tenant=T or route=R", []string{"set", "-c", conf, "ip=1.2.3.4", "1/s"}},
		{2, `burst "x": want a whole number such as 200`, []string{"set", "-c", conf, "tenant=a", "1/s", "burst", "x"}},
		{2, `-for: "soon": want a time from 1s to 366days, such as 2h or 7days`, []string{"set", "-c", conf, "tenant=a", "1/s", "-for", "soon"}},
		{1, "rate: want an amount per period", []string{"set", "-c", conf, "tenant=a", "fast"}},
		{1, "limit: \"x\": the configuration has no limit of this name: want one of tenant-route, by-ip", []string{"set", "-c", conf, "tenant=a", "1/s", "-limit", "x"}},
		{1, "connection refused", []string{"set", "-c", conf, "tenant=a", "1/s"}},
		{2, "which rule is meant: want tenant=T and route=R, or -id NUMBER", []string{"delete", "-c", conf}},
		{2, "which rule is meant", []string{"delete", "-c", conf, "-id", "7", "tenant=a"}},
		{2, `unexpected "x"`, []string{"list", "-c", conf, "x"}},
		{2, "-n -1: want 0 or more", []string{"history", "-c", conf, "-n", "-1"}},
		{2, "want one of -before CHANGE, -to TIME and -ago TIME", []string{"rollback", "-c", conf}},
		{2, "want one of -before CHANGE", []string{"rollback", "-c", conf, "-ago", "1h", "-before", "3"}},
		{2, "-before -3: want the number of a change", []string{"rollback", "-c", conf, "-before", "-3"}},
		{2, "-yes and -dry-run: want one of them", []string{"rollback", "-c", conf, "-before", "3", "-yes", "-dry-run"}},
		{2, "-to \"noon\": want a time such as", []string{"rollback", "-c", conf, "-to", "noon"}},
		{2, "it is yet to come", []string{"rollback", "-c", conf, "-to", "2999-01-01"}},
		{2, "want one file of rules, or - for standard input", []string{"import", "-c", conf}},
		{1, "no such file", []string{"import", "-c", conf, "none.yaml"}},
	} {
		wantRun(t, tt.code, "", tt.stderr, append([]string{"rules"}, tt.words...)...)
	}
	guide, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ruleCommands() {
		if !strings.Contains(string(guide), "`sluice rules "+c.name) {
			t.Errorf("docs/rules.md does not tell of sluice rules %s", c.name)
		}
		if out, _ := wantRun(t, 0, "Usage: sluice rules "+c.name, "", "rules", c.name, "-h"); c.name != "migrate" && !strings.Contains(out, "Example") {
			t.Errorf("rules %s -h shows no example", c.name)
		}
	}
}

func TestRulesHistoryAndRollback(t *testing.T) {
	d := newDesk(t)
	d.rules(0, "", "", "migrate")
	d.rules(0, "no changes", "", "history")
	d.rules(0, "", "", "set", "tenant=key-a", "10/s", "-as", "ann")
	d.rules(0, "", "", "set", "tenant=key-a", "20/s", "-as", "bob")
	d.rules(0, "", "", "set", "tenant=key-b", "30/s", "-as", "bob")
	d.plain(0, "deleted", "", "delete", "tenant=key-a")
	out, _ := d.rules(0, "CHANGE", "", "history")
	for _, want := range []string{"ann", "new: 10/s", "bob", "10/s -> 20/s", "deleted: 20/s", "\n4 ", "\n1 "} {
		if !strings.Contains(out, want) {
			t.Errorf("history lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "key-") {
		t.Errorf("the history shows a key:\n%s", out)
	}
	if out, _ := d.plain(0, "key-b", "", "history", "tenant=key-b"); strings.Contains(out, "key-a") {
		t.Errorf("the history of another: %s", out)
	}
	d.rules(0, `"database_user":"postgres"`, "", "history", "-json", "-n", "1")

	out, _ = d.rules(1, "1 added, 0 changed, 1 removed\nnothing was changed yet: say -yes to do it", "", "rollback", "-before", "2")
	if !strings.Contains(out, "+ ") || !strings.Contains(out, "- ") {
		t.Errorf("rollback shows no changes: %s", out)
	}
	d.rules(0, "this was a dry run", "", "rollback", "-before", "2", "--dry-run")
	d.plain(0, "30/s", "", "list", "tenant=key-b")
	d.rules(0, "1 added, 0 changed, 1 removed", "", "rollback", "-before", "2", "-yes", "-as", "carl")
	if out, _ := d.plain(0, "10/s", "", "list"); strings.Contains(out, "key-b") {
		t.Errorf("after the rollback: %s", out)
	}
	d.rules(0, "carl", "", "history", "-n", "1")
	d.rules(0, "0 added, 0 changed, 0 removed", "", "rollback", "-before", "6", "-yes", "tenant=nobody")
	d.rules(1, "", "there is no change 99: sluice rules history shows", "rollback", "-before", "99", "-yes")
	d.rules(1, "- ", "", "rollback", "-ago", "1h")
	if _, err := d.conn.Exec(t.Context(), "ALTER TABLE rate_limit_rule DISABLE TRIGGER rate_limit_rule_record_update; UPDATE rate_limit_rule SET capacity = 99"); err != nil {
		t.Fatal(err)
	}
	d.rules(0, "", "changes are not recorded any more", "history")
	d.rules(1, "", "1 of these rules were changed since without a record", "rollback", "-before", "1")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-02T01:00:00+01:00": now.Truncate(24 * time.Hour), "2026-01-02": now.Truncate(24 * time.Hour), "2026-01-02 03:04": now.Truncate(time.Minute),
	} {
		if p, err := pointOf(0, text, "", now); err != nil || !p.Time.Equal(want) {
			t.Errorf("pointOf(%s) = %v, %v, want %v", text, p.Time, err, want)
		}
	}
}

func TestRulesExportImport(t *testing.T) {
	d := newDesk(t)
	d.rules(0, "", "", "migrate", "-several")
	d.rules(0, "# Rules of 127.0.0.1:", "", "export")
	var many strings.Builder
	many.WriteString("rules:\n  - {tenant: '*', route: login, rate: 5/15m, limit: by-ip}\n  - {tenant: \"007\", route: yes, rate: 1.5/s, expires: 2099-01-01T00:00:00Z}\n")
	for i := range 60 {
		many.WriteString(fmt.Sprintf("  - {tenant: key-%d, route: r, rate: 100/s, burst: %d}\n", i, i+1))
	}
	path := file(t, "rules.yaml", many.String())
	d.rules(0, "62 added, 0 changed, 0 removed\nnothing was changed: this was a dry run", "", "import", path, "--dry-run")
	d.rules(0, "no rules", "", "list")
	d.rules(0, "... and 12 more; -all shows them\n62 added, 0 changed, 0 removed", "", "import", path)
	if out, _ := d.rules(0, "", "", "import", path, "-all", "-dry-run"); !strings.Contains(out, "0 added, 0 changed, 0 removed, 62 as they are") {
		t.Errorf("imported again: %s", out)
	}
	out, _ := d.rules(0, "{tenant: key-59, route: r, rate: 100/s, burst: 60}", "warning: there are keys of tenants in what is printed", "export")
	exported := filepath.Join(t.TempDir(), "exported.yaml")
	if err := os.WriteFile(exported, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	d.rules(0, "0 added, 0 changed, 0 removed, 62 as they are", "", "import", "-prune", exported)
	code, stdout, stderr := call(t, "rules:\n  - {tenant: key-1, route: r, rate: 7/s}\n", "rules", "import", "-url", d.url, "-", "-prune")
	if code != 0 || !strings.Contains(stdout, "100/s burst 2 -> 7/s\n") || !strings.Contains(stdout, "0 added, 1 changed, 61 removed\n") {
		t.Errorf("import of standard input: %d %s%s", code, stdout, stderr)
	}
	_, stderr = d.rules(1, "", "", "import", file(t, "bad.yaml", `rules:
  - {tenant: a, route: r, rat: 1/s}
  - {tenant: a, route: r, rate: 1/s, limit: x}
  - {tenant: a, route: r, rate: 1/s}
  - {tenant: a, route: r, rate: 2/s}
  - {tenant: a, route: "", rate: 2/s}
  - {tenant: b, route: r, rate: fast}
  - {tenant: c, route: r, rate: 1/s, expires: soon}
  - x
`))
	for _, want := range []string{
		"bad.yaml:2: rules[0].rat: unknown field: did you mean rate?",
		`bad.yaml:3: rules[1].limit: "x": the configuration has no limit of this name`,
		"bad.yaml:5: rules[3]: a second rule for what ",
		"bad.yaml:6: rules[4].route: missing: want a value, or * for any",
		"bad.yaml:7: rules[5].rate: want an amount per period",
		"bad.yaml:8: rules[6].expires: want a time such as 2026-01-02T15:04:05Z",
		"bad.yaml:9: rules[7]: want fields",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("the mistakes lack %q:\n%s", want, stderr)
		}
	}
	if n := strings.Count(stderr, "\n"); n != 7 {
		t.Errorf("%d lines of mistakes, want 7:\n%s", n, stderr)
	}
}
