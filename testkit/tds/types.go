package tds

// Type is a type of column as the wire describes it. Make one with the functions named after the types, which make
// those that may be null: null is nil.
type Type struct {
	id        byte
	size      int  // longest, in bytes
	precision byte // of decimals
	scale     byte // of decimals, or digits of a second's fraction
	long      bool // (max), or XML: in chunks
	collation [5]byte
	udt       string
}

// The type ids of the wire.
const (
	idImage                 = 0x22
	idText                  = 0x23
	idGUID                  = 0x24
	idIntN                  = 0x26
	idDate                  = 0x28
	idTime                  = 0x29
	idDateTime2             = 0x2a
	idDateTimeOffset        = 0x2b
	idTinyInt               = 0x30
	idBit                   = 0x32
	idSmallInt              = 0x34
	idInt                   = 0x38
	idSmallDateTime         = 0x3a
	idReal                  = 0x3b
	idMoney                 = 0x3c
	idDateTime              = 0x3d
	idFloat                 = 0x3e
	idVariant               = 0x62
	idNText                 = 0x63
	idBitN                  = 0x68
	idDecimalN              = 0x6a
	idNumericN              = 0x6c
	idFloatN                = 0x6d
	idMoneyN                = 0x6e
	idDateTimeN             = 0x6f
	idSmallMoney            = 0x7a
	idBigInt                = 0x7f
	idVarBinary             = 0xa5
	idVarChar               = 0xa7
	idBinary                = 0xad
	idChar                  = 0xaf
	idNVarChar              = 0xe7
	idNChar                 = 0xef
	idUDT                   = 0xf0
	idXML                   = 0xf1
	longMark                = 0xffff
	byteLong                = -1 // as a length of the constructors: (max)
	pieceSize               = 1 << 15
	plpNull          uint64 = 0xffffffffffffffff
	plpUnknown       uint64 = 0xfffffffffffffffe
)

// Max is the length of a type that has none.
const Max = byteLong

// Collation is what a server says about the encoding of a text: a locale, or one of the old sort orders.
type Collation struct {
	LCID   uint32
	SortID byte
}

// Collations that tests use.
var (
	Latin1  = Collation{LCID: 0x00d00409}             //nolint:gochecknoglobals // Latin1_General_CI_AS, code page 1252
	CP850   = Collation{LCID: 0x00d00409, SortID: 49} //nolint:gochecknoglobals // SQL_1xCompat_CP850_CI_AS
	CP437   = Collation{LCID: 0x00d00409, SortID: 31} //nolint:gochecknoglobals // SQL_Latin1_General_CP437_CS_AS
	Russian = Collation{LCID: 0x00d00419}             //nolint:gochecknoglobals // Cyrillic_General_CI_AS, code page 1251
)

func (c Collation) bytes() [5]byte {
	return [5]byte{byte(c.LCID), byte(c.LCID >> 8), byte(c.LCID >> 16), byte(c.LCID >> 24), c.SortID}
}

// TinyInt is a type of integers from 0 to 255.
func TinyInt() Type { return Type{id: idIntN, size: 1} }

// SmallInt is a type of integers of 16 bits.
func SmallInt() Type { return Type{id: idIntN, size: 2} }

// Int is a type of integers of 32 bits.
func Int() Type { return Type{id: idIntN, size: 4} }

// BigInt is a type of integers of 64 bits.
func BigInt() Type { return Type{id: idIntN, size: 8} }

// Real has float64 values, of which 32 bits are sent.
func Real() Type { return Type{id: idFloatN, size: 4} }

// Float has float64 values.
func Float() Type { return Type{id: idFloatN, size: 8} }

// Bit has bool values.
func Bit() Type { return Type{id: idBitN, size: 1} }

// Decimal has values in digits, as strings, with no more of them behind the point than scale.
func Decimal(precision, scale int) Type {
	size := 17
	switch {
	case precision <= 9:
		size = 5
	case precision <= 19:
		size = 9
	case precision <= 28:
		size = 13
	}
	return Type{id: idNumericN, size: size, precision: byte(precision), scale: byte(scale)} // #nosec G115 -- to 38
}

// Money has values in digits, as strings, with no more than four behind the point.
func Money() Type { return Type{id: idMoneyN, size: 8, scale: 4} }

// SmallMoney is Money of 32 bits.
func SmallMoney() Type { return Type{id: idMoneyN, size: 4, scale: 4} }

// Date has days like 2024-01-31, as strings.
func Date() Type { return Type{id: idDate, size: 3} }

// DateTime has moments like 2024-01-31T10:00:00.5, as strings, and rounds them to its ticks.
func DateTime() Type { return Type{id: idDateTimeN, size: 8} }

// SmallDateTime is DateTime without seconds.
func SmallDateTime() Type { return Type{id: idDateTimeN, size: 4} }

// Time has times of day like 10:00:00.5, as strings.
func Time(digits int) Type { return Type{id: idTime, size: clockSize(digits), scale: byte(digits)} } // #nosec G115 -- to 7

