package mysql

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// The catalogue queries. Each ends in a condition on schema and names, TABLE_SCHEMA and TABLE_NAME.
const (
	tablesSQL = `SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE NOT IN ('SEQUENCE', 'TEMPORARY')`

	columnsSQL = `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_KEY, ORDINAL_POSITION,
	NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS WHERE 1 = 1`

	checksSQL = `SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
	WHERE CHECK_CLAUSE LIKE 'json\_valid(%'`
)

// systemSchemas are never listed.
const systemSchemas = `('information_schema', 'mysql', 'performance_schema', 'sys')`

// mostNames is from where a scope does not narrow the queries any more.
const mostNames = 5000

// Catalog lists the tables of the scope. A scope without a schema is that of the connection: its database, whose tables
// have bare names, and the others that the user can read. A scope with tables lists those that one of the names stands
// for, so that a name which is ambiguous stays so.
func (s *session) Catalog(ctx context.Context, scope source.Scope) (*source.Catalog, error) {
	if !s.begun {
		if err := s.run(ctx, "set", "SET NAMES utf8mb4"); err != nil {
			return nil, err
		}
	}
	bare, only := s.schema, s.only
	if scope.Schema != "" {
		bare, only = scope.Schema, true
	}
	catalog, err := s.readTables(ctx, bare, only, scope.Tables)
	if err != nil || len(catalog.Tables) == 0 {
		return catalog, err
	}
	where := narrow("TABLE_SCHEMA", bare, only, scope.Tables)
	columns, err := s.readColumns(ctx, where)
	if err != nil {
		return nil, err
	}
	if s.maria {
		if err := s.readChecks(ctx, columns, narrow("CONSTRAINT_SCHEMA", bare, only, scope.Tables)); err != nil {
			return nil, err
		}
	}
	for i := range catalog.Tables {
		t := &catalog.Tables[i]
		t.Columns = columns[tableKey{t.Schema, t.Base}]
		slices.SortFunc(t.Columns, func(a, b source.Column) int { return cmp.Compare(a.Position, b.Position) })
		for j := range t.Columns {
			t.Columns[j].Position = j + 1
		}
	}
	// What has no columns can't be read: a view that fails, or a table whose columns the user may not see.
	catalog.Tables = slices.DeleteFunc(catalog.Tables, func(t source.Table) bool { return len(t.Columns) == 0 })
	return catalog, nil
}

// tableKey identifies a table.
type tableKey struct{ schema, base string }

// filter is a condition with its parameters.
type filter struct {
	sql    string
	params []param
}

// narrow writes the condition on schema and names.
func narrow(column, bare string, only bool, names []string) filter {
	f := filter{sql: " AND " + column + " NOT IN " + systemSchemas}
	if only {
		f = filter{sql: " AND " + column + " = ?", params: []param{textParam(bare)}}
	}
	candidates := baseNames(names)
	if len(names) == 0 || len(candidates) > mostNames {
		return f
	}
	for _, name := range candidates {
		f.params = append(f.params, textParam(name))
	}
	f.sql += " AND LOWER(TABLE_NAME) IN (?" + strings.Repeat(", ?", len(candidates)-1) + ")"
	return f
}

// baseNames returns what the names may stand for without a schema, in lower case: every part after a dot, for schemas
// and tables may have dots too.
func baseNames(names []string) []string {
	var out []string
	for _, name := range names {
		name = strings.ToLower(name)
		out = append(out, name)
		for i := range len(name) {
			if name[i] == '.' {
				out = append(out, name[i+1:])
			}
		}
	}
	return out
}

