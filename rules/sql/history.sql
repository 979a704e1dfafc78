-- Records every change of a rule. It is installed anew each time, so that what
-- was dropped comes back, in one transaction with notify.sql, which keeps others
-- from doing so at the same time.

-- A table that allows nulls takes them as before.
--
-- Whoever may change rules need not be allowed to write the history: the
-- function does it as its owner.
CREATE OR REPLACE FUNCTION rate_limit_rule_record() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  -- The user of the caller: current_user is the owner here.
  db text := coalesce(nullif(current_setting('role', true), 'none'), session_user);
  who text := left(coalesce(nullif(current_setting('sluice.actor', true), ''), db), 200);
  at timestamptz := clock_timestamp();
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO rate_limit_rule_history (changed_at, actor, db_user, operation, rule_id, tenant_id, route_id, old_row, new_row)
      SELECT at, who, db, 'create', coalesce(n.id, 0), coalesce(n.tenant_id::text, ''), coalesce(n.route_id::text, ''), NULL, to_jsonb(n)
      FROM new_rows AS n ORDER BY n.id;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO rate_limit_rule_history (changed_at, actor, db_user, operation, rule_id, tenant_id, route_id, old_row, new_row)
      SELECT at, who, db, 'delete', coalesce(o.id, 0), coalesce(o.tenant_id::text, ''), coalesce(o.route_id::text, ''), to_jsonb(o), NULL
      FROM old_rows AS o ORDER BY o.id;
  ELSIF TG_OP = 'UPDATE' THEN
    -- A row whose number was changed is two: one that went and one that came.
    INSERT INTO rate_limit_rule_history (changed_at, actor, db_user, operation, rule_id, tenant_id, route_id, old_row, new_row)
      SELECT at, who, db,
        CASE WHEN o.id IS NULL THEN 'create' WHEN n.id IS NULL THEN 'delete' ELSE 'change' END,
        coalesce(n.id, o.id, 0), coalesce(n.tenant_id::text, o.tenant_id::text, ''), coalesce(n.route_id::text, o.route_id::text, ''),
        CASE WHEN o.id IS NOT NULL THEN to_jsonb(o) END, CASE WHEN n.id IS NOT NULL THEN to_jsonb(n) END
      FROM old_rows AS o FULL JOIN new_rows AS n ON n.id = o.id
      WHERE to_jsonb(o) - 'updated_at' IS DISTINCT FROM to_jsonb(n) - 'updated_at'
      ORDER BY coalesce(n.id, o.id);
  ELSE
    INSERT INTO rate_limit_rule_history (changed_at, actor, db_user, operation, rule_id, tenant_id, route_id, old_row, new_row)
      SELECT at, who, db, 'delete', coalesce(o.id, 0), coalesce(o.tenant_id::text, ''), coalesce(o.route_id::text, ''), to_jsonb(o), NULL
      FROM rate_limit_rule AS o ORDER BY o.id;
  END IF;
  RETURN NULL;
END
$$;

-- No other table's trigger may write here as the owner.
REVOKE ALL ON FUNCTION rate_limit_rule_record() FROM PUBLIC;

-- The names in the function mean the tables of one schema, whatever search path
-- its caller has.
DO $$
BEGIN
  EXECUTE (SELECT format('ALTER FUNCTION rate_limit_rule_record() SET search_path = %I, pg_temp', n.nspname)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass('rate_limit_rule'));
END
$$;

DROP TRIGGER IF EXISTS rate_limit_rule_record_insert ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_record_insert AFTER INSERT ON rate_limit_rule
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_record();

DROP TRIGGER IF EXISTS rate_limit_rule_record_update ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_record_update AFTER UPDATE ON rate_limit_rule
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_record();

DROP TRIGGER IF EXISTS rate_limit_rule_record_delete ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_record_delete AFTER DELETE ON rate_limit_rule
  REFERENCING OLD TABLE AS old_rows
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_record();

-- Only before it are there rows to record.
DROP TRIGGER IF EXISTS rate_limit_rule_record_truncate ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_record_truncate BEFORE TRUNCATE ON rate_limit_rule
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_record();
