package sqlserver

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

const (
	defaultSchema = "dbo"
	maxNames      = 500 // that a query looks for; more are looked for among all
)

// Catalog lists the tables of the scope. A scope without a schema is that of the connection. A scope with tables lists
// those that one of the names stands for, so that a name which is ambiguous stays so.
func (s *session) Catalog(ctx context.Context, scope source.Scope) (*source.Catalog, error) {
	if !s.begun {
		if err := s.prepare(ctx); err != nil {
			return nil, err
		}
	}
	only := scope.Schema
	if only == "" {
		only = s.schema
	}
	where, args := scopeSQL(only, scope.Tables)
	found, err := s.readTables(ctx, where, args)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return source.NewCatalog(schemaName(only, nil), nil), nil
	}
	if err := s.readColumns(ctx, where, args, found); err != nil {
		return nil, err
	}
	tables := make([]source.Table, 0, len(found))
	for _, t := range found {
		if len(t.Columns) > 0 { // none: nothing of it may be read, or it has gone
			tables = append(tables, t.Table)
		}
	}
	catalog := source.NewCatalog(schemaName(only, tables), tables)
	if len(scope.Tables) > 0 {
		catalog.Tables = slices.DeleteFunc(catalog.Tables, func(t source.Table) bool {
			return !slices.ContainsFunc(scope.Tables, func(name string) bool {
				return strings.EqualFold(t.Name, name) || strings.EqualFold(t.Schema+"."+t.Base, name)
			})
		})
	}
	return catalog, nil
}

// scopeSQL returns the conditions of a scope. Names are compared regardless of the case of ASCII, and all names with
// other letters come back: the rules for names are applied here.
func scopeSQL(schema string, names []string) (string, []any) {
	var where strings.Builder
	var args []any
	if schema != "" {
		args = append(args, schema)
		fmt.Fprintf(&where, " AND s.name = @p%d", len(args))
	}
	wanted := baseNames(names)
	if len(wanted) == 0 || len(wanted) > maxNames {
		return where.String(), args
	}
	where.WriteString(" AND (LOWER(o.name COLLATE Latin1_General_BIN2) IN (")
	for i, name := range wanted {
		if i > 0 {
			where.WriteString(", ")
		}
		args = append(args, name)
		fmt.Fprintf(&where, "@p%d", len(args))
	}
	where.WriteString(") OR o.name COLLATE Latin1_General_BIN2 LIKE N'%[^ -~]%')")
	return where.String(), args
}

// schemaName returns the schema whose tables have bare names, spelled as the server does: whether case matters in the
// names of schemas is the database's choice.
func schemaName(only string, tables []source.Table) string {
	if only == "" {
		return defaultSchema
	}
	for _, t := range tables {
		if t.Schema == only {
			return only
		}
	}
	if len(tables) > 0 {
		return tables[0].Schema
	}
	return only
}

// baseNames returns what the names may stand for without a schema, in lower case: every part after a dot, for schemas
// and tables may have dots too.
func baseNames(names []string) []string {
	var out []string
	for _, name := range names {
		name = lowerASCII(name)
		out = append(out, name)
		for i := range len(name) {
			if name[i] == '.' {
				out = append(out, name[i+1:])
			}
		}
	}
	return out
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// table is a table on its way into the catalogue.
type table struct {
	source.Table

	partly bool // the user may read only some columns
}

func (s *session) readTables(ctx context.Context, where string, args []any) (map[int]*table, error) {
	found := make(map[int]*table)
	err := s.query(ctx, "list tables", tablesSQL+where, args, 4, func(row []sqldriver.Value) {
		found[integer(row[0])] = &table{
			Table: source.Table{Schema: text(row[1]), Base: text(row[2])}, partly: integer(row[3]) == 1,
		}
	})
	return found, err
}

// readColumns gives the tables their columns.
func (s *session) readColumns(ctx context.Context, where string, args []any, found map[int]*table) error {
	readable, err := s.readRights(ctx, where, args, found)
	if err != nil {
		return err
	}
	types := make(map[columnType]*typ) // few types, many columns
	return s.query(ctx, "list columns", columnsSQL+where+columnsOrderSQL, args, 12, func(row []sqldriver.Value) {
		t, ok := found[integer(row[0])]
		if !ok || t.partly && !readable[[2]int{integer(row[0]), integer(row[1])}] {
			return
		}
		c := columnType{
			name: text(row[3]), assembly: integer(row[4]) == 1, length: integer(row[5]), precision: integer(row[6]),
			scale: integer(row[7]), collation: text(row[9]), codePage: integer(row[10]),
		}
		if types[c] == nil {
			types[c] = typeOf(c)
		}
		t.Columns = append(t.Columns, types[c].column(text(row[2]), len(t.Columns)+1, integer(row[8]) == 1, integer(row[11]) == 1))
	})
}

// readRights returns the columns that may be read of tables of which not all may.
func (s *session) readRights(ctx context.Context, where string, args []any, found map[int]*table) (map[[2]int]bool, error) {
	readable := make(map[[2]int]bool)
	partly := false
	for _, t := range found {
		partly = partly || t.partly
	}
	if !partly {
		return readable, nil
	}
	err := s.query(ctx, "list rights", rightsSQL+where, args, 2, func(row []sqldriver.Value) {
		readable[[2]int{integer(row[0]), integer(row[1])}] = true
	})
	return readable, err
}

// integer and text read what the catalogue holds; null is zero.
func integer(v sqldriver.Value) int {
	n, _ := v.(int64)
	return int(n)
}

func text(v sqldriver.Value) string {
	s, _ := v.(string)
	return s
}
