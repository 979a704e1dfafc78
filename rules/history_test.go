package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

func (r *Records) events(t testing.TB, f Filter) []Event {
	t.Helper()
	events, recording, err := r.History(t.Context(), f, 100)
	if err != nil || !recording {
		t.Fatalf("History: recording %v, %v", recording, err)
	}
	return events
}

func TestHistory(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	a := r.mustPut(t, rule(t, "a", "r", "1/s", 0))
	r.mustPut(t, rule(t, "a", "r", "1/s", 0)) // no change
	r.mustPut(t, rule(t, "a", "r", "2/s", 0))
	d.add("b", "r", 5)
	d.exec("UPDATE rate_limit_rule SET tenant_id = 'c' WHERE tenant_id = 'b'")
	d.exec("UPDATE rate_limit_rule SET id = id + 100 WHERE tenant_id = 'c'")
	if _, err := r.Delete(t.Context(), a.ID, Expectation{}, "bob\x1b[31m"); err != nil {
		t.Fatal(err)
	}
	d.exec("TRUNCATE rate_limit_rule")
	var got []string
	for _, e := range slices.Backward(r.events(t, Filter{})) {
		var line strings.Builder
		line.WriteString(e.Who)
		for _, row := range []*policy.Row{e.Before, e.After} {
			if row == nil {
				line.WriteString(" | -")
			} else {
				line.WriteString(" | " + row.Tenant + " " + RuleOf(*row).Says())
			}
		}
		got = append(got, line.String())
		if e.At.IsZero() || e.User != "postgres" {
			t.Errorf("event %+v", e)
		}
	}
	want := []string{
		"test | - | a 1/s",
		"test | a 1/s | a 2/s",
		"postgres | - | b 1/s burst 5",
		"postgres | b 1/s burst 5 | c 1/s burst 5",
		"postgres | c 1/s burst 5 | -", "postgres | - | c 1/s burst 5", // its number
		"bob [31m | a 2/s | -",
		"postgres | c 1/s burst 5 | -",
	}
	if !slices.Equal(got, want) {
		t.Errorf("history:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d.exec("SET sluice.actor = 'a script'")
	d.add("q", "r", 1)
	if events := r.events(t, Filter{Tenant: "q"}); len(events) != 1 || events[0].Who != "a script" || events[0].User != "postgres" {
		t.Errorf("events %+v, want one by a script", events)
	}
	if n := len(r.events(t, Filter{Tenant: "b"})); n != 2 {
		t.Errorf("%d events of b, want 2", n)
	}
	if n := len(r.events(t, Filter{Tenant: "a", Route: "r"})); n != 3 {
		t.Errorf("%d events of a, want 3", n)
	}
	d.exec("ALTER TABLE rate_limit_rule DISABLE TRIGGER rate_limit_rule_record_insert")
	if _, recording, err := r.History(t.Context(), Filter{}, 1); recording || err != nil {
		t.Errorf("History: recording %v, %v; want that it is not", recording, err)
	}
}

// A user who may change rules but neither the history nor the schema.
func TestHistoryOfAnotherUser(t *testing.T) {
	d := migrated(t)
	d.exec("DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN PASSWORD 'pw'")
	d.exec("DROP ROLE IF EXISTS boss; CREATE ROLE boss; GRANT boss TO clerk")
	t.Cleanup(func() { d.exec("DROP OWNED BY clerk, boss; DROP ROLE clerk, boss") })
	d.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON rate_limit_rule TO clerk, boss; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk, boss")
	r, owner := recordsOf(t, d.as("clerk", "pw")), recordsOf(t, d.url)
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "a", "r", "1/s", 0)}); err != nil {
		t.Fatal(err)
	}
	clerk := connectTo(t, d.as("clerk", "pw"))
	if _, err := clerk.Exec(t.Context(), "SET ROLE boss; UPDATE rate_limit_rule SET capacity = 2; RESET ROLE; SET search_path = pg_temp; CREATE TEMP TABLE rate_limit_rule_history (id int); UPDATE public.rate_limit_rule SET capacity = 3"); err != nil {
		t.Fatal(err)
	}
	var who []string
	for _, e := range owner.events(t, Filter{}) {
		who = append(who, e.User)
	}
	if !slices.Equal(who, []string{"clerk", "boss", "clerk"}) {
		t.Errorf("users %q", who)
	}
	// The trigger's function is no way into the history.
	if _, err := clerk.Exec(t.Context(), "CREATE TEMP TABLE x (id bigint); CREATE TRIGGER t AFTER INSERT ON x REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.rate_limit_rule_record()"); err == nil {
		t.Error("another table's trigger may use the function")
	}
	if _, _, err := r.History(t.Context(), Filter{}, 1); err == nil || !strings.Contains(err.Error(), "SELECT on rate_limit_rule_history") {
		t.Errorf("History: %v, want what the user needs", err)
	}
	d.exec("REVOKE UPDATE ON rate_limit_rule FROM clerk, boss")
	if _, _, err := r.Put(t.Context(), Write{Row: rule(t, "a", "r", "9/s", 0)}); err == nil || !strings.Contains(err.Error(), "the database user needs") {
		t.Errorf("Put: %v, want what the user needs", err)
	}
}

