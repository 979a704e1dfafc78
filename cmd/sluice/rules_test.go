package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/servers"
)

func TestRulesMigrate(t *testing.T) {
	p, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	url := p.URL("postgres")
	out, _ := wantRun(t, 0, "is up to date", "", "rules", "migrate", "-url", url)
	if !strings.Contains(out, "made 00001_table.sql\nmade 00002_columns.sql\n") {
		t.Errorf("stdout %q, want the steps that were made", out)
	}
	conf := file(t, "sluice.yaml", "rules: {url: \""+url+"\"}\n"+shopYAML)
	if out, _ := wantRun(t, 0, "is up to date", "", "rules", "migrate", "-c", conf); strings.Contains(out, "made") {
		t.Errorf("stdout %q of a second run, want no steps", out)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), "INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, limit_name, period, algorithm, expires_at) VALUES ('a', '*', 5, 5, 'x', '15m', 'gcra', now())"); err != nil {
		t.Error(err)
	}
	wantRun(t, 0, "", "only the limits of the file are checked", "check", "-c", conf, "tenant=a", "route=r")
	wantRun(t, 1, "", "rules.url is missing", "rules", "migrate", "-c", file(t, "sluice.yaml", shopYAML))
	wantRun(t, 1, "", "it must begin with postgres://", "rules", "migrate", "-url", "mysql://h/x")
	p.Kill()
	if _, errs := wantRun(t, 1, "", "rules: migrate: ", "rules", "migrate", "-url", url); strings.Contains(errs, p.Password) {
		t.Errorf("stderr holds the password: %q", errs)
	}
}
