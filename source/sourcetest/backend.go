package sourcetest

import (
	"context"
	"testing"

	"github.com/fetcherhq/fetcher/source"
)

// Feature is something that a server may be without.
type Feature string

// Type is a column type of a fixture. It is a feature, too: a server without one skips its tests.
type Type = Feature

// The types. Values are given as text.
const (
	Integer     Type = "integer"      // 64 bits, signed: digits
	Decimal     Type = "decimal"      // 17 digits before the point and 17 behind it: digits
	Text        Type = "text"         // compared by code points, or as near to that as the server can: as it is
	Date        Type = "date"         // 2024-01-31
	Timestamp   Type = "timestamp"    // without zone, to the millisecond: 2024-01-31T10:00:00.5
	TimestampTZ Type = "timestamp tz" // an instant, to the millisecond: 2024-01-31T10:00:00.5Z
	UUID        Type = "uuid"         // in its canonical form
	ObjectID    Type = "object id"    // 24 hexadecimal digits
	Boolean     Type = "boolean"      // true or false
)

// The other features.
const (
	EmptyText     Feature = "empty text"      // a text of no characters that is not null
	QuotedNames   Feature = "quotes in names" // of tables and columns
	DollarTables  Feature = "dollar in table names"
	OrderedBool   Feature = "ordered boolean" // false is less than true
	Views         Feature = "views"
	Schemas       Feature = "schemas" // more than one, visible to one session
	Snapshot      Feature = "snapshot"
	Cancel        Feature = "cancel"         // a process list to look at, and a statement that takes for ever
	FlatValues    Feature = "flat values"    // a large value never in memory as a whole
	LargeValues   Feature = "large values"   // of 15 MiB
	BrokenNetwork Feature = "broken network" // a server behind TCP
)

// Null is the value that is none.
const Null = "\x00null"

// Table is a fixture.
type Table struct {
	Schema  string // empty: the database's default
	Name    string
	Columns []Column
	Rows    [][]string // a value for each column
}

// Column is a column of a fixture.
type Column struct {
	Name string
	Type Type
}

// Backend describes one kind of database on one server.
type Backend struct {
	Driver source.Driver

	// New returns an empty database that goes away when tb ends. It is called for each test.
	New func(tb testing.TB) Database

	// Without lists what the server can't do, with the reason.
	Without map[Feature]string

	// MaxColumns is the width of the widest table; 0: 1,500.
	MaxColumns int

	// NarrowRows is how many rows the memory test's narrow table has, where filling it takes long; 0: 200,000.
	NarrowRows int

	// Consistency is what Begin returns; empty: snapshot.
	Consistency string

	// Implicit says that tables have columns that nobody created, so that AllColumns is more than those of a fixture.
	Implicit bool
}

// Database is a database of one test. The functions that belong to features the server is without may be nil.
type Database struct {
	Params source.Params // how sessions reach it

	// Create makes tables with rows, which sessions that begin later see.
	Create func(tb testing.TB, tables ...Table)

	// Bulk makes a table with the columns id, an Integer from 1, and v, a Text of width ASCII characters: the number
	// of the row and a blank, repeated. nil: the suite does so by Create.
	Bulk func(tb testing.TB, table string, rows, width int)

	// CreateSchema makes a schema with a name that begins like the given one and returns the whole name. (Schemas)
	CreateSchema func(tb testing.TB, prefix string) string

	// CreateView makes a view that holds all of a table. (Views)
	CreateView func(tb testing.TB, view, table string)

	// Transfer takes 1 of the Integer n from each of the ten rows of the table torn_a and adds 10 to n in the only row
	// of torn_b, in one transaction. It may be called while sessions read. (Snapshot)
	Transfer func(ctx context.Context) error

	// Slow makes something with the column v to read, reading from which takes minutes, and returns its name. (Cancel)
	Slow func(tb testing.TB) string

	// Running lists the statements that sessions on this database run at the server. (Cancel)
	Running func(tb testing.TB) []string
}

// Run runs the suite. Don't call it from a parallel test: it looks at the memory of the process.
func Run(t *testing.T, b Backend) { //nolint:paralleltest // see above
	t.Helper()
	t.Run("memory", b.testMemory)
	for name, test := range map[string]func(*testing.T){
		"filters": b.testFilters, "filters combine": b.testFiltersCombine, "long lists": b.testLongLists,
		"names": b.testNames, "schemas": b.testSchemas, "views": b.testViews, "wide": b.testWide,
		"cut": b.testCut, "silent": b.testSilent, "silent at the start": b.testSilentOpen,
		"cancel": b.testCancel, "deadline": b.testDeadline, "visitor": b.testVisitorFails, "snapshot": b.testSnapshot,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// needs skips the test if the server is without one of the features.
func (b Backend) needs(t *testing.T, features ...Feature) {
	t.Helper()
	for _, f := range features {
		if reason, without := b.Without[f]; without {
			t.Skipf("without %s: %s", f, reason)
		}
	}
}

// all names all columns of a fixture.
func (b Backend) all(names ...string) []string {
	if b.Implicit {
		return names
	}
	return []string{source.AllColumns}
}

func (b Backend) has(f Feature) bool {
	_, without := b.Without[f]
	return !without
}