// The table stands in a schema that is not the first of the search path.
func TestHistoryInAnotherSchema(t *testing.T) {
	d := newDB(t, sharedServer(t))
	d.exec("CREATE SCHEMA limits; SET search_path = limits; " + tableSQL)
	url := d.url + "?search_path=public,limits"
	if strings.Contains(d.url, "?") {
		url = d.url + "&search_path=public,limits"
	}
	if _, err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	r := recordsOf(t, url)
	r.mustPut(t, rule(t, "a", "r", "1/s", 0))
	if n := len(r.events(t, Filter{})); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	var there bool
	if err := d.conn.QueryRow(t.Context(), "SELECT to_regclass('limits.rate_limit_rule_history') IS NOT NULL").Scan(&there); err != nil || !there {
		t.Errorf("the history does not stand beside the table: %v", err)
	}
}

func TestRollback(t *testing.T) {
	d := migrated(t)
	r := recordsOf(t, d.url)
	kept := r.mustPut(t, rule(t, "kept", "r", "1/s", 0))
	changed := r.mustPut(t, rule(t, "changed", "r", "1/s", 0))
	deleted := r.mustPut(t, rule(t, "deleted", "r", "1/s", 9))
	start := r.says(t)
	var moment time.Time
	if err := d.conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&moment); err != nil {
		t.Fatal(err)
	}
	r.mustPut(t, rule(t, "changed", "r", "2/s", 0))
	r.mustPut(t, rule(t, "changed", "r", "3/s", 0))
	if _, err := r.Delete(t.Context(), deleted.ID, Expectation{}, ""); err != nil {
		t.Fatal(err)
	}
	r.mustPut(t, rule(t, "deleted", "r", "7/s", 0)) // another row in its place
	r.mustPut(t, rule(t, "created", "r", "1/s", 0))
	later := r.says(t)
	events := r.events(t, Filter{})

	dry, err := r.Rollback(t.Context(), Rollback{To: Point{Time: moment}, DryRun: true})
	if added, altered, removed := dry.Count(); err != nil || added != 1 || altered != 1 || removed != 2 || dry.Unrecorded != 0 {
		t.Errorf("dry run: %d added, %d changed, %d removed, %d unrecorded, %v", added, altered, removed, dry.Unrecorded, err)
	}
	wantSays(t, r, later...)
	if _, err := r.Rollback(t.Context(), Rollback{To: Point{Time: moment}, Actor: "carol"}); err != nil {
		t.Fatal(err)
	}
	wantSays(t, r, start...)
	rows, err := r.List(t.Context(), Filter{}, 0)
	if err != nil || rows[0].ID != changed.ID || rows[1].ID != deleted.ID || rows[2].ID != kept.ID {
		t.Errorf("rows %+v, %v: want their numbers back", rows, err)
	}
	// The rollback is a change like others, and can be rolled back.
	undo := r.events(t, Filter{})
	undo = undo[:len(undo)-len(events)]
	if len(undo) != 4 || undo[0].Who != "carol" {
		t.Fatalf("the rollback left %+v", undo)
	}
	if _, err := r.Rollback(t.Context(), Rollback{To: Point{Before: undo[3].ID}}); err != nil {
		t.Fatal(err)
	}
	wantSays(t, r, later...)
	// One tenant's rules alone, and no further than to a change.
	second := events[len(events)-5] // changed from 2/s to 3/s
	if _, err := r.Rollback(t.Context(), Rollback{To: Point{Before: second.ID}, Filter: Filter{Tenant: "changed"}}); err != nil {
		t.Fatal(err)
	}
	wantSays(t, r, slices.Replace(slices.Clone(later), 0, 1, "changed r 2/s")...)
	if _, err := r.Rollback(t.Context(), Rollback{To: Point{Before: 9999}}); !errors.Is(err, ErrNoRow) {
		t.Errorf("Rollback to a change that is not there: %v, want ErrNoRow", err)
	}
	// What was changed behind the history's back is told of.
	d.exec("ALTER TABLE rate_limit_rule DISABLE TRIGGER rate_limit_rule_record_update")
	d.exec("UPDATE rate_limit_rule SET capacity = 77 WHERE tenant_id = 'kept'")
	p, err := r.Rollback(t.Context(), Rollback{To: Point{Before: 1}, Filter: Filter{Tenant: "kept"}, DryRun: true})
	if err != nil || p.Unrecorded != 1 {
		t.Errorf("%+v, %v: want one row that the history does not know", p, err)
	}
}
