package sqlserver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

const (
	maxParameters = 2000 // of a statement; the protocol has 2,100
	maxList       = 200  // values that are bound one by one; longer lists are one parameter
	maxListTight  = 10   // the same where there are many lists
	levelJSON     = 130  // the compatibility level with OPENJSON
)

var (
	errForeignColumn = errors.New("column is not of this catalogue")
	errLongList      = errors.New("list is too long for the database's compatibility level")
)

// statement is a SELECT with its parameters. Identifiers come from the catalogue, values are bound.
type statement struct {
	sql     strings.Builder
	args    []any
	columns []column
	longest int // list whose values are bound one by one
	level   int // compatibility level of the database
	err     error
}

// column is where a column's value is in a row, and how it is rendered.
type column struct {
	typ *typ
	at  int
}

// newStatement writes the query out.
func newStatement(q source.Query, level int) (*statement, error) {
	s := &statement{longest: maxList, level: level}
	total := 0
	for _, p := range q.Where {
		total += 2 * len(p.Values)
	}
	if total > maxParameters {
		s.longest = maxListTight
	}
	if err := s.selectList(q.Columns); err != nil {
		return nil, err
	}
	s.sql.WriteString(" FROM " + quoteIdent(q.Table.Schema) + "." + quoteIdent(q.Table.Base))
	for i, p := range q.Where {
		t, ok := p.Column.Native.(*typ)
		if !ok {
			return nil, &source.Error{Category: source.CategoryOther, Err: errForeignColumn}
		}
		if i == 0 {
			s.sql.WriteString(" WHERE ")
		} else {
			s.sql.WriteString(" AND ")
		}
		where := condition{statement: s, typ: t, column: quoteIdent(p.Column.Name)}
		s.sql.WriteString("(" + where.sql(p) + ")")
	}
	if s.err == nil && len(s.args) > maxParameters {
		s.err = errLongList
	}
	if s.err != nil {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: s.err}
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
		if i > 0 {
			s.sql.WriteString(", ")
		}
		name := quoteIdent(c.Name)
		s.sql.WriteString(expression(t.read, name))
		s.columns = append(s.columns, column{typ: t, at: at})
		at++
		if t.kind == kindVariant {
			s.sql.WriteString(", CONVERT(nvarchar(128), SQL_VARIANT_PROPERTY(" + name + ", N'BaseType'))")
			at++
		}
	}
	return nil
}

func expression(form, name string) string {
	if form == "" {
		return name
	}
	return fmt.Sprintf(form, name)
}

// quoteIdent quotes a name as the catalogue has it.
func quoteIdent(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }

// bind adds a parameter and returns its place-holder.
func (s *statement) bind(value any) string {
	s.args = append(s.args, value)
	return "@p" + strconv.Itoa(len(s.args))
}
