-- What a row can say besides, all of it optional: other programs that write the
-- table need not know of it.

-- +goose Up
ALTER TABLE rate_limit_rule
  ADD COLUMN IF NOT EXISTS limit_name TEXT,
  ADD COLUMN IF NOT EXISTS period TEXT,
  ADD COLUMN IF NOT EXISTS algorithm TEXT,
  ADD COLUMN IF NOT EXISTS expires_at TIMESTAMPTZ;
