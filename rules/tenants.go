package rules

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Tenants returns each tenant that rows name, as it stands there; with past also
// those that only the history names, if there is one. A tenant that is secret may
// be asked for by another name than the table has.
func (r *Records) Tenants(ctx context.Context, past bool) ([]string, error) {
	var found []string
	err := r.transact(ctx, "", pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(s *session) error {
		query := "SELECT tenant_id::text FROM rate_limit_rule WHERE tenant_id IS NOT NULL"
		if past {
			if _, err := s.recording(ctx); err != nil {
				return err
			}
			query += " UNION SELECT tenant_id FROM rate_limit_rule_history UNION SELECT old_row ->> 'tenant_id' FROM rate_limit_rule_history WHERE " + renamed
		}
		rows, err := s.Query(ctx, "SELECT DISTINCT tenant_id FROM ("+query+") AS t (tenant_id) WHERE tenant_id IS NOT NULL")
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return found, err
}
