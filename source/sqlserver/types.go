package sqlserver

import (
	"fmt"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// kind is how a value that the driver hands over goes into JSON.
type kind uint8

const (
	kindText      kind = iota // a string
	kindInteger               // an int64
	kindDigits                // the digits of a decimal, as bytes
	kindReal                  // a float64 that came from 32 bits
	kindFloat                 // a float64
	kindBool                  // a bool
	kindUUID                  // 16 bytes, the first three groups the other way round
	kindBytes                 // bytes
	kindDate                  // a time.Time, of which the day counts;
	kindTime                  // the time of day;
	kindTimestamp             // both;
	kindOffset                // both and its offset
	kindJSON                  // a string that is JSON
	kindVariant               // any of the above, with the name of its type in the next value
)

// typ is a type with everything that rendering and comparing its values need. It is the Native of columns and does not
// change once the catalogue is made.
type typ struct {
	name      string // of the base type
	decl      string // with length, precision or scale
	kind      kind
	family    source.Family
	bits      int
	unsigned  bool
	precision int
	scale     int
	fraction  int    // digits of a second's fraction that filters may have; 0: as many as they like
	digital   bool   // exactly scale digits of a second's fraction
	grid      grid   // on which its values lie
	collation string // of texts
	narrow    bool   // of texts: in a code page, not UTF-16
	read      string // the expression that reads it, with %s for the quoted name; empty: just the name
	compare   string // the expression it is compared as, likewise
}

// maxLength marks the types without a limit.
const maxLength = -1

// columnType is what the catalogue tells of a column's type.
type columnType struct {
	name      string // of the base type
	assembly  bool   // implemented in CLR code
	length    int    // in bytes; maxLength: none
	precision int
	scale     int
	collation string
	codePage  int
}

// typeOf makes the type of a column.
func typeOf(c columnType) *typ {
	t, ok := simpleType(c)
	if !ok {
		t, ok = temporalType(c)
	}
	if !ok {
		t, ok = textType(c)
	}
	if !ok {
		t = specialType(c)
	}
	t.name = c.name
	if t.decl == "" {
		t.decl = c.name
	}
	return &t
}

func simpleType(c columnType) (typ, bool) {
	switch c.name {
	case "bit":
		return typ{kind: kindBool, family: source.FamilyBool}, true
	case "tinyint":
		return typ{kind: kindInteger, family: source.FamilyInt, bits: 8, unsigned: true}, true
	case "smallint":
		return typ{kind: kindInteger, family: source.FamilyInt, bits: 16}, true
	case "int":
		return typ{kind: kindInteger, family: source.FamilyInt, bits: 32}, true
	case "bigint":
		return typ{kind: kindInteger, family: source.FamilyInt, bits: 64}, true
	case "real":
		return typ{kind: kindReal, family: source.FamilyFloat, bits: 32}, true
	case "float":
		return typ{kind: kindFloat, family: source.FamilyFloat, bits: 64}, true
	case "decimal", "numeric":
		return typ{
			kind: kindDigits, family: source.FamilyDecimal, decl: fmt.Sprintf("%s(%d,%d)", c.name, c.precision, c.scale),
			precision: c.precision, scale: c.scale, grid: decimalGrid(c.precision, c.scale),
		}, true
	case "money":
		return typ{kind: kindDigits, family: source.FamilyDecimal, precision: 19, scale: 4, grid: moneyGrid(64)}, true
	case "smallmoney":
		return typ{kind: kindDigits, family: source.FamilyDecimal, precision: 10, scale: 4, grid: moneyGrid(32)}, true
	case "uniqueidentifier":
		return typ{kind: kindUUID, family: source.FamilyUUID}, true
	case "binary", "varbinary":
		return typ{kind: kindBytes, family: source.FamilyBinary, decl: sized(c.name, c.length)}, true
	case "timestamp": // a row's version, which has nothing to do with time
		return typ{kind: kindBytes, family: source.FamilyBinary}, true
	case "image":
		return typ{kind: kindBytes, family: source.FamilyBinary, compare: "CONVERT(varbinary(max), %s)"}, true
	}
	return typ{}, false
}

func temporalType(c columnType) (typ, bool) {
	digits := fmt.Sprintf("%s(%d)", c.name, c.scale)
	switch c.name {
	case "date":
		return typ{kind: kindDate, family: source.FamilyDate, grid: dayGrid{}}, true
	case "time":
		return typ{kind: kindTime, family: source.FamilyTime, decl: digits, fraction: c.scale, scale: c.scale, digital: true, grid: clockGrid{}}, true
	case "datetime":
		return typ{kind: kindTimestamp, family: source.FamilyTimestamp, fraction: 3, scale: 3, grid: tickGrid()}, true
	case "smalldatetime":
		return typ{kind: kindTimestamp, family: source.FamilyTimestamp, grid: minuteGrid()}, true
	case "datetime2":
		return typ{kind: kindTimestamp, family: source.FamilyTimestamp, decl: digits, fraction: c.scale, scale: c.scale, digital: true, grid: momentGrid()}, true
	case "datetimeoffset":
		return typ{kind: kindOffset, family: source.FamilyTimestampTZ, decl: digits, fraction: c.scale, scale: c.scale, digital: true, grid: momentGrid()}, true
	}
	return typ{}, false
}

// The code pages whose texts the driver converts. It knows others by a list of locales that is not the server's; those
// are converted by the server.
const (
	codePageLatin1 = 1252
	codePageDOS    = 437
	codePageDOS850 = 850
)

func textType(c columnType) (typ, bool) {
	t := typ{kind: kindText, family: source.FamilyText, collation: collationName(c.collation)}
	switch c.name {
	case "char", "varchar":
		t.narrow, t.decl = true, sized(c.name, c.length)
	case "text":
		t.narrow, t.compare = true, "CONVERT(varchar(max), %s)"
	case "nchar", "nvarchar":
		t.decl = sized(c.name, c.length)
		if c.length != maxLength {
			t.decl = sized(c.name, c.length/2)
		}
	case "ntext":
		t.compare = asWide
	default:
		return typ{}, false
	}
	if t.narrow {
		switch c.codePage {
		case codePageLatin1, codePageDOS, codePageDOS850:
		default:
			t.read = "CONVERT(" + wideType(c) + ", %s)"
		}
	}
	return t, true
}

// asWide reads anything that has a text as that text.
const asWide = "CONVERT(nvarchar(max), %s)"

// wideType is the UTF-16 type that holds any value of a type in a code page.
func wideType(c columnType) string {
	const longest = 4000
	if c.name == "text" || c.length == maxLength || c.length > longest {
		return "nvarchar(max)"
	}
	return fmt.Sprintf("nvarchar(%d)", c.length)
}

// collationName returns name if it is one: it becomes a part of statements.
func collationName(name string) string {
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", r) {
			return ""
		}
	}
	return name
}

