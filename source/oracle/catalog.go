package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"slices"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

const maxNames = 400 // that a query looks for; more are looked for among all

// Catalog lists the tables of the scope. A scope without a schema is that of the connection; without one there, too, the
// user's own tables have bare names. A scope with tables lists those that one of the names stands for, so that a name
// which is ambiguous stays so.
func (s *session) Catalog(ctx context.Context, scope source.Scope) (*source.Catalog, error) {
	only := scope.Schema
	if only == "" {
		only = s.schema
	}
	s.fetch(fetchCatalog)
	where, args := scopeSQL(only, scope.Tables)
	found, current, err := s.readTables(ctx, where, args)
	if err != nil {
		return nil, err
	}
	bare := current
	if only != "" {
		bare = schemaName(only, found)
	}
	if len(found) > 0 {
		if err := s.readColumns(ctx, where, args, found); err != nil {
			return nil, err
		}
	}
	tables := make([]source.Table, 0, len(found))
	for _, t := range found {
		if len(t.Columns) > 0 && (only == "" || t.Schema == bare) { // none: it has gone
			tables = append(tables, *t)
		}
	}
	catalog := source.NewCatalog(bare, tables)
	if len(scope.Tables) > 0 {
		catalog.Tables = slices.DeleteFunc(catalog.Tables, func(t source.Table) bool {
			return !slices.ContainsFunc(scope.Tables, func(name string) bool {
				return strings.EqualFold(t.Name, name) || strings.EqualFold(t.Schema+"."+t.Base, name)
			})
		})
	}
	return catalog, nil
}

// scopeSQL returns the conditions of a scope. A schema is looked for as it is spelled and in upper case. Names are
// compared regardless of the case of ASCII, and all names with other letters come back: the rules for names are applied
// here.
func scopeSQL(schema string, names []string) (string, []any) {
	var where strings.Builder
	var args []any
	holder := func(value string) string {
		args = append(args, value)
		return ":" + strconv.Itoa(len(args))
	}
	if schema != "" {
		where.WriteString(" AND o.owner IN (" + holder(schema) + ", " + holder(strings.ToUpper(schema)) + ")")
	}
	wanted := baseNames(names)
	if len(wanted) == 0 || len(wanted) > maxNames {
		return where.String(), args
	}
	where.WriteString(" AND (UPPER(o.name) IN (")
	for i, name := range wanted {
		if i > 0 {
			where.WriteString(", ")
		}
		where.WriteString(holder(name))
	}
	where.WriteString(") OR ASCIISTR(o.name) <> o.name)")
	return where.String(), args
}

// baseNames returns what the names may stand for without a schema, in upper case: every part after a dot, for schemas and
// tables may have dots too.
func baseNames(names []string) []string {
	var out []string
	for _, name := range names {
		name = upperASCII(name)
		out = append(out, name)
		for i := range len(name) {
			if name[i] == '.' && i+1 < len(name) {
				out = append(out, name[i+1:])
			}
		}
	}
	return out
}

func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

// tableKey tells tables apart.
type tableKey struct{ schema, name string }

// schemaName returns the schema that is meant: the one spelled like that, or else the one in upper case.
func schemaName(only string, found map[tableKey]*source.Table) string {
	upper := strings.ToUpper(only)
	seen := false
	for key := range found {
		if key.schema == only {
			return only
		}
		seen = seen || key.schema == upper
	}
	if seen {
		return upper
	}
	return only
}

// readTables lists the tables, and the schema whose tables have bare names, which only comes with tables.
func (s *session) readTables(ctx context.Context, where string, args []any) (map[tableKey]*source.Table, string, error) {
	found := make(map[tableKey]*source.Table)
	current := ""
	err := s.query(ctx, "list tables", tablesSQL+where, args, 3, func(row []sqldriver.Value) {
		key := tableKey{text(row[0]), text(row[1])}
		found[key] = &source.Table{Schema: key.schema, Base: key.name}
		current = text(row[2])
	})
	return found, current, err
}

// columnKey tells columns apart.
type columnKey struct {
	tableKey

	column string
}

// readColumns gives the tables their columns.
func (s *session) readColumns(ctx context.Context, where string, args []any, found map[tableKey]*source.Table) error {
	keys := make(map[columnKey]bool)
	err := s.query(ctx, "list keys", keysSQL+where, args, 3, func(row []sqldriver.Value) {
		keys[columnKey{tableKey{text(row[0]), text(row[1])}, text(row[2])}] = true
	})
	if err != nil {
		return err
	}
	types := make(map[columnType]*typ) // few types, many columns
	return s.query(ctx, "list columns", columnsSQL+where+columnsOrderSQL, args, 10, func(row []sqldriver.Value) {
		key := columnKey{tableKey{text(row[0]), text(row[1])}, text(row[2])}
		t, ok := found[key.tableKey]
		if !ok {
			return
		}
		c := columnType{
			name: text(row[3]), owner: text(row[4]), length: integer(row[5]), chars: integer(row[6]),
			precision: integer(row[7]), hasPrecision: row[7] != nil, scale: integer(row[8]), hasScale: row[8] != nil,
		}
		if types[c] == nil {
			types[c] = typeOf(c)
		}
		t.Columns = append(t.Columns, types[c].column(key.column, len(t.Columns)+1, text(row[9]) == "Y", keys[key]))
	})
}
