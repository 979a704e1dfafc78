-- Lets a tenant and a route have several rows: one for each limit, and beside
-- each a temporary one.

-- Nobody installs triggers at the same time.
SELECT pg_advisory_xact_lock(hashtext('rate_limit_rule_notify'));

DO $$
DECLARE
  narrow record;
BEGIN
  FOR narrow IN
    SELECT i.indexrelid::regclass::text AS name, c.conname
      FROM pg_index AS i LEFT JOIN pg_constraint AS c ON c.conindid = i.indexrelid AND c.contype = 'u'
      WHERE i.indrelid = to_regclass('rate_limit_rule') AND i.indisunique AND NOT i.indisprimary
        AND i.indexprs IS NULL AND i.indpred IS NULL
        AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute AS a
          WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) = ARRAY['route_id', 'tenant_id']
  LOOP
    IF narrow.conname IS NULL THEN
      EXECUTE 'DROP INDEX ' || narrow.name;
    ELSE
      EXECUTE format('ALTER TABLE rate_limit_rule DROP CONSTRAINT %I', narrow.conname);
    END IF;
  END LOOP;
END
$$;

CREATE UNIQUE INDEX IF NOT EXISTS rate_limit_rule_place
  ON rate_limit_rule (tenant_id, route_id, (coalesce(limit_name, '')), (expires_at IS NULL));
