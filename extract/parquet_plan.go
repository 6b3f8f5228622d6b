package extract

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/fetcherhq/fetcher/source"
)

// mostDigits is the highest precision of a decimal in Parquet.
const mostDigits = 38

// Why a column's type can't hold a value. Sources without a schema have a type by what is there mostly.
const (
	notOfType   = "the value is not of the field's type"
	outOfRange  = "the value is out of the range of the field's type"
	notADate    = "the value is not a day of the calendar"
	tooPrecise  = "the value has a fraction finer than microseconds"
	notFinite   = "the value is not a finite number"
	notADecimal = "the value has more digits than the field's type"
)

// plan chooses the column's type by the family of the source's.
func (c *parquetColumn) plan(s *source.Column) {
	switch s.Family {
	case source.FamilyBool:
		c.typ, c.fixed = parquet.BooleanType, appendBool
	case source.FamilyInt:
		c.planInt(s)
	case source.FamilyDecimal:
		c.planDecimal(s)
	case source.FamilyFloat:
		c.typ, c.fixed = parquet.DoubleType, appendDouble
		if s.Bits == 32 {
			c.typ, c.fixed = parquet.FloatType, appendSingle
		}
	case source.FamilyUUID:
		c.typ, c.fixed = parquet.UUID().Type(), appendUUID
	case source.FamilyDate:
		c.typ, c.fixed = parquet.Date().Type(), appendDays
	case source.FamilyTime:
		c.typ, c.fixed = parquet.TimeAdjusted(parquet.Microsecond, false).Type(), appendTime
	case source.FamilyTimestamp:
		c.typ, c.fixed = parquet.TimestampAdjusted(parquet.Microsecond, false).Type(), appendTimestamp(false)
	case source.FamilyTimestampTZ:
		c.typ, c.fixed = parquet.TimestampAdjusted(parquet.Microsecond, true).Type(), appendTimestamp(true)
	case source.FamilyBinary:
		c.typ, c.text = parquet.ByteArrayType, binaryText
	case source.FamilyJSON, source.FamilyArray, source.FamilyComposite:
		c.typ, c.text = parquet.JSON().Type(), jsonText
	case source.FamilyOther:
		c.typ, c.text = parquet.String().Type(), anyText
	default: // text, and what has no type in Parquet: enums, addresses, bits, intervals, times with an offset
		c.typ, c.text = parquet.String().Type(), stringText
	}
}

func (c *parquetColumn) planInt(s *source.Column) {
	bits := s.Bits
	if bits == 0 {
		bits = 64
	}
	width := 64
	for _, w := range []int{8, 16, 32} {
		if bits <= w {
			width = w
			break
		}
	}
	c.typ = parquet.Int(width).Type()
	if s.Unsigned {
		c.typ = parquet.Uint(width).Type()
	}
	c.fixed = func(c *parquetColumn, cell []byte) string {
		var bits uint64
		var err error
		if s.Unsigned {
			bits, err = strconv.ParseUint(string(cell), 10, width)
		} else {
			var n int64
			n, err = strconv.ParseInt(string(cell), 10, width)
			bits = uint64(n) // #nosec G115 -- two's complement
		}
		if err != nil {
			return misfit(cell)
		}
		if width <= 32 {
			c.values = binary.LittleEndian.AppendUint32(c.values, uint32(bits)) // #nosec G115 -- parsed so
		} else {
			c.values = binary.LittleEndian.AppendUint64(c.values, bits)
		}
		return ""
	}
}

// misfit says why a cell is not the integer that was expected.
func misfit(cell []byte) string {
	if isDecimal(cell) {
		return outOfRange
	}
	return notOfType
}

