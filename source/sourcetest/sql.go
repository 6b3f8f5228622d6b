package sourcetest

import (
	"fmt"
	"strings"
	"testing"
)

// SQL makes fixtures on a server that speaks SQL.
type SQL struct {
	Exec    func(tb testing.TB, statements ...string) // each on its own
	Quote   func(name string) string                  // of a table or column
	Types   map[Type]string                           // the words of a column definition
	Literal func(typ Type, value string) string       // of a value that is not Null; nil: quoted, numbers as they are
	Options string                                    // behind the parentheses of CREATE TABLE

	// Insert returns a statement that inserts rows, each the literals of all columns; nil: INSERT INTO … VALUES.
	Insert func(table string, rows [][]string) string
}

// batch is how many bytes of literals go into one INSERT.
const batch = 256 << 10

// Create makes tables with rows, for Database.Create.
func (s SQL) Create(tb testing.TB, tables ...Table) {
	tb.Helper()
	for _, t := range tables {
		name := s.Quote(t.Name)
		if t.Schema != "" {
			name = s.Quote(t.Schema) + "." + name
		}
		columns := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			columns[i] = s.Quote(c.Name) + " " + s.Types[c.Type]
		}
		statements := []string{fmt.Sprintf("CREATE TABLE %s (%s) %s", name, strings.Join(columns, ", "), s.Options)}
		rows := make([][]string, 0, len(t.Rows))
		size := 0
		for _, r := range t.Rows {
			literals := make([]string, len(r))
			for i, v := range r {
				literals[i] = s.literal(t.Columns[i].Type, v)
				size += len(literals[i])
			}
			if rows = append(rows, literals); size > batch {
				statements, rows, size = append(statements, s.insert(name, rows)), rows[:0], 0
			}
		}
		if len(rows) > 0 {
			statements = append(statements, s.insert(name, rows))
		}
		s.Exec(tb, statements...)
	}
}

// CreateView makes a view, for Database.CreateView.
func (s SQL) CreateView(tb testing.TB, view, table string) {
	tb.Helper()
	s.Exec(tb, fmt.Sprintf("CREATE VIEW %s AS SELECT * FROM %s", s.Quote(view), s.Quote(table)))
}

func (s SQL) insert(table string, rows [][]string) string {
	if s.Insert != nil {
		return s.Insert(table, rows)
	}
	tuples := make([]string, len(rows))
	for i, r := range rows {
		tuples[i] = "(" + strings.Join(r, ", ") + ")"
	}
	return "INSERT INTO " + table + " VALUES " + strings.Join(tuples, ", ")
}

func (s SQL) literal(typ Type, value string) string {
	switch {
	case value == Null:
		return "NULL"
	case s.Literal != nil:
		return s.Literal(typ, value)
	case typ == Integer, typ == Decimal, typ == Boolean:
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}
