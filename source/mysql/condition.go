package mysql

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// manyValues is from where a list is one parameter: a statement can't have more than 65,535.
const manyValues = 1000

// condition writes one predicate of a statement. Comparing with null yields null in SQL, so null rows match nothing
// but isNull.
type condition struct {
	*statement

	typ    *typ
	column string // quoted
}

func (c condition) sql(p source.Predicate) string {
	switch p.Op {
	case source.OpIsNull:
		// IS NULL also finds zero dates, in columns that are NOT NULL.
		if p.Values[0].Bool {
			return c.column + " <=> NULL"
		}
		return "NOT (" + c.column + " <=> NULL)"
	case source.OpLike:
		return c.column + " LIKE " + c.bind(textParam(p.Values[0].Text)) + ` ESCAPE '\\'`
	case source.OpEq, source.OpIn:
		return c.anyOf(p.Values)
	case source.OpNe, source.OpNin:
		return c.noneOf(p.Values)
	case source.OpBetween:
		return c.compare(source.OpGte, p.Values[0]) + " AND " + c.compare(source.OpLte, p.Values[1])
	}
	return c.compare(p.Op, p.Values[0])
}

// operand returns the column as it is compared. A year is a number; compared as it is, 99 would mean 1999.
func (c condition) operand() string {
	if c.typ.name == typeYear {
		return "(" + c.column + " + 0)"
	}
	return c.column
}

// value binds one operand in the type of the column, so that nothing is compared as a float that is none.
func (c condition) value(o source.Operand) string {
	switch c.typ.family {
	case source.FamilyInt:
		return c.bind(integerParam(o.Text))
	case source.FamilyBool:
		n := byte(0)
		if o.Bool {
			n = 1
		}
		return c.bind(param{typ: wireTiny, value: []byte{n}})
	case source.FamilyDecimal:
		return c.bind(sized(wireNewDec, []byte(o.Text)))
	case source.FamilyFloat:
		return c.bind(floatParam(o.Text, c.typ.bits))
	case source.FamilyBinary:
		if c.typ.name == typeBit {
			return c.bind(param{typ: wireLongLong | unsignedFlag, value: bitField(o.Bytes)})
		}
		return c.bind(sized(wireBlob, o.Bytes))
	case source.FamilyDate:
		return "CAST(" + c.bind(textParam(o.Text)) + " AS DATE)"
	case source.FamilyTime:
		return "CAST(" + c.bind(textParam(o.Text)) + " AS TIME(6))"
	case source.FamilyTimestamp, source.FamilyTimestampTZ:
		return c.moment(o.Text)
	}
	return c.bind(textParam(o.Text))
}

// moment binds a timestamp, which is in the session's zone, UTC.
func (c condition) moment(text string) string {
	text = strings.TrimSuffix(strings.Replace(text, "T", " ", 1), "Z")
	return "CAST(" + c.bind(textParam(text)) + " AS DATETIME(6))"
}

func integerParam(text string) param {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return param{typ: wireLongLong, value: binary.LittleEndian.AppendUint64(nil, uint64(n))} // #nosec G115 -- its bits
	}
	n, _ := strconv.ParseUint(text, 10, 64) // the type holds it
	return param{typ: wireLongLong | unsignedFlag, value: binary.LittleEndian.AppendUint64(nil, n)}
}

// floatParam rounds a number as the column does.
func floatParam(text string, bits int) param {
	f, _ := strconv.ParseFloat(text, bits)
	if bits == 32 {
		return param{typ: wireFloat, value: binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))}
	}
	return param{typ: wireDouble, value: binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))}
}

// bitField turns the bytes of a bit field, the highest first, into a number.
func bitField(b []byte) []byte {
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return binary.LittleEndian.AppendUint64(nil, n)
}

// compare writes one of the four comparisons. A day on a timestamp stands for all of its moments.
func (c condition) compare(op source.Op, o source.Operand) string {
	symbols := map[source.Op]string{source.OpGt: " > ", source.OpGte: " >= ", source.OpLt: " < ", source.OpLte: " <= "}
	if !o.DayOnly || (op != source.OpGt && op != source.OpLte) {
		return c.operand() + symbols[op] + c.value(o)
	}
	next := o.NextDay()
	if len(next) > len("9999-12-31") { // there is none
		return c.operand() + symbols[op] + c.moment(lastMoment)
	}
	if op == source.OpGt {
		return c.operand() + " >= " + c.moment(next)
	}
	return c.operand() + " < " + c.moment(next)
}

// anyOf writes that the column equals one of the values.
func (c condition) anyOf(values []source.Operand) string {
	days, moments := splitDays(values)
	var alternatives []string
	if len(moments) > 0 {
		alternatives = append(alternatives, c.equal(" = ", " IN ", moments))
	}
	switch len(days) {
	case 0:
	case 1:
		within := c.compare(source.OpGte, days[0]) + " AND " + c.compare(source.OpLte, days[0])
		alternatives = append(alternatives, "("+within+")")
	default:
		alternatives = append(alternatives, c.onDays().equal(" = ", " IN ", days))
	}
	return strings.Join(alternatives, " OR ")
}

// noneOf writes that the column equals none of the values.
func (c condition) noneOf(values []source.Operand) string {
	days, moments := splitDays(values)
	var all []string
	if len(moments) > 0 {
		all = append(all, c.equal(" <> ", " NOT IN ", moments))
	}
	switch len(days) {
	case 0:
	case 1:
		outside := c.compare(source.OpLt, days[0]) + " OR " + c.compare(source.OpGt, days[0])
		all = append(all, "("+outside+")")
	default:
		all = append(all, c.onDays().equal(" <> ", " NOT IN ", days))
	}
	return strings.Join(all, " AND ")
}

// onDays compares the day of a timestamp.
func (c condition) onDays() condition {
	c.column = "CAST(" + c.column + " AS DATE)"
	c.typ = &typ{family: source.FamilyDate}
	return c
}

// equal compares with one value or with a list of them.
func (c condition) equal(op, list string, values []source.Operand) string {
	if len(values) == 1 {
		return c.operand() + op + c.value(values[0])
	}
	if len(values) > manyValues {
		if rows, ok := c.unnest(values); ok {
			return c.operand() + list + rows
		}
	}
	places := make([]string, len(values))
	for i, v := range values {
		places[i] = c.value(v)
	}
	return c.operand() + list + "(" + strings.Join(places, ", ") + ")"
}

// splitDays tells days on a timestamp column from moments.
func splitDays(values []source.Operand) (days, moments []source.Operand) {
	for _, v := range values {
		if v.DayOnly {
			days = append(days, v)
		} else {
			moments = append(moments, v)
		}
	}
	return days, moments
}
