package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"

	"github.com/fetcherhq/fetcher/source/form"
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
		return form.AppendString(dst, v)
	case kindInteger:
		return r.appendInteger(dst, v)
	case kindBytesBinary:
		return form.AppendBase64(dst, v)
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
		return form.AppendUUID(dst, v)
	case kindFloat4Binary:
		return form.AppendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 32)
	case kindFloat8Binary:
		return form.AppendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(v)), 64)
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
		return form.AppendString(dst, v)
	case kindInteger:
		return r.appendInteger(dst, v)
	case kindPlain:
		return r.appendPlain(dst, v)
	case kindBool:
		return strconv.AppendBool(dst, len(v) > 0 && v[0] == 't')
	case kindFloat:
		return r.appendFloatText(dst, v, t.bits)
	case kindJSON:
		return form.AppendJSON(dst, v)
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
	if !form.IsNumber(v) {
		return r.malformed(dst)
	}
	return append(dst, v...)
}

// appendPlain appends a text that needs no escapes.
func (r *row) appendPlain(dst, v []byte) []byte {
	if !form.IsPlain(v) {
		return r.malformed(dst)
	}
	dst = append(dst, '"')
	dst = append(dst, v...)
	return append(dst, '"')
}

// appendFloatText appends the server's text of a float. The server does not always find the shortest digits; a text
// of so few that no other number has them is the shortest already.
func (r *row) appendFloatText(dst, v []byte, size int) []byte {
	sure := 15
	if size == 32 {
		sure = 6
	}
	if len(v) <= sure && form.IsNumber(v) {
		return append(dst, v...)
	}
	f, err := strconv.ParseFloat(string(v), size)
	if err != nil {
		return r.malformed(dst)
	}
	return form.AppendFloat(dst, f, size)
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
	dst = form.AppendBase64(dst, r.scratch[mark:])
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
