package sqlserver

import (
	sqldriver "database/sql/driver"
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

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
	if c.at >= len(r.values) {
		return r.fail(dst, errChanged)
	}
	v := r.values[c.at]
	r.values[c.at] = nil // it is rendered once, and may be large
	if v == nil {
		return append(dst, null...)
	}
	k := c.typ.kind
	if k == kindVariant {
		var ok bool
		if k, ok = r.variant(c.at + 1); !ok {
			return r.fail(dst, errChanged)
		}
	}
	return r.appendValue(dst, k, v)
}

// variant returns the kind of a value by the name of its type.
func (r *row) variant(at int) (kind, bool) {
	if at >= len(r.values) {
		return 0, false
	}
	name, ok := r.values[at].(string)
	return typeOf(columnType{name: name}).kind, ok
}

func (r *row) fail(dst []byte, err error) []byte {
	if r.err == nil {
		r.err = err
	}
	return append(dst, null...)
}

func (r *row) appendValue(dst []byte, k kind, v sqldriver.Value) []byte {
	switch v := v.(type) {
	case int64:
		if k == kindInteger {
			return strconv.AppendInt(dst, v, 10)
		}
	case bool:
		if k == kindBool {
			return strconv.AppendBool(dst, v)
		}
	case float64:
		switch k {
		case kindReal:
			return form.AppendFloat(dst, v, 32)
		case kindFloat:
			return form.AppendFloat(dst, v, 64)
		}
	case string:
		switch k {
		case kindText:
			return r.appendText(dst, v)
		case kindJSON:
			return r.appendJSON(dst, v)
		}
	case []byte:
		return r.appendBytes(dst, k, v)
	case time.Time:
		return r.appendTime(dst, k, v)
	}
	return r.fail(dst, errChanged)
}

func (r *row) appendBytes(dst []byte, k kind, v []byte) []byte {
	switch k {
	case kindDigits:
		if !form.IsNumber(v) {
			return r.fail(dst, errMalformed)
		}
		return append(append(append(dst, '"'), v...), '"')
	case kindUUID:
		if len(v) != 16 {
			return r.fail(dst, errMalformed)
		}
		return form.AppendUUID(dst, []byte{v[3], v[2], v[1], v[0], v[5], v[4], v[7], v[6], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]})
	case kindBytes:
		dst = append(dst, '"')
		for len(v) > pieceSize {
			dst = r.flush(base64.StdEncoding.AppendEncode(dst, v[:pieceSize]))
			v = v[pieceSize:]
		}
		return append(base64.StdEncoding.AppendEncode(dst, v), '"')
	}
	return r.fail(dst, errChanged)
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

func (r *row) appendTime(dst []byte, k kind, t time.Time) []byte {
	dst = append(dst, '"')
	switch k {
	case kindDate:
		dst = appendDay(dst, t)
	case kindTime:
		dst = appendClock(dst, t)
	case kindTimestamp:
		dst = appendClock(append(appendDay(dst, t), 'T'), t)
	case kindOffset:
		dst = appendOffset(appendClock(append(appendDay(dst, t), 'T'), t), t)
	default:
		return r.fail(dst[:len(dst)-1], errChanged)
	}
	return append(dst, '"')
}

func appendDay(dst []byte, t time.Time) []byte {
	year, month, day := t.Date()
	for limit := 1000; limit > 1 && year < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, int64(year), 10)
	return appendPair(append(appendPair(append(dst, '-'), int(month)), '-'), day)
}

func appendPair(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) } // #nosec G115 -- two digits

// appendClock appends the time of day with as many digits of its fraction as it needs.
func appendClock(dst []byte, t time.Time) []byte {
	hour, minute, second := t.Clock()
	dst = appendPair(append(appendPair(append(appendPair(dst, hour), ':'), minute), ':'), second)
	rest := t.Nanosecond()
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int(math.Pow10(8)); rest > 0; unit /= 10 {
		dst = append(dst, byte('0'+rest/unit)) // #nosec G115 -- one digit
		rest %= unit
	}
	return dst
}

func appendOffset(dst []byte, t time.Time) []byte {
	_, offset := t.Zone()
	if offset == 0 {
		return append(dst, 'Z')
	}
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	const hour, minute = 3600, 60
	return appendPair(append(appendPair(append(dst, sign), offset/hour), ':'), offset%hour/minute)
}

// jsonArray writes texts as the server's JSON parser reads them.
func jsonArray(texts []string) string {
	out := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = form.AppendString(out, []byte(s))
	}
	return string(append(out, ']'))
}