// DateTime2 has moments like 2024-01-31T10:00:00.5, as strings.
func DateTime2(digits int) Type {
	return Type{id: idDateTime2, size: clockSize(digits) + 3, scale: byte(digits)} // #nosec G115 -- to 7
}

// DateTimeOffset has moments with an offset like 2024-01-31T10:00:00.5+02:00, as strings.
func DateTimeOffset(digits int) Type {
	return Type{id: idDateTimeOffset, size: clockSize(digits) + 5, scale: byte(digits)} // #nosec G115 -- to 7
}

// clockSize is how many bytes a time of day takes.
func clockSize(digits int) int {
	switch {
	case digits <= 2:
		return 3
	case digits <= 4:
		return 4
	}
	return 5
}

// UniqueIdentifier has values in the canonical form, as strings.
func UniqueIdentifier() Type { return Type{id: idGUID, size: 16} }

// Char has bytes in the code page of the collation.
func Char(length int, c Collation) Type {
	return Type{id: idChar, size: length, collation: c.bytes()}
}

// VarChar is Char of up to so many bytes, or Max.
func VarChar(length int, c Collation) Type {
	return Type{id: idVarChar, size: length, long: length == Max, collation: c.bytes()}
}

// Text is what VarChar of Max replaces.
func Text(c Collation) Type { return Type{id: idText, size: 1<<31 - 1, collation: c.bytes()} }

// NChar has strings, or []uint16 for what no string holds. The length is in UTF-16 units.
func NChar(length int) Type { return Type{id: idNChar, size: 2 * length, collation: Latin1.bytes()} }

// NVarChar is NChar of up to so many units, or Max.
func NVarChar(length int) Type {
	return Type{id: idNVarChar, size: 2 * length, long: length == Max, collation: Latin1.bytes()}
}

// NText is what NVarChar of Max replaces.
func NText() Type { return Type{id: idNText, size: 1<<31 - 2, collation: Latin1.bytes()} }

// XML has strings.
func XML() Type { return Type{id: idXML, long: true} }

// Binary has bytes.
func Binary(length int) Type { return Type{id: idBinary, size: length} }

// VarBinary is Binary of up to so many bytes, or Max.
func VarBinary(length int) Type {
	return Type{id: idVarBinary, size: length, long: length == Max}
}

// Image is what VarBinary of Max replaces.
func Image() Type { return Type{id: idImage, size: 1<<31 - 1} }

// UDT has the bytes of a type implemented in CLR code.
func UDT(name string) Type { return Type{id: idUDT, long: true, udt: name} }

// Variant has values of type VariantValue.
func Variant() Type { return Type{id: idVariant, size: 8009} }

// VariantValue is a value of a type within a Variant.
type VariantValue struct {
	Type  Type
	Value any
}

// NotNull is the type as servers describe it for columns without nulls, where the wire has another one for them.
func (t Type) NotNull() Type {
	ids := map[byte]map[int]byte{
		idIntN:      {1: idTinyInt, 2: idSmallInt, 4: idInt, 8: idBigInt},
		idFloatN:    {4: idReal, 8: idFloat},
		idBitN:      {1: idBit},
		idMoneyN:    {4: idSmallMoney, 8: idMoney},
		idDateTimeN: {4: idSmallDateTime, 8: idDateTime},
	}
	if id, ok := ids[t.id][t.size]; ok {
		t.id = id
	}
	return t
}

// nullable undoes NotNull.
func (t Type) nullable() Type {
	switch t.id {
	case idTinyInt, idSmallInt, idInt, idBigInt:
		t.id = idIntN
	case idReal, idFloat:
		t.id = idFloatN
	case idBit:
		t.id = idBitN
	case idMoney, idSmallMoney:
		t.id = idMoneyN
	case idDateTime, idSmallDateTime:
		t.id = idDateTimeN
	}
	return t
}

func (t Type) fixed() bool { return t.id != t.nullable().id }

// info is TYPE_INFO.
func (t Type) info() []byte {
	out := []byte{t.id}
	switch t.id {
	case idIntN, idFloatN, idBitN, idMoneyN, idDateTimeN, idGUID:
		return append(out, byte(t.size)) // #nosec G115 -- to 16
	case idDecimalN, idNumericN:
		return append(out, byte(t.size), t.precision, t.scale) // #nosec G115 -- to 17
	case idTime, idDateTime2, idDateTimeOffset:
		return append(out, t.scale)
	case idChar, idVarChar, idNChar, idNVarChar:
		return append(u16(out, t.shortSize()), t.collation[:]...)
	case idBinary, idVarBinary:
		return u16(out, t.shortSize())
	case idText, idNText:
		return append(u32(out, t.size), t.collation[:]...)
	case idImage, idVariant:
		return u32(out, t.size)
	case idXML:
		return append(out, 0)
	case idUDT:
		out = u16(out, longMark)
		for _, part := range []string{"db", "sys", t.udt} {
			out = byteText(out, part)
		}
		return usText(out, "Microsoft.SqlServer.Types")
	}
	return out // of a fixed size, or a date
}

func (t Type) shortSize() int {
	if t.long {
		return longMark
	}
	return t.size
}
