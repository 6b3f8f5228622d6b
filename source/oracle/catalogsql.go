package oracle

// The catalogue is read by three queries, whatever the number of tables. They see what the user may see. Each of them is
// completed by the conditions of scopeSQL. Materialised views are tables to the catalogue as well.

// ownSQL leaves out what belongs to the database itself.
const ownSQL = `
  (o.owner = SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') OR o.owner NOT IN (SELECT u.username FROM all_users u WHERE u.oracle_maintained = 'Y'))`

// tablesSQL lists tables and views. Nested tables are read with the tables they are in; the parts of indexes and of
// index-organised tables, and what was dropped, are no tables to anybody.
const tablesSQL = `
SELECT o.owner, o.name, SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')
FROM (
  SELECT t.owner AS owner, t.table_name AS name FROM all_tables t
  WHERE t.nested = 'NO' AND t.secondary = 'N' AND t.dropped = 'NO' AND (t.iot_type IS NULL OR t.iot_type = 'IOT')
  UNION
  SELECT v.owner, v.view_name FROM all_views v
  UNION
  SELECT m.owner, m.mview_name FROM all_mviews m
) o
WHERE` + ownSQL

// columnsSQL lists columns, computed ones among them, but for those that only appear where they are named.
const columnsSQL = `
SELECT o.owner, o.name, o.column_name, o.data_type, o.data_type_owner, o.data_length, o.char_length, o.data_precision, o.data_scale, o.nullable
FROM (
  SELECT c.owner AS owner, c.table_name AS name, c.column_name, c.data_type, c.data_type_owner, c.data_length, c.char_length,
    c.data_precision, c.data_scale, c.nullable, c.column_id
  FROM all_tab_cols c
  WHERE c.hidden_column = 'NO' AND c.column_id IS NOT NULL
) o
WHERE` + ownSQL

const columnsOrderSQL = `
ORDER BY o.owner, o.name, o.column_id`

// keysSQL lists the columns of primary keys.
const keysSQL = `
SELECT o.owner, o.name, o.column_name
FROM (
  SELECT k.owner AS owner, k.table_name AS name, x.column_name
  FROM all_constraints k
  JOIN all_cons_columns x ON x.owner = k.owner AND x.constraint_name = k.constraint_name AND x.table_name = k.table_name
  WHERE k.constraint_type = 'P'
) o
WHERE` + ownSQL
