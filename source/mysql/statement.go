package mysql

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// Types of values on the wire.
const (
	wireDecimal   = 0
	wireTiny      = 1
	wireShort     = 2
	wireLong      = 3
	wireFloat     = 4
	wireDouble    = 5
	wireNull      = 6
	wireTimestamp = 7
	wireLongLong  = 8
	wireInt24     = 9
	wireDate      = 10
	wireTime      = 11
	wireDateTime  = 12
	wireYear      = 13
	wireVarChar   = 15
	wireBit       = 16
	wireVector    = 242
	wireJSON      = 245
	wireNewDec    = 246
	wireBlob      = 252
	wireVarString = 253
)

// unsignedFlag marks a parameter.
const unsignedFlag = 0x8000

// param is a bound value in its form on the wire.
type param struct {
	typ   uint16
	value []byte
}

// statement is a SELECT with its parameters. Identifiers come from the catalogue, values are bound.
type statement struct {
	sql     strings.Builder
	params  []param
	columns []column
}

var (
	errForeignColumn = errors.New("column is not of this catalogue")
	errManyValues    = errors.New("more values than a statement can have")
)

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
		name := quoteIdent(c.Name)
		if t.geometric() {
			name = "ST_AsText(" + name + ")"
		}
		s.sql.WriteString(name)
		s.columns = append(s.columns, column{kind: t.kind})
	}
	if len(q.Columns) == 0 {
		s.sql.WriteString("NULL")
		s.columns = append(s.columns, column{})
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
	if len(s.params) > math.MaxUint16 {
		return nil, &source.Error{Category: source.CategoryInput, Err: errManyValues}
	}
	return s, nil
}

// quoteIdent quotes a name as the catalogue has it.
func quoteIdent(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// bind adds a parameter and returns its place-holder.
func (s *statement) bind(p param) string {
	s.params = append(s.params, p)
	return "?"
}

// textParam is text, in the connection's encoding.
func textParam(s string) param { return sized(wireVarString, []byte(s)) }

// sized is a value that says how long it is.
func sized(typ uint16, value []byte) param {
	return param{typ: typ, value: append(appendNumber(nil, uint64(len(value))), value...)}
}

// appendNumber appends an integer of variable length.
func appendNumber(dst []byte, n uint64) []byte {
	switch {
	case n < 0xfb:
		return append(dst, byte(n))
	case n <= math.MaxUint16:
		return binary.LittleEndian.AppendUint16(append(dst, 0xfc), uint16(n))
	case n < 1<<24:
		return append(dst, 0xfd, byte(n), byte(n>>8), byte(n>>16)) // #nosec G115 -- byte by byte
	}
	return binary.LittleEndian.AppendUint64(append(dst, 0xfe), n)
}

// executeBody is the command that runs a prepared statement with its parameters.
func executeBody(id uint32, params []param) []byte {
	body := binary.LittleEndian.AppendUint32(nil, id)
	body = append(body, 0, 1, 0, 0, 0) // no cursor; once
	if len(params) == 0 {
		return body
	}
	body = append(body, make([]byte, (len(params)+7)/8)...) // none is null
	body = append(body, 1)
	for _, p := range params {
		body = binary.LittleEndian.AppendUint16(body, p.typ)
	}
	for _, p := range params {
		body = append(body, p.value...)
	}
	return body
}