func (c *parquetColumn) planDecimal(s *source.Column) {
	precision, scale := s.Precision, s.Scale
	if precision > 0 && scale < 0 { // the type has none: as many digits more
		precision, scale = precision-scale, 0
	}
	precision = max(precision, scale*min(precision, 1)) // 0.00012 has fewer digits than places
	switch {
	case precision < 1 || precision > mostDigits:
		c.typ, c.text = parquet.String().Type(), decimalText
		return
	case precision <= 9:
		c.typ = parquet.Decimal(scale, precision, parquet.Int32Type).Type()
	case precision <= 18:
		c.typ = parquet.Decimal(scale, precision, parquet.Int64Type).Type()
	default:
		c.typ = parquet.Decimal(scale, precision, parquet.FixedLenByteArrayType(decimalBytes)).Type()
	}
	kind := c.typ.Kind()
	c.fixed = func(c *parquetColumn, cell []byte) string {
		n, reason := parseUnscaled(cell, precision, scale)
		if reason != "" {
			return reason
		}
		switch kind {
		case parquet.Int32:
			c.values = binary.LittleEndian.AppendUint32(c.values, uint32(n.lo)) // #nosec G115 -- at most nine digits
		case parquet.Int64:
			c.values = binary.LittleEndian.AppendUint64(c.values, n.lo)
		default:
			c.values = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(c.values, n.hi), n.lo)
		}
		return ""
	}
}

func appendBool(c *parquetColumn, cell []byte) string {
	value := byte(0)
	switch string(cell) {
	case "true":
		value = 1
	case "false":
	default:
		return notOfType
	}
	if c.bits%8 == 0 {
		c.values = append(c.values, 0)
	}
	c.values[len(c.values)-1] |= value << (c.bits % 8)
	c.bits++
	return ""
}

// parseFloat reads a number or, as a string, what JSON has no number for.
func parseFloat(cell []byte, bits int) (float64, string) {
	if isString(cell) {
		switch string(cell[1 : len(cell)-1]) {
		case "NaN":
			return math.NaN(), ""
		case "Infinity":
			return math.Inf(1), ""
		case "-Infinity":
			return math.Inf(-1), ""
		}
		return 0, notOfType
	}
	if c := cell[0]; c != '-' && (c < '0' || c > '9') {
		return 0, notOfType
	}
	f, err := strconv.ParseFloat(string(cell), bits)
	if err != nil {
		return 0, outOfRange
	}
	return f, ""
}

func appendDouble(c *parquetColumn, cell []byte) string {
	f, reason := parseFloat(cell, 64)
	if reason == "" {
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(f))
	}
	return reason
}

func appendSingle(c *parquetColumn, cell []byte) string {
	f, reason := parseFloat(cell, 32)
	if reason == "" {
		c.values = binary.LittleEndian.AppendUint32(c.values, math.Float32bits(float32(f)))
	}
	return reason
}

func appendUUID(c *parquetColumn, cell []byte) string {
	const length = 36
	if !isString(cell) || len(cell) != length+2 {
		return notOfType
	}
	text := cell[1 : len(cell)-1]
	var digits [32]byte
	n := 0
	for i, b := range text {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if b != '-' {
				return notOfType
			}
			continue
		}
		digits[n] = b
		n++
	}
	var id [16]byte
	if _, err := hex.Decode(id[:], digits[:]); err != nil {
		return notOfType
	}
	c.values = append(c.values, id[:]...)
	return ""
}

func stringText(cell []byte) ([]byte, string) {
	if !isString(cell) {
		return nil, notOfType
	}
	return unquote(cell), ""
}

// anyText takes values of types that have no family: most are text to begin with.
func anyText(cell []byte) ([]byte, string) {
	if isString(cell) {
		return unquote(cell), ""
	}
	return cell, ""
}

func jsonText(cell []byte) ([]byte, string) { return cell, "" }

// decimalText takes decimals without a known precision, NaN and the infinities among them.
func decimalText(cell []byte) ([]byte, string) {
	if isString(cell) {
		return unquote(cell), ""
	}
	if c := cell[0]; c != '-' && (c < '0' || c > '9') {
		return nil, notOfType
	}
	return cell, ""
}

func binaryText(cell []byte) ([]byte, string) {
	if !isString(cell) {
		return nil, notOfType
	}
	text := cell[1 : len(cell)-1]
	n, err := base64.StdEncoding.Strict().Decode(text, text) // in place: what is written was read
	if err != nil {
		return nil, notOfType
	}
	return text[:n], ""
}
