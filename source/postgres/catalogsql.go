package postgres

// The catalogue is read by three queries, whatever the number of tables. They see what the user may see.

// tablesSQL lists what can be read like a table: $1 is the only schema to list or null; $2 the lower-case names to
// look for or null. It folds the case of ASCII only, as every server does alike, and hands back all other names:
// the rules for names are applied here. has_any_column_privilege covers rights on the whole table.
const tablesSQL = `
SELECT c.oid, n.nspname, c.relname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND ($1::text IS NULL OR n.nspname::text = $1::text)
  AND ($2::text[] IS NULL
       OR pg_catalog.lower(c.relname::text COLLATE "C") = ANY ($2::text[])
       OR c.relname::text COLLATE "C" ~ '[^ -~]')
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')`

// columnsSQL lists the columns of the tables $1 in order.
const columnsSQL = `
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
       coalesce(a.attnum = ANY (k.conkey), false),
       pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM (SELECT DISTINCT pg_catalog.unnest($1::oid[]) AS oid) t
JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid
LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid AND k.contype = 'p'
WHERE a.attnum > 0 AND NOT a.attisdropped
  AND (pg_catalog.has_table_privilege(a.attrelid, 'SELECT')
       OR pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'))
ORDER BY a.attrelid, a.attnum`

// typesSQL describes the types $1 and all that they are made of: base types of domains, elements of arrays, attributes
// of composites. An array is what array_out writes: some types that have elements write them their own way. The last
// column is the number of digits behind money's point, which is the server's setting.
const typesSQL = `
WITH RECURSIVE used (oid) AS (
  SELECT pg_catalog.unnest($1::oid[])
  UNION
  SELECT part.oid
  FROM used u
  JOIN pg_catalog.pg_type t ON t.oid = u.oid
  CROSS JOIN LATERAL (
    SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
    UNION ALL
    SELECT t.typelem WHERE t.typoutput = 'pg_catalog.array_out'::pg_catalog.regproc
    UNION ALL
    SELECT a.atttypid FROM pg_catalog.pg_attribute a
    WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
  ) part
)
SELECT t.oid, n.nspname, t.typname, t.typtype, t.typnotnull, t.typtypmod, t.typarray, t.typdelim, t.typbasetype,
       CASE WHEN t.typoutput = 'pg_catalog.array_out'::pg_catalog.regproc THEN t.typelem ELSE 0 END,
       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e
             WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.atttypid FROM pg_catalog.pg_attribute a
             WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       CASE WHEN t.oid = 790 THEN pg_catalog.scale(0::pg_catalog.money::pg_catalog.numeric) END
FROM (SELECT DISTINCT oid FROM used) u
JOIN pg_catalog.pg_type t ON t.oid = u.oid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace`
