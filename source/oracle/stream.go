package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/fetcherhq/fetcher/source"
)

// How many rows a trip to the server brings. The driver holds all of them.
const (
	fetchCatalog = 1000
	fetchBytes   = 512 << 10 // of values as wide as they are declared
	fetchMost    = 2000
	// fetchDriver is the number that the driver takes for leave to choose another one.
	fetchDriver = 25
)

var errChanged = errors.New("table is not any more what the catalogue told of it")

// Stream runs q in the snapshot. When it fails the session is good for Close only.
func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	if !s.begun {
		return &source.Error{Category: source.CategoryOther, Err: errors.New("no snapshot to read from")}
	}
	statement, err := newStatement(q)
	if err != nil {
		return err
	}
	s.fetch(statement.rows())
	r := &row{columns: statement.columns, spill: q.Spill}
	return s.do(ctx, "read", func(running context.Context) error {
		return s.each(running, statement.sql.String(), statement.args, func(values []sqldriver.Value) error {
			r.begin(values)
			if err := visit(r); err != nil {
				return &visitError{err: err}
			}
			if err := r.end(); err != nil {
				return err
			}
			return ctx.Err()
		})
	})
}

// rows returns how many rows a trip may bring. A value without a limit comes with its row alone.
func (s *statement) rows() int {
	width := 0
	for _, c := range s.columns {
		if c.typ.unlimited() {
			return 1
		}
		width += c.typ.length + 1
	}
	n := max(1, min(fetchMost, fetchBytes/max(width, 1)))
	if n == fetchDriver {
		n--
	}
	return n
}

// visitError tells the visitor's failure from those of the source.
type visitError struct{ err error }

func (e *visitError) Error() string { return e.err.Error() }
