package mysql

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/source/form"
)

// errMalformed says that a value does not have the form its type has.
var errMalformed = errors.New("value is not in the form of its type")

// column is how one column of the result is rendered.
type column struct {
	kind     kind
	wire     byte
	unsigned bool
	size     int // of a value; 0: each says so itself
}

// The flag of an unsigned column, and the number of the encoding that is none.
const (
	flagUnsigned  = 1 << 5
	charsetBinary = 63
)

// bind sets how the values come. It returns false if the plan does not go with that.
func (c *column) bind(wireType byte, flags, charset uint16) bool {
	c.wire, c.unsigned, c.size = wireType, flags&flagUnsigned != 0, sizeOf(wireType)
	switch c.kind {
	case kindInteger:
		return c.size > 0 && wireType != wireFloat && wireType != wireDouble
	case kindFloat, kindDouble:
		return wireType == wireFloat || wireType == wireDouble
	case kindDecimal:
		return wireType == wireNewDec || wireType == wireDecimal
	case kindDate:
		return wireType == wireDate
	case kindDateTime, kindTimestamp:
		return wireType == wireDateTime || wireType == wireTimestamp
	case kindTime:
		return wireType == wireTime
	case kindBool:
		return wireType == wireBit
	case kindBytes:
		return wireType == wireBit || (textual(wireType) && charset == charsetBinary)
	}
	return textual(wireType)
}

// sizeOf returns the bytes of each value; 0: each says so itself.
func sizeOf(wireType byte) int {
	switch wireType {
	case wireTiny:
		return 1
	case wireShort, wireYear:
		return 2
	case wireLong, wireInt24, wireFloat:
		return 4
	case wireLongLong, wireDouble:
		return 8
	}
	return 0
}

// textual reports whether values of the type are characters or bytes that say how many they are.
func textual(wireType byte) bool {
	switch wireType {
	case wireNull, wireVarChar, wireVector, wireJSON:
		return true
	}
	return wireType > wireNewDec // labels, and what is larger than a VARCHAR
}

// row is the row being visited. A value that can't be rendered leaves null behind and an error for the stream.
type row struct {
	columns []column
	values  [][]byte // of a row that is held in the buffer
	err     error

	own bool // of a statement of our own: held, however large, for we look at it as texts

	wire   *wire
	spill  func(dst []byte) error // takes over large output; may be nil
	large  bool                   // the columns are read when they are asked for:
	column int                    // the next one,
	nulls  []byte                 // which ones are null
	out    [][]byte               // the row as texts
}

// AppendJSON appends the JSON form of column i.
func (r *row) AppendJSON(dst []byte, i int) []byte {
	if r.large {
		return r.appendLarge(dst, i)
	}
	v := r.values[i]
	if v == nil {
		return append(dst, null...)
	}
	return r.appendValue(dst, &r.columns[i], v)
}

const null = "null"

// appendValue appends a whole value that is not null.
func (r *row) appendValue(dst []byte, c *column, v []byte) []byte {
	switch c.kind {
	case kindText:
		return form.AppendString(dst, v)
	case kindInteger:
		return appendInteger(dst, c, v)
	case kindDecimal:
		return r.appendDecimal(dst, v)
	case kindFloat, kindDouble:
		if c.wire == wireFloat {
			return form.AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), 32)
		}
		return form.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(v)), 64)
	case kindBool:
		return r.appendBool(dst, v)
	case kindBytes:
		return form.AppendBase64(dst, v)
	case kindJSON:
		return form.AppendJSON(dst, v)
	case kindCheckedJSON:
		if !jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return form.AppendString(dst, v) // the check was off, or knows another JSON
		}
		return form.AppendJSON(dst, v)
	}
	return r.appendTemporal(dst, c.kind, v)
}

func (r *row) malformed(dst []byte) []byte {
	if r.err == nil {
		r.err = errMalformed
	}
	return append(dst, null...)
}

func appendInteger(dst []byte, c *column, v []byte) []byte {
	var n uint64
	switch c.size {
	case 1:
		n = uint64(v[0])
		if !c.unsigned {
			return strconv.AppendInt(dst, int64(int8(v[0])), 10) // #nosec G115 -- its bits
		}
	case 2:
		n = uint64(binary.LittleEndian.Uint16(v))
		if !c.unsigned {
			return strconv.AppendInt(dst, int64(int16(n)), 10) // #nosec G115 -- its bits
		}
	case 4:
		n = uint64(binary.LittleEndian.Uint32(v))
		if !c.unsigned {
			return strconv.AppendInt(dst, int64(int32(n)), 10) // #nosec G115 -- its bits
		}
	default:
		n = binary.LittleEndian.Uint64(v)
		if !c.unsigned {
			return strconv.AppendInt(dst, int64(n), 10) // #nosec G115 -- its bits
		}
	}
	return strconv.AppendUint(dst, n, 10)
}

// appendDecimal appends the digits as they are, without the zeros that ZEROFILL puts in front.
func (r *row) appendDecimal(dst, v []byte) []byte {
	if !form.IsNumber(v) {
		return r.malformed(dst)
	}
	for len(v) > 1 && v[0] == '0' && v[1] != '.' {
		v = v[1:]
	}
	return append(append(append(dst, '"'), v...), '"')
}

// appendBool appends a bit.
func (r *row) appendBool(dst, v []byte) []byte {
	if len(v) != 1 {
		return r.malformed(dst)
	}
	return strconv.AppendBool(dst, v[0] != 0)
}

// texts returns the row of a statement of our own as texts. Numbers are written out.
func (r *row) texts() [][]byte {
	r.out = r.out[:0]
	for i, v := range r.values {
		c := &r.columns[i]
		if v != nil && c.size > 0 && c.wire != wireFloat && c.wire != wireDouble {
			v = appendInteger(nil, c, v)
		}
		r.out = append(r.out, v)
	}
	return r.out
}
