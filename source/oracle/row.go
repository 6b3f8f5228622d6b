package oracle

import (
	sqldriver "database/sql/driver"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	oracle "github.com/sijms/go-ora/v2"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

const (
	pieceSize = 48 << 10 // of large values; base64 encodes three bytes together
	spillSize = 64 << 10
	null      = "null"
)

var errMalformed = errors.New("value is not in the form of its type")

// row is the row being visited. A value that can't be rendered leaves null behind and an error for the stream.
type row struct {
	columns []column
	values  []sqldriver.Value
	spill   func(dst []byte) error // takes over large output; may be nil
	scratch []byte
	err     error
}

func (r *row) begin(values []sqldriver.Value) { r.values = values }

// end returns what went wrong with a value.
func (r *row) end() error {
	switch {
	case errors.Is(r.err, errMalformed):
		return &source.Error{Category: source.CategoryValue, Err: r.err}
	case errors.Is(r.err, errChanged):
		return &source.Error{Category: source.CategoryObject, Transient: true, Err: r.err}
	}
	return r.err
}

// AppendJSON appends the JSON form of column i.
func (r *row) AppendJSON(dst []byte, i int) []byte {
	c := &r.columns[i]
	if c.at >= len(r.values) || c.typ.lob && c.at+1 >= len(r.values) {
		return r.fail(dst, errChanged)
	}
	v := r.values[c.at]
	r.values[c.at] = nil // it is rendered once, and may be large
	if c.typ.lob && isNothing(v) {
		if integer(r.values[c.at+1]) == 1 { // empty, which is not null
			return append(dst, `""`...)
		}
		return append(dst, null...)
	}
	if v == nil {
		return append(dst, null...)
	}
	return r.appendValue(dst, c.typ, v)
}

// isNothing reports whether v may be null as well as a value of no length.
func isNothing(v sqldriver.Value) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []byte:
		return len(v) == 0
	}
	return false
}

func (r *row) fail(dst []byte, err error) []byte {
	if r.err == nil {
		r.err = err
	}
	return append(dst, null...)
}

func (r *row) appendValue(dst []byte, t *typ, v sqldriver.Value) []byte {
	switch v := v.(type) {
	case string:
		return r.appendString(dst, t, v)
	case float64:
		switch t.kind {
		case kindFloat:
			return form.AppendFloat(dst, v, 32)
		case kindDouble:
			return form.AppendFloat(dst, v, 64)
		}
	case bool:
		if t.kind == kindBool {
			return strconv.AppendBool(dst, v)
		}
	case []byte:
		if t.kind == kindBytes {
			return r.appendBytes(dst, v)
		}
	case oracle.BFile:
		switch {
		case t.kind != kindFile:
		case !v.Valid:
			return append(dst, null...)
		default:
			return r.appendText(dst, v.GetDirName()+"/"+v.GetFileName())
		}
	}
	return r.fail(dst, errChanged)
}

func (r *row) appendString(dst []byte, t *typ, v string) []byte {
	switch t.kind {
	case kindText:
		return r.appendText(dst, v)
	case kindInteger:
		if !digitsOnly(v) {
			return r.fail(dst, errChanged)
		}
		return append(dst, v...)
	case kindDecimal:
		return r.appendDecimal(dst, v, t.scale)
	case kindMoment:
		return r.appendMoment(dst, v)
	case kindMonths, kindSeconds:
		out, ok := appendInterval(append(dst, '"'), v, t.kind)
		if !ok {
			return r.fail(dst, errMalformed)
		}
		return append(out, '"')
	case kindJSON:
		return r.appendJSON(dst, v)
	}
	return r.fail(dst, errChanged)
}

func digitsOnly(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// appendDecimal appends digits with the zeros of the scale, which the server does not keep.
func (r *row) appendDecimal(dst []byte, v string, scale int) []byte {
	if v == "Infinity" || v == "-Infinity" { // which a NUMBER can't become by SQL, but by the interface for programs
		return append(append(append(dst, '"'), v...), '"')
	}
	r.scratch = append(r.scratch[:0], v...)
	if !form.IsNumber(r.scratch) {
		return r.fail(dst, errMalformed)
	}
	dst = append(append(dst, '"'), v...)
	point := strings.IndexByte(v, '.')
	missing := scale
	if point >= 0 {
		missing -= len(v) - point - 1
	} else if scale > 0 {
		dst = append(dst, '.')
	}
	for range missing {
		dst = append(dst, '0')
	}
	return append(dst, '"')
}

// appendMoment appends what the server wrote in one of our formats: the year with a sign or a blank before it, all digits
// of the fraction, the offset.
func (r *row) appendMoment(dst []byte, v string) []byte {
	v, before := strings.CutPrefix(strings.TrimSpace(v), "-")
	const plainLength = len("2006-01-02T15:04:05")
	if len(v) < plainLength || v[4] != '-' || v[10] != 'T' {
		return r.fail(dst, errMalformed)
	}
	v, rest := v[:plainLength], v[plainLength:]
	r.scratch = append(r.scratch[:0], v...)
	offset := ""
	if i := strings.IndexAny(rest, "+-"); i >= 0 {
		rest, offset = rest[:i], rest[i:]
	}
	r.scratch = append(r.scratch, strings.TrimRight(strings.TrimRight(rest, "0"), ".")...)
	switch offset {
	case "+00:00", "-00:00":
		offset = "Z"
	}
	r.scratch = append(r.scratch, offset...)
	if before {
		r.scratch = append(r.scratch, " BC"...)
	}
	if !form.IsPlain(r.scratch) {
		return r.fail(dst, errMalformed)
	}
	return append(append(append(dst, '"'), r.scratch...), '"')
}

func (r *row) appendBytes(dst, v []byte) []byte {
	dst = append(dst, '"')
	for len(v) > pieceSize {
		dst = r.flush(base64.StdEncoding.AppendEncode(dst, v[:pieceSize]))
		v = v[pieceSize:]
	}
	return append(base64.StdEncoding.AppendEncode(dst, v), '"')
}

// appendText appends a text piece by piece, none of which ends within a character.
func (r *row) appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		n := min(len(s), pieceSize)
		for n < len(s) && n > pieceSize-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		r.scratch = append(r.scratch[:0], s[:n]...)
		dst = r.flush(form.AppendEscaped(dst, r.scratch))
		s = s[n:]
	}
	return append(dst, '"')
}

// appendJSON appends what the server says is JSON, if it is: it stands between ours.
func (r *row) appendJSON(dst []byte, s string) []byte {
	value := jsontext.Value(s)
	if !value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return r.fail(dst, errMalformed)
	}
	return form.AppendJSON(dst, value)
}

// flush hands dst over once it is large, if somebody takes it.
func (r *row) flush(dst []byte) []byte {
	if r.spill == nil || len(dst) < spillSize {
		return dst
	}
	if err := r.spill(dst); err != nil && r.err == nil {
		r.err = &visitError{err: err}
	}
	return dst[:0]
}

// integer and text read what the catalogue holds; null is zero. The driver hands numbers over as their digits.
func integer(v sqldriver.Value) int {
	switch v := v.(type) {
	case string:
		n, _ := strconv.Atoi(v)
		return n
	case int64:
		return int(v)
	}
	return 0
}

func text(v sqldriver.Value) string {
	s, _ := v.(string)
	return s
}
