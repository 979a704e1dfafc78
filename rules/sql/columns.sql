-- The columns of the table and what they hold; none if there is no table.
SELECT a.attname::text, t.typname::text,
  (SELECT count(*) FROM pg_trigger AS g
    WHERE g.tgrelid = a.attrelid AND g.tgname LIKE 'rate\_limit\_rule\_notify\_%' AND g.tgenabled <> 'D')
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass('rate_limit_rule') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attname
