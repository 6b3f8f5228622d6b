package extract

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// csvEncoder writes RFC 4180 with CRLF and a header row: NULL is an empty field and the empty text "". A table of one
// field has an empty line for NULL.
type csvEncoder struct {
	safe    bool // texts that spreadsheets take for formulas get a ' in front
	columns []csvColumn
}

type csvColumn struct {
	nested bool // its values are JSON text, strings with their quotes
	text   bool // its values are whatever somebody typed
}

const crlf = "\r\n"

func (e *csvEncoder) table(dst []byte, h head) ([]byte, error) {
	e.columns = e.columns[:0]
	for i, c := range h.columns {
		e.columns = append(e.columns, csvColumn{nested: isNested(c.Family), text: isFreeText(c.Family)})
		if i > 0 {
			dst = append(dst, ',')
		}
		mark := len(dst)
		if dst = append(dst, c.Name...); e.safe {
			dst = disarm(dst, mark)
		}
		dst = quoteField(dst, mark)
	}
	return append(dst, crlf...), nil
}

func (e *csvEncoder) row(dst []byte, r source.Row) ([]byte, error) {
	for i := range e.columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		mark := len(dst)
		dst = e.field(r.AppendJSON(dst, i), mark, e.columns[i])
	}
	return append(dst, crlf...), nil
}

func (e *csvEncoder) end(dst []byte) ([]byte, error) { return dst, nil }

// field turns the cell that dst holds behind mark into a field.
func (e *csvEncoder) field(dst []byte, mark int, c csvColumn) []byte {
	cell := dst[mark:]
	switch {
	case isNull(cell):
		return dst[:mark]
	case !c.nested && isString(cell):
		dst = append(dst[:mark], unquote(cell)...)
		if e.safe && c.text {
			dst = disarm(dst, mark)
		}
		return quoteField(dst, mark)
	case cell[0] == '{', cell[0] == '[', cell[0] == '"':
		return quoteField(dst, mark)
	}
	return dst // numbers and booleans
}

// quoteField puts the text behind mark into quotes if it needs them.
func quoteField(dst []byte, mark int) []byte {
	text := dst[mark:]
	if len(text) > 0 && !needsQuotes(text) {
		return dst
	}
	inner := bytes.Count(text, []byte{'"'})
	n := len(dst)
	dst = slices.Grow(dst, inner+2)[:n+inner+2]
	// From the end: every byte moves to the right.
	to := len(dst) - 1
	dst[to] = '"'
	for from := n - 1; from >= mark; {
		i := bytes.LastIndexByte(dst[mark:from+1], '"') // the run behind a quote moves as a whole
		run := dst[mark+i+1 : from+1]
		to -= len(run)
		copy(dst[to:], run)
		from = mark + i
		if i >= 0 {
			to -= 2
			dst[to], dst[to+1] = '"', '"'
			from--
		}
	}
	dst[mark] = '"'
	return dst
}

func needsQuotes(text []byte) bool {
	for _, c := range text {
		if c == '"' || c == ',' || c == '\r' || c == '\n' {
			return true
		}
	}
	return text[0] == ' ' || text[len(text)-1] == ' ' // which some readers would trim
}

// disarm puts a ' in front of the text behind mark if a spreadsheet would take it for a formula. A number is none.
func disarm(dst []byte, mark int) []byte {
	text := dst[mark:]
	if len(text) == 0 || strings.IndexByte("=+-@\t\r\n", text[0]) < 0 || isDecimal(text) {
		return dst
	}
	return slices.Insert(dst, mark, '\'')
}

// isDecimal reports whether text is a number, of which a sign and a point are the only characters besides digits.
func isDecimal(text []byte) bool {
	if text[0] == '-' || text[0] == '+' {
		text = text[1:]
	}
	whole, fraction, point := bytes.Cut(text, []byte{'.'})
	return allDigits(whole) && (!point || allDigits(fraction))
}

func allDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

// isNested tells whether values of the family are JSON text also outside of JSON.
func isNested(f source.Family) bool {
	return f == source.FamilyJSON || f == source.FamilyArray || f == source.FamilyComposite
}

// isFreeText tells whether values of the family may be any text.
func isFreeText(f source.Family) bool {
	return f == source.FamilyText || f == source.FamilyEnum || f == source.FamilyOther
}
