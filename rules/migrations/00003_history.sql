-- What every change of a rule was: by whom, when, from what and to what. It
-- stands in the schema of the table of rules, wherever that is.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
  home text;
BEGIN
  SELECT quote_ident(n.nspname) INTO home
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass('rate_limit_rule');
  EXECUTE 'CREATE TABLE IF NOT EXISTS ' || home || '.rate_limit_rule_history (
    id BIGSERIAL PRIMARY KEY,
    changed_at TIMESTAMPTZ NOT NULL,
    actor TEXT NOT NULL,
    db_user TEXT NOT NULL,
    operation TEXT NOT NULL,
    rule_id BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    route_id TEXT NOT NULL,
    old_row JSONB,
    new_row JSONB
  )';
  EXECUTE 'CREATE INDEX IF NOT EXISTS rate_limit_rule_history_place ON ' || home || '.rate_limit_rule_history (tenant_id, route_id, id)';
  -- Rows that were renamed are found by their old names too.
  EXECUTE 'CREATE INDEX IF NOT EXISTS rate_limit_rule_history_renamed ON ' || home || '.rate_limit_rule_history ((old_row ->> ''tenant_id''), (old_row ->> ''route_id''))
    WHERE old_row ->> ''tenant_id'' <> tenant_id OR old_row ->> ''route_id'' <> route_id';
  EXECUTE 'CREATE INDEX IF NOT EXISTS rate_limit_rule_history_time ON ' || home || '.rate_limit_rule_history USING brin (changed_at)';
END
$$;
-- +goose StatementEnd
