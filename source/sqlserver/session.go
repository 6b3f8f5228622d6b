package sqlserver

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/fetcherhq/fetcher/source"
)

// closeGrace bounds how long a cancelled statement may take to end, and a farewell to be sent.
const closeGrace = 3 * time.Second

// The levels of consistency.
const (
	consistencySnapshot = "snapshot"
	consistencyRead     = "read committed"
)

// session is one connection. After any failure it is good for Close only.
type session struct {
	conn     *mssql.Conn
	link     *link
	schema   string // whose tables have bare names; empty: dbo
	begun    bool
	level    int       // compatibility level of the database, once begun
	deadline time.Time // of the snapshot; zero: none
	broken   bool
	closed   bool
}

// Ping runs one trivial query.
func (s *session) Ping(ctx context.Context) error {
	return s.run(ctx, "ping", "SELECT 1")
}

// settings are what views, computed columns and indexes on them are defined under, and that we give way to others.
const settings = "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON; " +
	"SET NUMERIC_ROUNDABORT OFF; SET TEXTSIZE 2147483647; SET ROWCOUNT 0; SET DEADLOCK_PRIORITY LOW; " +
	"SET TRANSACTION ISOLATION LEVEL READ COMMITTED"

// databaseSQL asks whether the database keeps versions for snapshots, and which T-SQL it speaks.
const databaseSQL = "SELECT CONVERT(int, snapshot_isolation_state), CONVERT(int, compatibility_level) " +
	"FROM sys.databases WHERE database_id = DB_ID()"

// snapshotOn is the state of a database whose every transaction writes versions.
const snapshotOn = 1

// Begin starts the transaction that all streams read in. If the database allows snapshots it is one, of the moment when
// the first table is read; else each statement sees what is committed when it begins.
func (s *session) Begin(ctx context.Context, deadline time.Time) (string, error) {
	if s.begun {
		return "", &source.Error{Category: source.CategoryOther, Err: errors.New("snapshot begun twice")}
	}
	s.deadline = deadline
	if err := s.prepare(ctx); err != nil {
		return "", err
	}
	state := 0
	err := s.query(ctx, "look at database", databaseSQL, nil, 2, func(row []sqldriver.Value) {
		state, s.level = integer(row[0]), integer(row[1])
	})
	if err != nil {
		return "", err
	}
	isolation, consistency := sql.LevelReadCommitted, consistencyRead
	if state == snapshotOn {
		isolation, consistency = sql.LevelSnapshot, consistencySnapshot
	}
	err = s.do(ctx, "begin", func(ctx context.Context) error {
		_, beginErr := s.conn.BeginTx(ctx, sqldriver.TxOptions{Isolation: sqldriver.IsolationLevel(isolation)})
		return beginErr
	})
	if err != nil {
		return "", err
	}
	s.begun = true
	return consistency, nil
}

// prepare sets what statements run under, and how long they wait for locks.
func (s *session) prepare(ctx context.Context) error {
	wait, err := s.lockTimeout(ctx)
	if err != nil {
		return err
	}
	return s.run(ctx, "prepare", settings+wait)
}

// lockTimeout returns the statement that limits waiting for locks to the time left. The server has no limit for whole
// statements: they are cancelled when the time is over.
func (s *session) lockTimeout(ctx context.Context) (string, error) {
	deadline, ok := s.until(ctx)
	if !ok {
		return "", nil
	}
	left := time.Until(deadline).Milliseconds()
	if left <= 0 {
		return "", &source.Error{Category: source.CategoryTimeout, Transient: true, Err: context.DeadlineExceeded}
	}
	return fmt.Sprintf("; SET LOCK_TIMEOUT %d", min(left, math.MaxInt32)), nil
}

// until returns the snapshot's or the context's deadline, whichever is first.
func (s *session) until(ctx context.Context) (time.Time, bool) {
	deadline, ok := ctx.Deadline()
	if !s.deadline.IsZero() && (!ok || s.deadline.Before(deadline)) {
		return s.deadline, true
	}
	return deadline, ok
}

// do calls f within the time left. When that is over, or ctx is, the driver cancels at the server what f is doing; a
// server that does not react to it is left after closeGrace.
func (s *session) do(ctx context.Context, operation string, f func(ctx context.Context) error) error {
	if s.broken || s.closed {
		return &source.Error{Category: source.CategoryBroken, Transient: true, Err: net.ErrClosed}
	}
	if deadline, ok := s.until(ctx); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	stop := context.AfterFunc(ctx, func() { s.link.closeIn(closeGrace) })
	err := f(ctx)
	stop()
	s.link.calm()
	if err == nil {
		return nil
	}
	network := s.link.failure()
	s.abandon()
	if failed := (*visitError)(nil); errors.As(err, &failed) {
		return failed.err
	}
	return classifyRunning(ctx, fmt.Errorf("%s: %w", operation, err), network)
}

// run executes statements whose results don't matter. They hold nothing that anybody sent us.
func (s *session) run(ctx context.Context, operation, statement string) error {
	return s.query(ctx, operation, statement, nil, 0, func([]sqldriver.Value) {})
}

// errNarrow is an answer that no server gives to the statement.
var errNarrow = errors.New("answer has fewer columns than were asked for")

// query runs a statement and hands its rows, of at least so many values, over. They are valid during the call only.
func (s *session) query(ctx context.Context, operation, statement string, args []any, width int, visit func(row []sqldriver.Value)) error {
	return s.do(ctx, operation, func(ctx context.Context) error {
		return s.each(ctx, statement, args, func(row []sqldriver.Value) error {
			if len(row) < width {
				return &source.Error{Category: source.CategoryUnsupported, Err: errNarrow}
			}
			visit(row)
			return ctx.Err()
		})
	})
}

// abandon ends the connection at once. The driver is not told: it would lend the buffer that it may still be reading
// into to the next connection.
func (s *session) abandon() {
	s.broken = true
	s.link.closeAll()
}

// Close ends the session.
func (s *session) Close() error {
	if s.closed {
		return nil
	}
	if s.begun && !s.broken {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		s.deadline = time.Time{} // the farewell has a limit of its own
		_ = s.run(ctx, "roll back", "ROLLBACK TRANSACTION")
	}
	if !s.broken {
		s.link.closeIn(closeGrace)
		_ = s.conn.Close() // with a farewell that may have nobody to hear it
		s.link.calm()
	}
	s.closed = true
	s.link.closeAll()
	return nil
}
