package sqlserver

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/fetcherhq/fetcher/source"
)

// largeRow is from which size on, as it came, a row is collected right after its visit. The driver needs several times
// the size of a value to decode it, all of which would otherwise still be there when it decodes the next one.
const largeRow = 4 << 20

var errChanged = errors.New("table is not any more what the catalogue told of it")

// Stream runs q in the snapshot. When it fails the statement is cancelled at the server and the session is good for
// Close only.
func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	if !s.begun {
		return &source.Error{Category: source.CategoryOther, Err: errors.New("no snapshot to read from")}
	}
	statement, err := newStatement(q, s.level)
	if err != nil {
		return err
	}
	wait, err := s.lockTimeout(ctx)
	if err != nil {
		return err
	}
	if wait != "" {
		if err = s.run(ctx, "limit", wait[len("; "):]); err != nil {
			return err
		}
	}
	r := &row{columns: statement.columns, spill: q.Spill}
	return s.do(ctx, "read", func(ctx context.Context) error {
		return s.each(ctx, statement.sql.String(), statement.args, func(values []sqldriver.Value) error {
			size := s.link.hold()
			r.begin(values)
			if err := visit(r); err != nil {
				return &visitError{err: err}
			}
			if size > largeRow {
				clear(values)
				runtime.GC()
			}
			if err := r.end(); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil { // the driver would first hand over what it has
				return err
			}
			s.link.release()
			return nil
		})
	})
}

// visitError tells the visitor's failure from those of the source.
type visitError struct{ err error }

func (e *visitError) Error() string { return e.err.Error() }

// each runs a statement and calls visit for every row of its result. It returns nil only if the server said that it
// came to its end. Otherwise the statement is cancelled.
func (s *session) each(ctx context.Context, statement string, args []any, visit func([]sqldriver.Value) error) (err error) {
	prepared, err := s.conn.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	queryer, ok := prepared.(sqldriver.StmtQueryContext)
	if !ok {
		return fmt.Errorf("driver made a %T", prepared)
	}
	rows, err := queryer.QueryContext(ctx, named(args))
	if err != nil {
		return err
	}
	cancelled := false
	defer func() {
		if cancelled { // by the driver itself; it would do so again
			return
		}
		if err != nil {
			s.link.starve()
			s.link.closeIn(closeGrace) // a server that does not let itself be cancelled
		}
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	values := make([]sqldriver.Value, len(rows.Columns()))
	for {
		clear(values) // or a large row would stay until the next one is there
		err := rows.Next(values)
		if err == io.EOF { //nolint:errorlint // a connection that was cut wraps the same error, and is no end
			return nil
		}
		if err != nil {
			cancelled = ctx.Err() != nil && errors.Is(err, ctx.Err())
			return err
		}
		if err := visit(values); err != nil {
			return err
		}
	}
}

// named numbers the arguments as @p1, @p2 and so on.
func named(args []any) []sqldriver.NamedValue {
	out := make([]sqldriver.NamedValue, len(args))
	for i, a := range args {
		out[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return out
}