// readTables returns the tables without their columns.
func (s *session) readTables(ctx context.Context, bare string, only bool, names []string) (*source.Catalog, error) {
	where := narrow("TABLE_SCHEMA", bare, only, names)
	var tables []source.Table
	err := s.query(ctx, "list tables", tablesSQL+where.sql, where.params, 2, func(row [][]byte) {
		tables = append(tables, source.Table{Schema: string(row[0]), Base: string(row[1])})
	})
	if err != nil {
		return nil, err
	}
	catalog := source.NewCatalog(bare, tables)
	if len(names) > 0 {
		catalog.Tables = slices.DeleteFunc(catalog.Tables, func(t source.Table) bool {
			return !slices.ContainsFunc(names, func(name string) bool {
				return strings.EqualFold(t.Name, name) || strings.EqualFold(t.Schema+"."+t.Base, name)
			})
		})
	}
	return catalog, nil
}

// readColumns returns the columns of every table.
func (s *session) readColumns(ctx context.Context, where filter) (map[tableKey][]source.Column, error) {
	columns := make(map[tableKey][]source.Column)
	words := make(map[string]string) // few, for many columns
	intern := func(b []byte) string {
		word, ok := words[string(b)]
		if !ok {
			word = string(b)
			words[word] = word
		}
		return word
	}
	types := make(map[[5]string]*typ) // few as well
	err := s.query(ctx, "list columns", columnsSQL+where.sql, where.params, 13, func(row [][]byte) {
		key := [5]string{strings.ToLower(string(row[3])), intern(row[4]), intern(row[11]), intern(row[12]), intern(row[10])}
		t := types[key]
		if t == nil {
			t = newType(key[0], key[1], key[2], key[3], integer(row[10]))
			t.maria = s.maria
			types[key] = t
		}
		c := source.Column{
			Name: intern(row[2]), Type: intern(row[4]), Family: t.family,
			Nullable: string(row[5]) == "YES", PrimaryKey: string(row[6]) == "PRI", Position: integer(row[7]),
			Bits: parserBits(t), Unsigned: t.unsigned, Labels: t.labels, Native: t,
		}
		c.Wide = t.family == source.FamilyTime
		switch t.family {
		case source.FamilyTime, source.FamilyTimestamp, source.FamilyTimestampTZ:
			c.Fraction = 6
		case source.FamilyDecimal:
			c.Precision, c.Scale = integer(row[8]), integer(row[9])
		}
		table := tableKey{intern(row[0]), intern(row[1])}
		columns[table] = append(columns[table], c)
	})
	return columns, err
}

// parserBits is the size of an integer as it is parsed; the type itself checks odd ones.
func parserBits(t *typ) int {
	switch {
	case t.family == source.FamilyInt && t.bits == 24:
		return 32
	case t.family == source.FamilyInt, t.family == source.FamilyFloat:
		return t.bits
	}
	return 0
}

// readChecks finds the columns that hold JSON by the check that MariaDB gives those.
func (s *session) readChecks(ctx context.Context, columns map[tableKey][]source.Column, where filter) error {
	return s.query(ctx, "list checks", checksSQL+where.sql, where.params, 3, func(row [][]byte) {
		name, ok := checkedColumn(string(row[2]))
		if !ok {
			return
		}
		table := columns[tableKey{string(row[0]), string(row[1])}]
		for i := range table {
			c := &table[i]
			t, isType := c.Native.(*typ)
			if isType && c.Name == name && t.kind == kindText {
				checked := *t
				checked.kind, checked.family = kindCheckedJSON, source.FamilyJSON
				c.Family, c.Native = source.FamilyJSON, &checked
			}
		}
	})
}

// checkedColumn takes the name out of json_valid(`name`).
func checkedColumn(clause string) (string, bool) {
	name, begins := strings.CutPrefix(clause, "json_valid(`")
	name, ends := strings.CutSuffix(name, "`)")
	name = strings.ReplaceAll(name, "``", "\x00")
	if !begins || !ends || strings.Contains(name, "`") {
		return "", false
	}
	return strings.ReplaceAll(name, "\x00", "`"), true
}

// integer reads what the server's catalogue holds.
func integer(b []byte) int {
	n, _ := strconv.Atoi(string(b))
	return n
}
