package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sijms/go-ora/v2/network"

	"github.com/fetcherhq/fetcher/source"
)

// closeGrace bounds how long a cancelled statement may take to end, and a farewell to be sent.
const closeGrace = 3 * time.Second

const consistencySnapshot = "snapshot"

// session is one connection. After any failure it is good for Close only.
type session struct {
	handle

	link     *link
	schema   string // whose tables have bare names; empty: the user's
	begun    bool
	deadline time.Time // of the snapshot; zero: none
	broken   bool
	closed   bool
}

const pingSQL = "SELECT 1 FROM DUAL"

// Ping runs one trivial query.
func (s *session) Ping(ctx context.Context) error {
	return s.query(ctx, "ping", pingSQL, nil, 0, func([]sqldriver.Value) {})
}

// settingsSQL is what conversions between text and values depend on, and how texts compare where a column does not say.
const settingsSQL = `ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,' NLS_CALENDAR = 'GREGORIAN' NLS_DATE_LANGUAGE = 'AMERICAN'` +
	` NLS_COMP = BINARY NLS_SORT = BINARY TIME_ZONE = '+00:00'`

// moduleSQL is how administrators see whose session this is. A server may not allow the package to everybody.
const moduleSQL = "BEGIN DBMS_APPLICATION_INFO.SET_MODULE('" + application + "', NULL); END;"

// noPackage is the error of a block that does not compile, for it names what the user can't see.
const noPackage = 6550

// prepare sets what statements run under.
func (s *session) prepare(ctx context.Context) error {
	if err := s.exec(ctx, "prepare", settingsSQL); err != nil {
		return err
	}
	return s.do(ctx, "name session", func(ctx context.Context) error {
		_, err := s.ExecContext(ctx, moduleSQL, nil)
		if refused := (*network.OracleError)(nil); errors.As(err, &refused) && refused.ErrCode == noPackage {
			return nil
		}
		return err
	})
}

// beginSQL starts the snapshot.
const beginSQL = "SET TRANSACTION READ ONLY"

// Begin starts the transaction that all streams read in, a snapshot of this moment.
func (s *session) Begin(ctx context.Context, deadline time.Time) (string, error) {
	if s.begun {
		return "", &source.Error{Category: source.CategoryOther, Err: errors.New("snapshot begun twice")}
	}
	s.deadline = deadline
	err := s.do(ctx, "begin", func(ctx context.Context) error {
		if _, err := s.BeginTx(ctx, sqldriver.TxOptions{}); err != nil { // which only stops the driver from committing
			return err
		}
		_, err := s.ExecContext(ctx, beginSQL, nil)
		return err
	})
	if err != nil {
		return "", err
	}
	s.begun = true
	return consistencySnapshot, nil
}

// until returns the snapshot's or the context's deadline, whichever is first.
func (s *session) until(ctx context.Context) (time.Time, bool) {
	deadline, ok := ctx.Deadline()
	if !s.deadline.IsZero() && (!ok || s.deadline.Before(deadline)) {
		return s.deadline, true
	}
	return deadline, ok
}

// do calls f within the time left: Oracle has no limit of its own for statements. When that is over, or ctx is, the
// server is asked to cancel what it is doing for f; one that does not react is left after closeGrace. f gets a context
// that does not end, for the driver would ask as well.
func (s *session) do(ctx context.Context, operation string, f func(ctx context.Context) error) error {
	if s.broken || s.closed {
		return &source.Error{Category: source.CategoryBroken, Transient: true, Err: net.ErrClosed}
	}
	if deadline, ok := s.until(ctx); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		s.abandon()
		return classifyRunning(ctx, fmt.Errorf("%s: %w", operation, err), nil)
	}
	stop := context.AfterFunc(ctx, func() {
		s.link.closeIn(closeGrace)
		_ = s.interrupt()
	})
	err := f(context.WithoutCancel(ctx))
	if !stop() && err == nil {
		err = ctx.Err() // the server may be told to cancel any moment now, whatever it is doing then
	}
	s.link.calm()
	if err == nil {
		return nil
	}
	failed := s.link.failure()
	s.abandon()
	if visit := (*visitError)(nil); errors.As(err, &visit) {
		return visit.err
	}
	return classifyRunning(ctx, fmt.Errorf("%s: %w", operation, err), failed)
}

// exec runs a statement without rows. It holds nothing that anybody sent us.
func (s *session) exec(ctx context.Context, operation, statement string) error {
	return s.do(ctx, operation, func(ctx context.Context) error {
		_, err := s.ExecContext(ctx, statement, nil)
		return err
	})
}

// errNarrow is an answer that no server gives to the statement.
var errNarrow = errors.New("answer has fewer columns than were asked for")

// query runs a statement and hands its rows, of at least so many values, over. They are valid during the call only.
func (s *session) query(ctx context.Context, operation, statement string, args []any, width int, visit func(row []sqldriver.Value)) error {
	return s.do(ctx, operation, func(running context.Context) error {
		return s.each(running, statement, args, func(row []sqldriver.Value) error {
			if len(row) < width {
				return &source.Error{Category: source.CategoryUnsupported, Err: errNarrow}
			}
			visit(row)
			return ctx.Err()
		})
	})
}

// errCut is an end of rows that the network explains better than the server.
var errCut = errors.New("rows ended with the connection")

// each runs a statement and calls visit for every row of its result. It returns nil only if the server said that it
// came to its end.
func (s *session) each(ctx context.Context, statement string, args []any, visit func([]sqldriver.Value) error) (err error) {
	rows, err := s.QueryContext(ctx, statement, numbered(args))
	if err != nil {
		return err
	}
	defer func() {
		if err == nil { // else the connection is given up, and the cursor with it
			err = rows.Close()
		}
	}()
	values := make([]sqldriver.Value, len(rows.Columns()))
	for {
		clear(values) // or a large row would stay until the next one is there
		err := rows.Next(values)
		if err == io.EOF { //nolint:errorlint // a connection that was cut wraps the same error, and is no end
			if failed := s.link.failure(); failed != nil {
				return errors.Join(errCut, failed)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(values); err != nil {
			return err
		}
	}
}

// numbered makes the arguments those of :1, :2 and so on.
func numbered(args []any) []sqldriver.NamedValue {
	out := make([]sqldriver.NamedValue, len(args))
	for i, a := range args {
		out[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return out
}

// abandon ends the connection at once.
func (s *session) abandon() {
	s.broken = true
	s.link.closeAll()
}

// Close ends the session, and the transaction with it.
func (s *session) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if !s.broken {
		s.link.closeIn(closeGrace)
		_ = s.connection.Close() // with a farewell that may have nobody to hear it
		s.link.calm()
	}
	s.link.closeAll()
	return nil
}
