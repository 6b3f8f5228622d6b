// Package source owns reading external databases: the contract every kind of database fulfils, its catalogue,
// and the rules for names, filters and values that hold for all of them.
//
// A kind lives in a sub-package and is the only place that knows its dialect. Every connection is made through the
// guarded dialer it is given. A Session never writes: it reads inside one read-only snapshot.
package source

import (
	"context"
	"log/slog"
	"net"
	"time"
)

// Kind is the type of an external database as the API names it.
type Kind string

// The kinds the API accepts.
const (
	PostgreSQL Kind = "POSTGRESQL"
	MySQL      Kind = "MYSQL"
	Oracle     Kind = "ORACLE"
	SQLServer  Kind = "SQL_SERVER"
	MongoDB    Kind = "MONGODB"
)

// Params says how to reach one external database. It holds a password and keys in clear: it is made when a session
// is opened, never stored, and prints without its secrets.
type Params struct {
	Kind     Kind
	Host     string
	Port     int
	Database string
	User     string
	Password string
	Schema   string            // the schema whose tables have bare names; empty: the kind's default
	TLS      TLS               // zero: the kind's default mode
	Options  map[string]string // kind-specific: serviceName, authSource, replicaSet, directConnection
}

// TLS is how the connection is protected. CA, Cert and Key are PEM.
type TLS struct {
	Mode string
	CA   string
	Cert string
	Key  string
}

// LogValue keeps credentials and addresses out of logs.
func (p Params) LogValue() slog.Value { return slog.StringValue(string(p.Kind)) }

// String keeps credentials and addresses out of formatted text.
func (p Params) String() string { return string(p.Kind) }

// GoString keeps credentials and addresses out of %#v.
func (p Params) GoString() string { return string(p.Kind) }

// Dialer opens every network connection of a driver. It refuses addresses that may not be dialled
// (errors.Is(err, dial.ErrNotAllowed)) and resolves names itself.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Driver opens sessions on one kind of database.
type Driver interface {
	// Open connects and authenticates within ctx. Failures are *Error with a category.
	Open(ctx context.Context, p Params, d Dialer) (Session, error)
}

// Session is one connection to one external database, used by one goroutine at a time. Every method stops when ctx
// does; a statement that is running then is cancelled at the server, not just abandoned. Failures are *Error.
type Session interface {
	// Ping runs one trivial query.
	Ping(ctx context.Context) error

	// Catalog lists the tables (views, materialised views, foreign and partitioned tables among them) the user may
	// read, with their columns, by a bounded number of catalogue queries. A scope with Tables lists only those.
	Catalog(ctx context.Context, scope Scope) (*Catalog, error)

	// Begin starts the one consistent, read-only snapshot that every later Stream reads from. Statements are limited
	// to the time left until deadline. It returns how consistent the reads are: "snapshot", or what the server
	// allows instead.
	Begin(ctx context.Context, deadline time.Time) (consistency string, err error)

	// Stream runs q and calls visit for each row, in the server's order. It returns nil only if the cursor ended
	// without an error: a stream that broke, or that visit ended with an error, returns that error.
	Stream(ctx context.Context, q Query, visit func(Row) error) error

	// Close ends the session. It is safe to call twice.
	Close() error
}

// Row is the row being visited; it is valid only during the visit.
type Row interface {
	// AppendJSON appends the JSON form of column i (an index into Query.Columns) to dst, under the mapping of the
	// value rules, without allocating where the wire's form allows. Columns are appended in ascending order, each at
	// most once: a wide row is not held in memory. A value that can't be had leaves null and fails the stream after
	// the visit.
	AppendJSON(dst []byte, i int) []byte
}

// OpenRow is a Row of a table whose catalogue can't promise to list every field: documents need not be alike.
type OpenRow interface {
	Row

	// AppendRest appends ,"name":value for each field of the row that the table has no column for, if the query asks
	// for all; else nothing. It is called after the last column. A stream whose visitor does not take such fields
	// fails with CategoryUnlisted: nothing is lost in silence.
	AppendRest(dst []byte) []byte
}

// Query is one table's read, already resolved against the catalogue. Nothing in it is text from a request.
type Query struct {
	Table   *Table
	Columns []*Column
	All     bool        // Columns are what AllColumns stands for
	Where   []Predicate // combined with AND

	// Spill, if set, keeps memory flat however large a value is. While a large value is appended, AppendJSON may pass
	// all that dst holds, in order, to Spill, which writes it out before it returns, and go on with an empty dst. Its
	// error ends the stream after the visit.
	Spill func(dst []byte) error
}
