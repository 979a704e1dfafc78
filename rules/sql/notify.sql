-- Tells instances which rows a statement changed: by their numbers, or by * where
-- there are many. It is installed anew each time, so that one that was dropped
-- comes back.

-- Two that install it at once would be in each other's way.
SELECT pg_advisory_xact_lock(hashtext('rate_limit_rule_notify'));

CREATE OR REPLACE FUNCTION rate_limit_rule_notify() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  changed bigint[];
BEGIN
  -- One row more than are told, to see whether there are too many.
  IF TG_OP = 'INSERT' THEN
    SELECT array_agg(id) INTO changed FROM (SELECT id FROM new_rows LIMIT 101) AS firsts;
  ELSIF TG_OP = 'DELETE' THEN
    SELECT array_agg(id) INTO changed FROM (SELECT id FROM old_rows LIMIT 101) AS firsts;
  ELSIF TG_OP = 'UPDATE' THEN
    SELECT array_agg(id) INTO changed
      FROM (SELECT id FROM new_rows UNION SELECT id FROM old_rows LIMIT 101) AS firsts;
  ELSE
    changed := array_fill(0::bigint, ARRAY[101]);
  END IF;
  IF cardinality(changed) > 100 THEN
    PERFORM pg_notify('rate_limit_rule', '*');
  ELSIF cardinality(changed) > 0 THEN
    PERFORM pg_notify('rate_limit_rule', array_to_string(changed, ','));
  END IF;
  RETURN NULL;
END
$$;

DROP TRIGGER IF EXISTS rate_limit_rule_notify_insert ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_notify_insert AFTER INSERT ON rate_limit_rule
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_notify();

DROP TRIGGER IF EXISTS rate_limit_rule_notify_update ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_notify_update AFTER UPDATE ON rate_limit_rule
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_notify();

DROP TRIGGER IF EXISTS rate_limit_rule_notify_delete ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_notify_delete AFTER DELETE ON rate_limit_rule
  REFERENCING OLD TABLE AS old_rows
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_notify();

DROP TRIGGER IF EXISTS rate_limit_rule_notify_truncate ON rate_limit_rule;
CREATE TRIGGER rate_limit_rule_notify_truncate AFTER TRUNCATE ON rate_limit_rule
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rule_notify();
