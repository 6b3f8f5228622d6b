package postgres

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source"
)

// kind is how a value goes from the wire into JSON.
type kind uint8

const (
	kindText    kind = iota // any text
	kindPlain               // text without characters that JSON escapes
	kindInteger             // a number that JSON writes alike
	kindFloat               // a number, or NaN and the infinities
	kindBool
	kindJSON
	kindMoney
	kindTimestamp // with zone or without
	kindTimeTZ
	kindBytea
	kindArray
	kindComposite

	// The binary forms that are cheaper than text, for the server above all. Only whole columns have them.
	kindBytesBinary
	kindUUIDBinary
	kindFloat4Binary
	kindFloat8Binary
	kindDateBinary
	kindTimestampBinary
	kindTimestampTZBinary
)

// typ is a type with everything that rendering and comparing its values need. Domains are their base type. It is the
// Native of columns, shared between them, and does not change once the catalogue is made.
type typ struct {
	oid     uint32
	text    kind // its text form, also inside of arrays and composites
	binary  kind // its binary form; 0: text
	family  source.Family
	bits    int
	digits  int  // of a second's fraction
	wide    bool // NaN, infinities
	labels  []string
	element *typ // of arrays
	delim   byte // between elements
	fields  []field
	scale   int // of money

	compareAs  uint32 // type of the parameter a value is compared with
	compareAll uint32 // the array type of that; 0: none
	cast       string // type the column is cast to for comparing, quoted; empty: none
	operators  string // schema that holds the operators; empty: pg_catalog
}

// field is one attribute of a composite.
type field struct {
	key string // its name as the key of a JSON object, with the colon
	typ *typ
}

// wire returns the kind of the type's values as columns, and the protocol's code for their format.
func (t *typ) wire() (kind, int16) {
	if t.binary != 0 {
		return t.binary, pgtype.BinaryFormatCode
	}
	return t.text, pgtype.TextFormatCode
}

// builtin returns the scalar type of PostgreSQL itself with the given number, if its values have a form of their own.
func builtin(oid uint32) (typ, bool) {
	t, ok := numberType(oid)
	if !ok {
		t, ok = temporalType(oid)
	}
	if !ok {
		t, ok = plainType(oid)
	}
	t.oid = oid
	if t.compareAs == 0 {
		t.compareAs = oid
	}
	return t, ok
}

func numberType(oid uint32) (typ, bool) {
	switch oid {
	case pgtype.BoolOID:
		return typ{text: kindBool, family: source.FamilyBool}, true
	case pgtype.Int2OID:
		return typ{text: kindInteger, family: source.FamilyInt, bits: 16}, true
	case pgtype.Int4OID:
		return typ{text: kindInteger, family: source.FamilyInt, bits: 32}, true
	case pgtype.Int8OID:
		return typ{text: kindInteger, family: source.FamilyInt, bits: 64}, true
	case pgtype.OIDOID:
		return typ{text: kindInteger, family: source.FamilyInt, bits: 32}, true
	case pgtype.Float4OID:
		return typ{text: kindFloat, binary: kindFloat4Binary, family: source.FamilyFloat, bits: 32, wide: true}, true
	case pgtype.Float8OID:
		return typ{text: kindFloat, binary: kindFloat8Binary, family: source.FamilyFloat, bits: 64, wide: true}, true
	case pgtype.NumericOID:
		return typ{text: kindPlain, family: source.FamilyDecimal, wide: true}, true
	case moneyOID:
		return typ{
			text: kindMoney, family: source.FamilyDecimal,
			cast: "pg_catalog.numeric", compareAs: pgtype.NumericOID, compareAll: pgtype.NumericArrayOID,
		}, true
	}
	return typ{}, false
}

// moneyOID is not among pgtype's constants.
const moneyOID = 790

// microseconds is the number of digits that fractions of seconds have.
const microseconds = 6