// specialType is everything that filters can only tell from null.
func specialType(c columnType) typ {
	switch {
	case c.name == "sql_variant":
		return typ{kind: kindVariant}
	case c.name == "xml":
		return typ{kind: kindText}
	case c.name == "json":
		return typ{kind: kindJSON, family: source.FamilyJSON, read: asWide}
	case c.assembly: // hierarchyid, geometry, geography, and what users made: all have a text of their own
		return typ{kind: kindText, read: "%s.ToString()"}
	}
	return typ{kind: kindText, read: asWide} // vector, and what is to come
}

func sized(name string, length int) string {
	if length == maxLength {
		return name + "(max)"
	}
	return fmt.Sprintf("%s(%d)", name, length)
}

// column makes a column of the type.
func (t *typ) column(name string, position int, nullable, key bool) source.Column {
	c := source.Column{
		Name: name, Type: t.decl, Family: t.family, Nullable: nullable, PrimaryKey: key, Position: position,
		Bits: t.bits, Unsigned: t.unsigned, Fraction: t.fraction, Native: t,
	}
	if t.family == source.FamilyDecimal {
		c.Precision, c.Scale = t.precision, t.scale
	}
	return c
}

// CheckOperand refuses moments that the type can't hold. Decimals are compared whatever they are: they only find
// nothing. So are the moments between the ticks of the old types, which no number of digits describes.
func (t *typ) CheckOperand(o source.Operand) bool {
	if t.grid == nil || t.family == source.FamilyDecimal {
		return true
	}
	p := t.grid.locate(o.Text)
	if p.where == below || p.where == above {
		return false
	}
	_, fraction, _ := strings.Cut(strings.TrimSuffix(o.Text, "Z"), ".")
	return !t.digital || len(fraction) <= t.scale
}
