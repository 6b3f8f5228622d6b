package oracle

import (
	"fmt"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// kind is how a value that the driver hands over goes into JSON.
type kind uint8

const (
	kindText    kind = iota // a string
	kindInteger             // the digits of a number, as a string, that go out as a number
	kindDecimal             // the same, that go out as a string with the digits of the scale
	kindFloat               // a float64 that came from 32 bits;
	kindDouble              // from 64
	kindBool                // a bool
	kindBytes               // bytes
	kindMoment              // a string of momentFormat, with or without fraction and offset
	kindMonths              // a string of an interval of years and months
	kindSeconds             // a string of an interval of days and seconds
	kindJSON                // a string that is JSON
	kindFile                // the locator of a file
)

// place is where filters find the value of a column.
type place uint8

const (
	byValue place = iota // compared by operators
	padded               // the same, blanks at the end apart
	byLob                // compared by a function
)

// typ is a type with everything that rendering and comparing its values need. It is the Native of columns and does not
// change once the catalogue is made.
type typ struct {
	decl      string // with length, precision or scale
	kind      kind
	family    source.Family
	bits      int
	precision int
	scale     int // digits behind the point; unknownScale
	fraction  int // digits of a second's fraction
	wide      bool
	place     place
	national  bool   // of texts: in the national character set
	bind      string // the expression of a parameter of the type, with %s for the place-holder; empty: just that
	read      string // the expression that reads it, with %s for the quoted name; empty: just the name
	length    int    // in bytes, as it is read; 0: unlimited
	lob       bool   // the next value tells whether it is null
}

const unknownScale = -1

// asText reads anything that has a text as that text.
const asText = "TO_CHAR(%s)"

// unlimited reports whether the type says nothing useful about how large a value may be.
func (t *typ) unlimited() bool { return t.length == 0 }

// columnType is what the catalogue tells of a column's type.
type columnType struct {
	name         string // with digits of fractions, as the server writes it
	owner        string // of types that are not built in
	length       int    // in bytes
	chars        int    // of texts, in characters
	precision    int    // 0: none
	scale        int
	hasScale     bool
	hasPrecision bool
}

// Sizes of what is read as text, generously.
const (
	numberLength = 44
	momentLength = 48
	rowidLength  = 256
)

// The formats that moments are read and bound in. The year has a sign, for there are years before Christ.
const (
	dateFormat   = `'SYYYY-MM-DD"T"HH24:MI:SS'`
	momentFormat = `'SYYYY-MM-DD"T"HH24:MI:SS.FF9'`
	zonedFormat  = `'SYYYY-MM-DD"T"HH24:MI:SS.FF9TZH:TZM'`
)

// typeOf makes the type of a column.
func typeOf(c columnType) *typ {
	for _, of := range []func(columnType) (typ, bool){numberType, temporalType, textType, bytesType} {
		if c.owner != "" {
			break
		}
		if t, ok := of(c); ok {
			if t.decl == "" {
				t.decl = c.name
			}
			return &t
		}
	}
	t := specialType(c)
	t.decl = c.name
	return &t
}

// longestInteger is the most digits that are a number in JSON.
const longestInteger = 18

func numberType(c columnType) (typ, bool) {
	switch c.name {
	case "BINARY_FLOAT": // the driver rounds what it makes of four bytes; it does not what it makes of eight
		return typ{
			kind: kindFloat, family: source.FamilyFloat, bits: 32, wide: true, length: numberLength,
			bind: "TO_BINARY_FLOAT(%s)", read: "TO_BINARY_DOUBLE(%s)",
		}, true
	case "BINARY_DOUBLE":
		return typ{kind: kindDouble, family: source.FamilyFloat, bits: 64, wide: true, length: numberLength, bind: "TO_BINARY_DOUBLE(%s)"}, true
	case "FLOAT": // a NUMBER with its precision in binary digits, which is no scale
		return typ{
			kind: kindDecimal, family: source.FamilyDecimal, decl: fmt.Sprintf("FLOAT(%d)", c.precision),
			scale: unknownScale, length: numberLength, bind: toNumber,
		}, true
	case "NUMBER":
		return exactType(c), true
	}
	return typ{}, false
}

const toNumber = "TO_NUMBER(%s)"

// mostDigits is the precision of a number of which only the scale is declared, and the most that is promised.
const mostDigits = 38

func exactType(c columnType) typ {
	t := typ{kind: kindDecimal, family: source.FamilyDecimal, decl: "NUMBER", scale: unknownScale, length: numberLength, bind: toNumber}
	if !c.hasScale {
		return t
	}
	t.precision, t.scale = mostDigits, c.scale
	t.decl = fmt.Sprintf("NUMBER(*,%d)", c.scale)
	if c.hasPrecision {
		t.precision = c.precision
		t.decl = fmt.Sprintf("NUMBER(%d,%d)", c.precision, c.scale)
	}
	switch {
	case t.scale == 0 && t.precision <= longestInteger:
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 64
		t.precision = 0
	case t.scale < 0: // as many zeros before the point
		t.precision, t.scale = t.precision-t.scale, 0
	default:
		t.precision = max(t.precision, t.scale)
	}
	return t
}

func temporalType(c columnType) (typ, bool) {
	t := typ{kind: kindMoment, family: source.FamilyTimestamp, wide: true, length: momentLength}
	bare := baseName(c.name)
	switch bare {
	case "DATE":
		t.read, t.bind = "TO_CHAR(%s, "+dateFormat+")", "TO_DATE(%s, "+dateFormat+")"
	case "TIMESTAMP":
		t.read, t.bind, t.fraction = "TO_CHAR(%s, "+momentFormat+")", "TO_TIMESTAMP(%s, "+momentFormat+")", c.scale
	case "TIMESTAMP WITH TIME ZONE":
		t.read, t.bind, t.fraction = "TO_CHAR(%s, "+zonedFormat+")", "TO_TIMESTAMP_TZ(%s, "+zonedFormat+")", c.scale
		t.family = source.FamilyTimestampTZ
	case "TIMESTAMP WITH LOCAL TIME ZONE": // the session's zone is UTC
		t.read, t.fraction = "TO_CHAR(%s, "+zonedFormat+")", c.scale
		t.bind = "CAST(TO_TIMESTAMP_TZ(%s, " + zonedFormat + ") AS TIMESTAMP(9) WITH LOCAL TIME ZONE)"
		t.family = source.FamilyTimestampTZ
	case "INTERVAL YEAR TO MONTH":
		return typ{kind: kindMonths, family: source.FamilyInterval, length: momentLength, read: asText, bind: "TO_YMINTERVAL(%s)"}, true
	case "INTERVAL DAY TO SECOND":
		return typ{kind: kindSeconds, family: source.FamilyInterval, length: momentLength, read: asText, bind: "TO_DSINTERVAL(%s)"}, true
	default:
		return typ{}, false
	}
	return t, true
}

// baseName leaves the numbers in parentheses out of the name of a type.
func baseName(name string) string {
	var out strings.Builder
	depth := 0
	for _, r := range name {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// The most that a CHAR and an NCHAR hold. A parameter becomes one of those, for blanks to be compared as they are there.
const (
	asChar  = "CAST(%s AS CHAR(2000))"
	asNChar = "CAST(%s AS NCHAR(1000))"
)

func textType(c columnType) (typ, bool) {
	t := typ{kind: kindText, family: source.FamilyText, decl: fmt.Sprintf("%s(%d)", c.name, c.chars), length: max(c.length, 1)}
	switch c.name {
	case "VARCHAR2", "VARCHAR":
	case "CHAR":
		t.place, t.bind = padded, asChar
	case "NVARCHAR2":
		t.national = true
	case "NCHAR":
		t.national, t.place, t.bind = true, padded, asNChar
	case "CLOB":
		return typ{kind: kindText, family: source.FamilyText, place: byLob, bind: "TO_CLOB(%s)", lob: true}, true
	case "NCLOB":
		return typ{kind: kindText, family: source.FamilyText, place: byLob, bind: "TO_NCLOB(%s)", lob: true, national: true}, true
	case "LONG": // which SQL compares with nothing
		return typ{kind: kindText}, true
	case "ROWID", "UROWID":
		return typ{kind: kindText, length: rowidLength}, true
	default:
		return typ{}, false
	}
	return t, true
}

func bytesType(c columnType) (typ, bool) {
	switch c.name {
	case "RAW":
		return typ{kind: kindBytes, family: source.FamilyBinary, decl: fmt.Sprintf("RAW(%d)", c.length), length: max(c.length, 1)}, true
	case "BLOB":
		return typ{kind: kindBytes, family: source.FamilyBinary, place: byLob, bind: "TO_BLOB(%s)", lob: true}, true
	case "LONG RAW":
		return typ{kind: kindBytes}, true
	case "BOOLEAN":
		return typ{kind: kindBool, family: source.FamilyBool, length: 1, bind: "TO_BOOLEAN(%s)"}, true
	case "JSON": // comes as text with the digits it has, whatever form it is kept in
		return typ{kind: kindJSON, family: source.FamilyJSON, read: "JSON_SERIALIZE(%s RETURNING CLOB)"}, true
	}
	return typ{}, false
}

// specialType is everything that filters can only tell from null, as the server's own text: XML of XML and of objects and
// collections, the numbers of vectors, the names of directory and file.
func specialType(c columnType) typ {
	switch {
	case c.name == "XMLTYPE":
		return typ{kind: kindText, read: "XMLSERIALIZE(CONTENT %s AS CLOB)"}
	case c.owner != "":
		return typ{kind: kindText, read: "CASE WHEN %s IS NULL THEN NULL ELSE XMLSERIALIZE(CONTENT XMLTYPE(%s) AS CLOB) END"}
	case strings.HasPrefix(c.name, "VECTOR"):
		return typ{kind: kindText, read: "FROM_VECTOR(%s RETURNING CLOB)"}
	case strings.HasPrefix(c.name, "REF"):
		return typ{kind: kindText, read: "REFTOHEX(%s)", length: rowidLength}
	case c.name == "BFILE": // what is in the file is not in the database, and no part of its snapshot
		return typ{kind: kindFile}
	}
	return typ{kind: kindText, read: asText}
}

// column makes a column of the type.
func (t *typ) column(name string, position int, nullable, key bool) source.Column {
	c := source.Column{
		Name: name, Type: t.decl, Family: t.family, Nullable: nullable, PrimaryKey: key, Position: position,
		Bits: t.bits, Fraction: t.fraction, Wide: t.wide, Native: t,
	}
	if t.family == source.FamilyDecimal && t.scale != unknownScale && t.precision <= mostDigits {
		c.Precision, c.Scale = t.precision, t.scale
	}
	return c
}
