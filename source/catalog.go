package source

// Scope limits a catalogue query.
type Scope struct {
	Schema string   // list only this schema, with bare names; empty: every non-system schema the user can read
	Tables []string // as requested; empty: all. Resolved by the rules of Catalog.Resolve

	// Fields are those that a request names, by table as requested. A kind whose tables have no schema looks for them;
	// others list every column anyway.
	Fields map[string][]string
}

// Catalog is what a database holds, as far as the user may read it.
type Catalog struct {
	DefaultSchema string  // its tables have bare names
	Tables        []Table // sorted by Name
}

// Table is a table or anything that reads like one.
type Table struct {
	Schema  string
	Name    string   // as listed: bare in the default schema, else schema.table
	Base    string   // the name without its schema, exactly as the server has it
	Columns []Column // in catalogue order
}

// Column is one column of a table.
type Column struct {
	Name       string
	Type       string // the server's own name of the type
	Family     Family
	Nullable   bool
	PrimaryKey bool
	Nested     bool // part of another column, which holds its values too: AllColumns leaves it out
	Position   int  // from 1
	Precision  int  // of decimals; 0: unknown
	Scale      int
	Bits       int      // width of integers and floats; 0: 64
	Unsigned   bool     // of integers
	Fraction   int      // most digits of a second's fraction the type holds; 0: 9
	Wide       bool     // the type also holds NaN and infinities (numbers), infinity and years BC (dates), hours beyond a day (times)
	Labels     []string // of enums
	Native     any      // what the kind's sub-package needs to plan the column; opaque elsewhere. May be an OperandChecker
}

// OperandChecker is a Column.Native that knows more about its type than the family does. It has the last word on an
// operand that the family accepted.
type OperandChecker interface {
	// CheckOperand reports whether a column of the type can be compared with o.
	CheckOperand(o Operand) bool
}

// Family groups column types by how filters compare them and encoders store them.
type Family int

// The families.
const (
	FamilyOther Family = iota // the server's own text; only isNull filters it
	FamilyBool
	FamilyInt     // to 64 bits, signed or unsigned
	FamilyDecimal // exact
	FamilyFloat
	FamilyText
	FamilyEnum
	FamilyUUID
	FamilyObjectID
	FamilyDate
	FamilyTime
	FamilyTimeTZ
	FamilyTimestamp   // without a zone
	FamilyTimestampTZ // an instant
	FamilyInterval
	FamilyBinary
	FamilyBits
	FamilyNetwork
	FamilyJSON
	FamilyArray
	FamilyComposite
)
