package mysql

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// kind is how a value goes from the wire into JSON.
type kind uint8

const (
	kindText kind = iota
	kindInteger
	kindDecimal
	kindFloat
	kindDouble
	kindBool
	kindBytes
	kindJSON
	kindCheckedJSON // text that a check of the table says is JSON
	kindDate
	kindDateTime
	kindTimestamp
	kindTime
)

// typ is a type with everything that rendering and comparing its values need. It is the Native of columns, and does not
// change once the catalogue is made.
type typ struct {
	kind     kind
	family   source.Family
	name     string // of the type, without length and attributes
	bits     int    // of integers, floats and bit fields
	unsigned bool
	digits   int // of a second's fraction
	labels   []string
	charset  string // of text
	collate  string
	maria    bool // of MariaDB
}

// Names of types that are looked at more than once.
const (
	typeYear = "year"
	typeBit  = "bit"
	typeTime = "time"
)

// binaryCharset marks bytes that are not text.
const binaryCharset = "binary"

// newType makes a type from what the catalogue says of a column. definition is the whole type, with its attributes.
func newType(name, definition string, charset, collate string, fraction int) *typ {
	t := &typ{name: name, charset: charset, collate: collate, digits: fraction, family: source.FamilyOther}
	t.unsigned = strings.Contains(definition, " unsigned")
	switch name {
	case "tinyint":
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 8
	case "smallint":
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 16
	case "mediumint":
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 24
	case "int", "integer":
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 32
	case "bigint":
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 64
	case typeYear:
		t.kind, t.family, t.bits = kindInteger, source.FamilyInt, 16
	case "decimal", "numeric":
		t.kind, t.family = kindDecimal, source.FamilyDecimal
	case "float":
		t.kind, t.family, t.bits = kindFloat, source.FamilyFloat, 32
	case "double", "real":
		t.kind, t.family, t.bits = kindDouble, source.FamilyFloat, 64
	case typeBit:
		t.bits = argument(definition)
		t.kind, t.family = kindBytes, source.FamilyBinary
		if t.bits == 1 {
			t.kind, t.family = kindBool, source.FamilyBool
		}
	case "date":
		t.kind, t.family = kindDate, source.FamilyDate
	case "datetime":
		t.kind, t.family = kindDateTime, source.FamilyTimestamp
	case "timestamp":
		t.kind, t.family = kindTimestamp, source.FamilyTimestampTZ
	case typeTime:
		t.kind, t.family = kindTime, source.FamilyTime
	default:
		t.textual(definition)
	}
	return t
}

// textual completes types whose values are characters or bytes.
func (t *typ) textual(definition string) {
	switch t.name {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		t.family = source.FamilyText
	case "enum":
		t.family, t.labels = source.FamilyEnum, labels(definition)
	case "set":
		t.family = source.FamilyText
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		t.kind, t.family = kindBytes, source.FamilyBinary
	case "json":
		t.kind, t.family = kindJSON, source.FamilyJSON
	case "uuid":
		t.family = source.FamilyUUID
	case "inet4", "inet6":
		t.family = source.FamilyNetwork
	case "vector":
		t.kind, t.family = kindBytes, source.FamilyOther
	}
	if t.charset == binaryCharset && t.kind == kindText {
		t.kind, t.family = kindBytes, source.FamilyBinary
	}
}

// geometric reports whether the value is asked for as text.
func (t *typ) geometric() bool {
	switch t.name {
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return true
	}
	return false
}

// argument returns the number in the parentheses of a type; 1 if there is none.
func argument(definition string) int {
	_, rest, _ := strings.Cut(definition, "(")
	digits, _, _ := strings.Cut(rest, ")")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 1
	}
	return n
}

// labels takes the words of enum('a','it”s') apart.
func labels(definition string) []string {
	var out []string
	var word []byte
	inside := false
	for i := 0; i < len(definition); i++ {
		c := definition[i]
		switch {
		case c == '\\' && inside && i+1 < len(definition):
			i++
			word = append(word, unescaped(definition[i]))
		case c != '\'' && inside:
			word = append(word, c)
		case c != '\'':
		case inside && i+1 < len(definition) && definition[i+1] == '\'':
			word = append(word, c)
			i++
		case inside:
			out, word, inside = append(out, string(word)), nil, false
		default:
			inside = true
		}
	}
	return out
}

// unescaped returns what c stands for behind a backslash. The catalogue writes labels so, whatever the SQL mode is.
func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case '0':
		return 0
	}
	return c
}

// The last values that the types hold.
const (
	lastYear   = 9999
	lastMoment = "9999-12-31 23:59:59.999999"
)

// CheckOperand refuses what the family lets pass and the type does not hold.
func (t *typ) CheckOperand(o source.Operand) bool {
	switch t.family {
	case source.FamilyDate, source.FamilyTimestamp, source.FamilyTimestampTZ:
		year, err := strconv.Atoi(o.Text[:max(strings.IndexByte(o.Text, '-'), 0)])
		return err == nil && year <= lastYear
	case source.FamilyTime:
		return t.maria || !strings.Contains(o.Text, "838:59:59.")
	case source.FamilyBinary:
		return t.name != typeBit || len(o.Bytes) == (t.bits+7)/8
	case source.FamilyInt:
		if t.name == "mediumint" {
			return withinMedium(o.Text, t.unsigned)
		}
	case source.FamilyDecimal:
		return withinDecimal(o.Text)
	case source.FamilyNetwork:
		return isAddress(o.Text, t.name == "inet6")
	}
	return true
}

// isAddress reports whether text is an address of one family. The server would make null of any other text, which
// matches nothing, not even by ne.
func isAddress(text string, six bool) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6() == six && a.Zone() == ""
}

// withinMedium checks a number for 24 bits, which the family takes for the size of a parser.
func withinMedium(text string, unsigned bool) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	if unsigned {
		return err == nil && n >= 0 && n < 1<<24
	}
	return err == nil && n >= -1<<23 && n < 1<<23
}

// withinDecimal checks that the server will take the number as it is: it has room for 65 digits, 30 of them behind the
// point.
func withinDecimal(text string) bool {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	const digits, behind = 65, 30
	return len(fraction) <= behind && len(whole) <= digits-behind
}