func temporalType(oid uint32) (typ, bool) {
	switch oid {
	case pgtype.DateOID:
		return typ{text: kindPlain, binary: kindDateBinary, family: source.FamilyDate, wide: true}, true
	case pgtype.TimestampOID:
		return typ{
			text: kindTimestamp, binary: kindTimestampBinary,
			family: source.FamilyTimestamp, digits: microseconds, wide: true,
		}, true
	case pgtype.TimestamptzOID:
		return typ{
			text: kindTimestamp, binary: kindTimestampTZBinary,
			family: source.FamilyTimestampTZ, digits: microseconds, wide: true,
		}, true
	case pgtype.TimeOID:
		return typ{text: kindPlain, family: source.FamilyTime, digits: microseconds}, true
	case pgtype.TimetzOID:
		return typ{text: kindTimeTZ, family: source.FamilyTimeTZ, digits: microseconds}, true
	case pgtype.IntervalOID:
		return typ{text: kindPlain, family: source.FamilyInterval}, true
	}
	return typ{}, false
}

func plainType(oid uint32) (typ, bool) {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.NameOID, pgtype.QCharOID:
		// Compared as text: the others' input would cut a value off to make it fit.
		return typ{
			text: kindText, family: source.FamilyText,
			compareAs: pgtype.TextOID, compareAll: pgtype.TextArrayOID,
		}, true
	case pgtype.BPCharOID:
		return typ{text: kindText, family: source.FamilyText}, true
	case pgtype.JSONOID, pgtype.JSONBOID:
		return typ{text: kindJSON, family: source.FamilyJSON}, true
	case pgtype.UUIDOID:
		return typ{text: kindPlain, binary: kindUUIDBinary, family: source.FamilyUUID}, true
	case pgtype.ByteaOID:
		return typ{text: kindBytea, binary: kindBytesBinary, family: source.FamilyBinary}, true
	case pgtype.BitOID, pgtype.VarbitOID:
		return typ{text: kindPlain, family: source.FamilyBits}, true
	case pgtype.CIDROID: // compared as inet, for an address need not be a network
		return typ{
			text: kindPlain, family: source.FamilyNetwork,
			compareAs: pgtype.InetOID, compareAll: pgtype.InetArrayOID,
		}, true
	case pgtype.InetOID, pgtype.MacaddrOID, pgtype.Macaddr8OID:
		return typ{text: kindPlain, family: source.FamilyNetwork}, true
	}
	return typ{}, false
}

// Sizes of hardware addresses.
const (
	macSize  = 6
	mac8Size = 8
)

// The calendar's first day, of dates and timestamps alike, and their last years.
const (
	firstYearBC       = 4713
	firstMonthDay     = "11-24"
	lastDateYear      = 5_874_897
	lastTimestampYear = 294_276
	lastTimestampDay  = "294276-12-31" // as a whole day it would end where no timestamp is
)

// CheckOperand refuses what the family lets pass and the type does not hold.
func (t *typ) CheckOperand(o source.Operand) bool {
	switch t.family {
	case source.FamilyNetwork:
		return t.checkAddress(o.Text)
	case source.FamilyDate:
		return withinYears(o.Text, lastDateYear)
	case source.FamilyTimestamp, source.FamilyTimestampTZ:
		return withinYears(o.Text, lastTimestampYear) && (!o.DayOnly || o.Text != lastTimestampDay)
	}
	return true
}

// withinYears reports whether the calendar has the day, or infinity, that s begins with.
func withinYears(s string, last int) bool {
	digits, rest, _ := strings.Cut(s, "-")
	year, err := strconv.Atoi(digits)
	switch {
	case err != nil: // infinity
		return true
	case strings.HasSuffix(s, " BC"):
		return year < firstYearBC || (year == firstYearBC && rest >= firstMonthDay)
	}
	return year <= last
}

func (t *typ) checkAddress(s string) bool {
	switch t.oid {
	case pgtype.MacaddrOID:
		mac, err := net.ParseMAC(s)
		return err == nil && len(mac) == macSize
	case pgtype.Macaddr8OID:
		mac, err := net.ParseMAC(s)
		return err == nil && (len(mac) == mac8Size || len(mac) == macSize)
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Zone() == ""
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}
