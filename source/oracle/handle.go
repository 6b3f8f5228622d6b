package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"reflect"

	oracle "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/configurations"
	"github.com/sijms/go-ora/v2/network"
)

// connection is what a session needs of the driver's connection. Tests have one that hands over the driver's values.
type connection interface {
	QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error)
	ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error)
	BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error)
	Close() error
}

// handle is a connection with the two things that the driver has but does not offer.
type handle struct {
	connection

	// interrupt asks the server to cancel what it is doing. It may be called while another goroutine reads.
	interrupt func() error

	// fetch sets how many rows each trip to the server brings, for statements that follow.
	fetch func(rows int)
}

// The fields of the driver's connection that handleOf reaches for.
const (
	fieldSession = "session"
	fieldConfig  = "connOption"
)

// handleOf reaches into a connection of the driver, which looks at contexts only until the first rows are there, not
// while it fetches more, and has one number of rows for all statements, however large their values: without that,
// a cancelled job's statement would go on at the server, and memory would not be bounded. A driver without these
// fields is refused, not read without them.
func handleOf(conn *oracle.Connection) (handle, error) {
	fields := reflect.ValueOf(conn).Elem()
	session, config := fields.FieldByName(fieldSession), fields.FieldByName(fieldConfig)
	if !session.IsValid() || session.Type() != reflect.TypeFor[*network.Session]() ||
		!config.IsValid() || config.Type() != reflect.TypeFor[*configurations.ConnectionConfig]() {
		return handle{}, errors.New("the driver's connection is not the one that is known")
	}
	options := (*configurations.ConnectionConfig)(config.UnsafePointer())
	return handle{
		connection: guarded{conn},
		interrupt: func() error {
			s := (*network.Session)(session.UnsafePointer()) // made when the connection is opened
			if s == nil {
				return nil
			}
			return safely(s.BreakConnection)
		},
		fetch: func(rows int) { options.PrefetchRows = rows },
	}, nil
}

// errPanic is the driver failing over what a server sent.
var errPanic = errors.New("the driver panicked")

// safely turns a panic of the driver into an error: it does not check all lengths that a server sends, and a server
// need not be what it says it is.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return f()
}

// guarded is a connection whose calls don't panic.
type guarded struct{ conn *oracle.Connection }

// QueryContext runs a query.
func (g guarded) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (rows sqldriver.Rows, err error) {
	err = safely(func() error {
		rows, err = g.conn.QueryContext(ctx, query, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return guardedRows{rows}, nil
}

// ExecContext runs a statement.
func (g guarded) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (result sqldriver.Result, err error) {
	err = safely(func() error {
		result, err = g.conn.ExecContext(ctx, query, args)
		return err
	})
	return result, err
}

// BeginTx stops the driver from committing after statements. It sends nothing.
func (g guarded) BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	return g.conn.BeginTx(ctx, opts)
}

// Close says goodbye.
func (g guarded) Close() error { return safely(g.conn.Close) }

// guardedRows is rows whose calls don't panic.
type guardedRows struct{ sqldriver.Rows }

// Next reads the next row.
func (g guardedRows) Next(dest []sqldriver.Value) error {
	return safely(func() error { return g.Rows.Next(dest) })
}

// Close closes the cursor.
func (g guardedRows) Close() error { return safely(g.Rows.Close) }
