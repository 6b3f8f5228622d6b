package oracle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

const (
	maxParameters = 65000 // of a statement; the server has 65,535
	maxList       = 1000  // values of one IN
)

var (
	errForeignColumn = errors.New("column is not of this catalogue")
	errLongList      = errors.New("filters have more values than a statement can")
)

// statement is a SELECT with its parameters. Identifiers come from the catalogue, values are bound.
type statement struct {
	sql     strings.Builder
	args    []any
	columns []column
}

// column is where a column's value is in a row, and how it is rendered.
type column struct {
	typ *typ
	at  int
}

// newStatement writes the query out.
func newStatement(q source.Query) (*statement, error) {
	s := &statement{}
	if err := s.selectList(q.Columns); err != nil {
		return nil, err
	}
	table, err := quoteIdent(q.Table.Base)
	if err != nil {
		return nil, err
	}
	schema, err := quoteIdent(q.Table.Schema)
	if err != nil {
		return nil, err
	}
	s.sql.WriteString(" FROM " + schema + "." + table)
	for i, p := range q.Where {
		t, ok := p.Column.Native.(*typ)
		if !ok {
			return nil, &source.Error{Category: source.CategoryOther, Err: errForeignColumn}
		}
		name, err := quoteIdent(p.Column.Name)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			s.sql.WriteString(" WHERE ")
		} else {
			s.sql.WriteString(" AND ")
		}
		where := condition{statement: s, typ: t, column: name}
		s.sql.WriteString("(" + where.sql(p) + ")")
	}
	if len(s.args) > maxParameters {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: errLongList}
	}
	return s, nil
}

func (s *statement) selectList(columns []*source.Column) error {
	s.sql.WriteString("SELECT ")
	at := 0
	for i, c := range columns {
		t, ok := c.Native.(*typ)
		if !ok {
			return &source.Error{Category: source.CategoryOther, Err: errForeignColumn}
		}
		name, err := quoteIdent(c.Name)
		if err != nil {
			return err
		}
		if i > 0 {
			s.sql.WriteString(", ")
		}
		if t.read == "" {
			s.sql.WriteString(name)
		} else {
			s.sql.WriteString(strings.ReplaceAll(t.read, "%s", name))
		}
		s.columns = append(s.columns, column{typ: t, at: at})
		at++
		if t.lob { // the driver gives the same for null and for a value of no length
			fmt.Fprintf(&s.sql, ", CASE WHEN %s IS NULL THEN 0 ELSE 1 END", name)
			at++
		}
	}
	return nil
}

// quoteIdent quotes a name as the catalogue has it. Oracle has no names with quotes.
func quoteIdent(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "\"\x00") {
		return "", &source.Error{Category: source.CategoryUnsupported, Err: errors.New("name that Oracle can't have")}
	}
	return `"` + name + `"`, nil
}

// bind adds a parameter and returns its place-holder.
func (s *statement) bind(value any) string {
	s.args = append(s.args, value)
	return ":" + strconv.Itoa(len(s.args))
}
