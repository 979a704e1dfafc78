package rules

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

var (
	//go:embed sql/notify.sql
	notifySQL string
	//go:embed sql/history.sql
	historySQL string
	//go:embed sql/several.sql
	severalSQL string
)

// versions is the table that remembers which migrations were made.
const versions = "rate_limit_rule_version"

// Migrate makes the table rate_limit_rule in a database, or adds to one that is
// there what it lacks, and installs the triggers that tell of changes and record
// them; those that were dropped come back. It may be called again and from several places
// at once. It returns the names of the steps that had not been made before.
func Migrate(ctx context.Context, url string) (made []string, err error) {
	d, err := parseDatabase(url)
	if err != nil {
		return nil, err
	}
	c, err := d.settings()
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	db := stdlib.OpenDB(*c)
	defer db.Close()
	steps, err := provider(db)
	if err != nil {
		return nil, fmt.Errorf("rules: migrate: %w", err)
	}
	results, err := steps.Up(ctx)
	for _, r := range results {
		made = append(made, r.Source.Path)
	}
	if err != nil {
		return made, explainMigration(err)
	}
	// Without arguments several statements are one transaction.
	if _, err := db.ExecContext(ctx, notifySQL+historySQL); err != nil {
		return made, explainMigration(err)
	}
	return made, nil
}

// AllowSeveral lets the table, which [Migrate] made or extended, hold several
// rows for a tenant and a route: one for each limit, and beside each a temporary
// one. The constraint that allows one alone goes: programs that write ON
// CONFLICT (tenant_id, route_id) do not work any more.
func AllowSeveral(ctx context.Context, url string) error {
	d, err := parseDatabase(url)
	if err != nil {
		return err
	}
	conn, err := d.connect(ctx)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, severalSQL); err != nil {
		return explainMigration(err)
	}
	return nil
}

// provider returns the steps, which one program at a time makes.
func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	store, err := database.NewStore(database.DialectPostgres, versions)
	if err != nil {
		return nil, err
	}
	alone, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db, files, goose.WithStore(store), goose.WithSessionLocker(alone), goose.WithDisableGlobalRegistry(true))
}

// Codes of PostgreSQL's errors.
const (
	insufficientPrivilege = "42501"
	readOnly              = "25006" // a standby is asked for what only a primary can do
)

// explainMigration adds what can be done about an error.
func explainMigration(err error) error {
	if hasCode(err, insufficientPrivilege) {
		return fmt.Errorf("rules: migrate: %w: run it as the owner of the table, who may also create functions in its schema; without the triggers, changes are seen by polling", err)
	}
	return fmt.Errorf("rules: migrate: %w", err)
}

// hasCode says whether an error is one of PostgreSQL with a code.
func hasCode(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}
