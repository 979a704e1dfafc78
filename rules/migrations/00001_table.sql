-- The table that operators expect. One that is there already stays as it is,
-- also in a schema that is not the first of the search path.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
  IF to_regclass('rate_limit_rule') IS NULL THEN
    CREATE TABLE rate_limit_rule (
      id BIGSERIAL PRIMARY KEY,
      tenant_id VARCHAR(64) NOT NULL,
      route_id VARCHAR(64) NOT NULL,
      capacity INT NOT NULL CHECK (capacity > 0),
      refill_per_second INT NOT NULL CHECK (refill_per_second > 0),
      updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
      UNIQUE (tenant_id, route_id)
    );
  END IF;
END
$$;
-- +goose StatementEnd
