package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/rules"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/memory"
)

// changingRules measures rules that stand in a database and change while a server
// decides by them.
var changingRules = Experiment{
	Name:  "rules",
	Does:  "load up to 300,000 rules from PostgreSQL and change them: time, memory, until a change counts, what decisions notice",
	Takes: 45 * time.Second,
	Run:   runRules,
	Claims: []Claim{
		{Row: "300,000", Column: "load_ms", Max: mostLoadMs},
		{Row: "300,000", Column: "load_mb", Max: mostLoadMB},
		{Column: "notify_p99_ms", Max: mostNotifyMs},
	},
	Explains: "Tables of rules are loaded from a PostgreSQL of the experiment's own and then changed, row by row, while decisions are made. " +
		"Told by the database, a server follows within a second; the ratio says what decisions notice of that.",
	Plot: func(t *Table) plot.Plot {
		load := t.bars("Loading rules from PostgreSQL", "time (ms)", "load_ms", nil)
		live := t.bars("Until a changed rule counts, 99th percentile", "time (ms)", "notify_p99_ms", nil)
		live.Series[0].Name = "told by the database"
		polled := t.bars("", "", "poll_p99_ms", nil).Series[0]
		polled.Name = "by polling alone, once a second"
		live.Series = append(live.Series, polled)
		for row := range t.Cells {
			load.Labels[row] += " rules"
			live.Labels[row] += " rules"
		}
		return plot.Stack{load, live}
	},
}

// A RulesRow is a table of so many rules.
type RulesRow struct {
	Rows   int     `json:"rows" lab:"label"`
	LoadMs float64 `json:"load_ms"`
	LoadMB float64 `json:"load_mb" unit:"MB"` // the most that the load took from the system
	// Until a change counts, at p99: with notifications, and by polling alone.
	NotifyP99 float64 `json:"notify_p99_ms"`
	PollP99   float64 `json:"poll_p99_ms"`
	PollEvery float64 `json:"poll_every_ms"`
	// DecisionP99 is the p99 of decisions while rules change so often, as a
	// multiple of that without changes.
	DecisionP99 float64 `json:"decision_p99_ratio"`
	Changes     float64 `json:"changes_per_s"`
}

// What the rows must show.
const (
	mostLoadMs   = 3000.0
	mostLoadMB   = 150.0
	mostNotifyMs = 1000.0
)

func (r *RulesRow) ok() bool {
	return r.LoadMs <= mostLoadMs && r.LoadMB <= mostLoadMB && r.NotifyP99 <= mostNotifyMs
}

func runRules(ctx context.Context, progress func(string)) (any, bool, error) {
	server, err := servers.StartPostgres(ctx)
	if err != nil {
		return nil, false, err
	}
	defer server.Close()
	var rows []RulesRow
	ok := true
	for _, n := range []int{1000, 30_000, 300_000} {
		progress(fmt.Sprintf("%d rules", n))
		row, err := measureRules(ctx, server, n)
		if err != nil {
			return nil, false, fmt.Errorf("%d rules: %w", n, err)
		}
		ok = ok && row.ok()
		rows = append(rows, *row)
	}
	return rows, ok, nil
}

// polling is how often the table is looked at where nobody tells of changes:
// oftener than a server's usual 30 s, so that a run sees it.
const polling = time.Second

func measureRules(ctx context.Context, server *servers.Postgres, n int) (*RulesRow, error) {
	url, conn, err := ruleTable(ctx, server, n)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	set, err := policy.NewSet([]policy.Limit{{
		Name: "tenant-route", Key: []string{"tenant", "route"},
		Default: sluice.Limit{Tokens: 10, Per: time.Second, Burst: 20},
	}})
	if err != nil {
		return nil, err
	}
	engine := policy.NewEngine(memory.New(memory.Options{}), set)
	follow := func(poll time.Duration) (*follower, error) { return followRules(ctx, url, engine, poll) }

	row := &RulesRow{Rows: n, PollEvery: polling.Seconds() * 1000}
	told, err := follow(30 * time.Second)
	if err != nil {
		return nil, err
	}
	row.LoadMs, row.LoadMB = round(told.took.Seconds()*1000, 1), round(told.memory, 1)
	defer told.close()
	if got := engine.Set().RowCount(); got != n {
		return nil, fmt.Errorf("%d rules were loaded", got)
	}
	stale, err := staleness(ctx, conn, engine, n)
	if err != nil {
		return nil, err
	}
	row.NotifyP99 = round(Quantile(stale, 0.99).Seconds()*1000, 1)
	if row.DecisionP99, row.Changes, err = disturbance(ctx, conn, engine, n); err != nil {
		return nil, err
	}
	told.close()
	if _, err := conn.Exec(ctx, "ALTER TABLE rate_limit_rule DISABLE TRIGGER USER"); err != nil {
		return nil, err
	}
	polled, err := follow(polling)
	if err != nil {
		return nil, err
	}
	defer polled.close()
	if stale, err = staleness(ctx, conn, engine, n); err != nil {
		return nil, err
	}
	row.PollP99 = round(Quantile(stale, 0.99).Seconds()*1000, 1)
	return row, nil
}

// ruleTable makes a database with so many rules, three for each tenant.
func ruleTable(ctx context.Context, server *servers.Postgres, n int) (string, *pgx.Conn, error) {
	root, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return "", nil, err
	}
	defer root.Close(ctx)
	name := fmt.Sprintf("rules%d", n)
	if _, err := root.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	url := server.URL(name)
	if _, err := rules.Migrate(ctx, url); err != nil {
		return "", nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", nil, err
	}
	_, err = conn.Exec(ctx, `INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second)
		SELECT 'shop-' || (n / 3), (ARRAY['create-order', 'list-orders', 'get-order'])[1 + n % 3], 100 + n % 900, 100
		FROM generate_series(0, $1::int - 1) AS n`, n)
	return url, conn, err
}

// staleness makes a thousand changes and returns how long after its commit each
// counts.
func staleness(ctx context.Context, conn *pgx.Conn, engine *policy.Engine, n int) ([]time.Duration, error) {
	const changes, every = 1000, 4 * time.Millisecond
	seen := watchRows(ctx, engine)
	defer seen.stop()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range changes {
		<-ticker.C
		id, capacity := 1+rand.Int64N(int64(n)), int64(10_000+i)
		if _, err := conn.Exec(ctx, "UPDATE rate_limit_rule SET capacity = $2, updated_at = now() WHERE id = $1", id, capacity); err != nil {
			return nil, err
		}
		seen.expect(id, capacity)
	}
	return seen.wait(changes)
}
