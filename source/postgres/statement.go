package postgres

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// statement is a SELECT with its parameters. Identifiers come from the catalogue, values are bound.
type statement struct {
	sql     strings.Builder
	values  [][]byte
	oids    []uint32
	formats []int16 // of the result
	columns []column
}

// column is how one column of the result is rendered.
type column struct {
	kind kind
	typ  *typ
}

var errForeignColumn = errors.New("column is not of this catalogue")

// newStatement writes the query out.
func newStatement(q source.Query) (*statement, error) {
	s := &statement{}
	s.sql.WriteString("SELECT ")
	for i, c := range q.Columns {
		t, ok := c.Native.(*typ)
		if !ok {
			return nil, errForeignColumn
		}
		if i > 0 {
			s.sql.WriteString(", ")
		}
		s.sql.WriteString(quoteIdent(c.Name))
		form, format := t.wire()
		s.columns = append(s.columns, column{kind: form, typ: t})
		s.formats = append(s.formats, format)
	}
	s.sql.WriteString(" FROM " + quoteIdent(q.Table.Schema) + "." + quoteIdent(q.Table.Base))
	for i, p := range q.Where {
		t, ok := p.Column.Native.(*typ)
		if !ok {
			return nil, errForeignColumn
		}
		if i == 0 {
			s.sql.WriteString(" WHERE ")
		} else {
			s.sql.WriteString(" AND ")
		}
		where := condition{statement: s, typ: t, column: quoteIdent(p.Column.Name)}
		s.sql.WriteString("(" + where.sql(p) + ")")
	}
	return s, nil
}

// quoteIdent quotes a name as the catalogue has it.
func quoteIdent(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// bind adds a parameter in its text form and returns its place-holder.
func (s *statement) bind(oid uint32, value []byte) string {
	s.values = append(s.values, value)
	s.oids = append(s.oids, oid)
	return "$" + strconv.Itoa(len(s.values))
}

// textArray writes an array of texts for the server to read.
func textArray(elements []string) []byte {
	out := []byte{'{'}
	for i, e := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		for j := range len(e) {
			if e[j] == '"' || e[j] == '\\' {
				out = append(out, '\\')
			}
			out = append(out, e[j])
		}
		out = append(out, '"')
	}
	return append(out, '}')
}

// operandText is the text form of an operand as the server reads it.
func operandText(family source.Family, o source.Operand) string {
	switch family {
	case source.FamilyBool:
		return strconv.FormatBool(o.Bool)
	case source.FamilyBinary:
		return `\x` + hex.EncodeToString(o.Bytes)
	}
	return o.Text
}
