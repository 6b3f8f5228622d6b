package sqlserver

// The catalogue is read by two queries, and a third one where somebody has rights on single columns, whatever the
// number of tables. They see what the user may see. Each of them is completed by the conditions of scopeSQL.

// fromSQL is what can be read like a table: tables, whether partitioned, temporal, in memory or external, and views.
const fromSQL = `
FROM sys.objects AS o
JOIN sys.schemas AS s ON s.schema_id = o.schema_id`

const whereSQL = `
WHERE o.type IN ('U', 'V', 'ET') AND o.is_ms_shipped = 0`

const qualifiedSQL = `QUOTENAME(s.name) + N'.' + QUOTENAME(o.name), N'OBJECT', N'SELECT'`

// partlySQL tells tables whose columns the user may not all read, or not for sure.
const partlySQL = `CASE WHEN HAS_PERMS_BY_NAME(` + qualifiedSQL + `) = 1 AND NOT EXISTS (
    SELECT 1 FROM sys.database_permissions AS p WHERE p.class = 1 AND p.major_id = o.object_id AND p.minor_id <> 0
  ) THEN 0 ELSE 1 END`

const tablesSQL = `
SELECT o.object_id, s.name, o.name, ` + partlySQL + fromSQL + whereSQL

// columnsSQL lists columns with the base types of theirs. The inner columns of graph tables can't be selected.
const columnsSQL = `
SELECT c.object_id, c.column_id, c.name, COALESCE(b.name, t.name), CONVERT(int, t.is_assembly_type),
  CONVERT(int, c.max_length), CONVERT(int, c.precision), CONVERT(int, c.scale), CONVERT(int, c.is_nullable),
  c.collation_name, CONVERT(int, COLLATIONPROPERTY(c.collation_name, 'CodePage')),
  CASE WHEN k.column_id IS NULL THEN 0 ELSE 1 END` + fromSQL + `
JOIN sys.columns AS c ON c.object_id = o.object_id
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id AND b.system_type_id = c.system_type_id
LEFT JOIN (
  SELECT i.object_id, x.column_id
  FROM sys.indexes AS i
  JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id
  WHERE i.is_primary_key = 1 AND x.is_included_column = 0
) AS k ON k.object_id = c.object_id AND k.column_id = c.column_id` + whereSQL + `
  AND ISNULL(COLUMNPROPERTY(c.object_id, c.name, 'GraphType'), 2) IN (2, 5, 8)`

const columnsOrderSQL = `
ORDER BY c.object_id, c.column_id`

// rightsSQL lists the columns that the user may read of the tables that partlySQL tells of.
const rightsSQL = `
SELECT c.object_id, c.column_id` + fromSQL + `
JOIN sys.columns AS c ON c.object_id = o.object_id` + whereSQL + `
  AND ` + partlySQL + ` = 1
  AND HAS_PERMS_BY_NAME(` + qualifiedSQL + `, c.name, N'COLUMN') = 1`
