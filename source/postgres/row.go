package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
)

// errMalformed says that a value does not have the form its type has.
var errMalformed = errors.New("value is not in the form of its type")

// row is the row being visited. A value that can't be rendered leaves null behind and an error for the stream.
type row struct {
	columns []column
	values  [][]byte // of a row that is held in the buffer
	scratch []byte   // unescaped elements, the inner ones behind the outer
	err     error

	wire   *wire
	spill  func(dst []byte) error // takes over large output; may be nil
	large  bool                   // the columns are read when they are asked for:
	column int                    // the next one,
	left   int                    // and the bytes of the row behind it
}

// AppendJSON appends the JSON form of column i.
func (r *row) AppendJSON(dst []byte, i int) []byte {
	if r.large {
		return r.appendLarge(dst, i)
	}
	v := r.values[i]
	if v == nil {
		return append(dst, "null"...)
	}
	return r.appendValue(dst, &r.columns[i], v)
}

// appendValue appends a whole value that is not null.
func (r *row) appendValue(dst []byte, c *column, v []byte) []byte {
	switch c.kind {
	case kindText:
		return appendString(dst, v)
	case kindInteger:
		return r.appendInteger(dst, v)
	case kindBytesBinary:
		return appendBase64(dst, v)
	case kindUUIDBinary, kindFloat4Binary, kindFloat8Binary, kindDateBinary, kindTimestampBinary, kindTimestampTZBinary:
		return r.appendBinary(dst, c.kind, v)
	}
	return r.appendText(dst, c.typ, v)
}

// appendBinary appends a value that has a fixed size.
func (r *row) appendBinary(dst []byte, k kind, v []byte) []byte {
	size := 8
	switch k {
	case kindUUIDBinary:
		size = 16
	case kindFloat4Binary, kindDateBinary:
		size = 4
	}
	if len(v) != size {
		return r.malformed(dst)
	}
	switch k {
	case kindUUIDBinary:
		return appendUUID(dst, v)
	case kindFloat4Binary:
		return appendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 32)
	case kindFloat8Binary:
		return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(v)), 64)
	case kindDateBinary:
		return appendDate(dst, v)
	case kindTimestampTZBinary:
		return appendTimestamp(dst, v, "Z")
	}
	return appendTimestamp(dst, v, "")
}

// appendText appends a value in its text form, alone or as a part of another.
func (r *row) appendText(dst []byte, t *typ, v []byte) []byte {
	switch t.text {
	case kindText:
		return appendString(dst, v)
	case kindInteger:
		return r.appendInteger(dst, v)
	case kindPlain:
		return r.appendPlain(dst, v)
	case kindBool:
		return strconv.AppendBool(dst, len(v) > 0 && v[0] == 't')
	case kindFloat:
		return r.appendFloatText(dst, v, t.bits)
	case kindJSON:
		return appendJSONText(dst, v)
	case kindMoney:
		return r.appendMoney(dst, t, v)
	case kindTimestamp:
		return r.appendTimestampText(dst, v)
	case kindTimeTZ:
		return r.appendTimeTZ(dst, v)
	case kindBytea:
		return r.appendBytea(dst, v)
	case kindArray:
		return r.appendArray(dst, t, v)
	case kindComposite:
		return r.appendComposite(dst, t, v)
	}
	return r.malformed(dst)
}

func (r *row) malformed(dst []byte) []byte {
	r.err = errMalformed
	return append(dst, "null"...)
}

// appendInteger appends digits as they are, every one exact.
func (r *row) appendInteger(dst, v []byte) []byte {
	if !isNumber(v) {
		return r.malformed(dst)
	}
	return append(dst, v...)
}

// appendPlain appends a text that needs no escapes.
func (r *row) appendPlain(dst, v []byte) []byte {
	if !isPlain(v) {
		return r.malformed(dst)
	}
	dst = append(dst, '"')
	dst = append(dst, v...)
	return append(dst, '"')
}

func appendUUID(dst, v []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i, c := range v {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[c>>4], digits[c&0xf])
	}
	return append(dst, '"')
}

// appendFloat appends the shortest digits that read back as f, in the notation that the server itself would choose.
func appendFloat(dst []byte, f float64, size int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	most, least := 1e15, 1e-4
	if size == 32 {
		most, least = 1e6, float64(float32(least))
	}
	if a := math.Abs(f); a != 0 && (a < least || a >= most) {
		return strconv.AppendFloat(dst, f, 'e', -1, size)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, size)
}

// appendFloatText appends the server's text of a float. The server does not always find the shortest digits; a text
// of so few that no other number has them is the shortest already.
func (r *row) appendFloatText(dst, v []byte, size int) []byte {
	sure := 15
	if size == 32 {
		sure = 6
	}
	if len(v) <= sure && isNumber(v) {
		return append(dst, v...)
	}
	f, err := strconv.ParseFloat(string(v), size)
	if err != nil {
		return r.malformed(dst)
	}
	return appendFloat(dst, f, size)
}

// isPlain reports whether v is ASCII that a JSON string takes as it is.
func isPlain(v []byte) bool {
	n, ascii := cleanRun(v)
	return ascii && n == len(v)
}

// isNumber reports whether v is a number as PostgreSQL writes them, which is as JSON has them.
func isNumber(v []byte) bool {
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	n := digits(v)
	if n == 0 {
		return false
	}
	if v = v[n:]; len(v) > 0 && v[0] == '.' {
		if n = digits(v[1:]); n == 0 {
			return false
		}
		v = v[n+1:]
	}
	if len(v) > 2 && v[0] == 'e' && (v[1] == '+' || v[1] == '-') {
		v = v[2:]
		n = digits(v)
		return n > 0 && n == len(v)
	}
	return len(v) == 0
}

// digits counts the digits that v begins with.
func digits(v []byte) int {
	for i, c := range v {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(v)
}

func appendBase64(dst, v []byte) []byte {
	dst = slices.Grow(dst, base64.StdEncoding.EncodedLen(len(v))+2)
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v)
	return append(dst, '"')
}

// appendBytea appends the bytes of a text like \x0aff.
func (r *row) appendBytea(dst, v []byte) []byte {
	if len(v) < 2 || v[0] != '\\' || v[1] != 'x' {
		return r.malformed(dst)
	}
	mark := len(r.scratch)
	var err error
	r.scratch, err = hex.AppendDecode(r.scratch, v[2:])
	if err != nil {
		r.scratch = r.scratch[:mark]
		return r.malformed(dst)
	}
	dst = appendBase64(dst, r.scratch[mark:])
	r.scratch = r.scratch[:mark]
	return dst
}

// appendMoney appends an amount as a plain decimal. Its text follows the server's locale, in which everything but the
// digits, the sign and the number of digits behind the point is decoration.
func (r *row) appendMoney(dst []byte, t *typ, v []byte) []byte {
	dst = append(dst, '"')
	count := 0
	for _, c := range v {
		switch {
		case c == '-' || c == '(':
			dst = append(dst, '-')
		case c >= '0' && c <= '9':
			count++
		}
	}
	if count <= t.scale {
		return r.malformed(dst[:len(dst)-1])
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			continue
		}
		if count == t.scale {
			dst = append(dst, '.')
		}
		dst = append(dst, c)
		count--
	}
	return append(dst, '"')
}
