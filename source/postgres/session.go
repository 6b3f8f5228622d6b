package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/source"
)

// closeGrace bounds how long Close waits for a cancelled statement to be gone, and cancelInterval is how often it asks.
const (
	closeGrace     = 3 * time.Second
	cancelInterval = 200 * time.Millisecond
)

// session is one connection. After a failure of Stream it is good for Close only.
type session struct {
	conn     *pgconn.PgConn
	link     *link
	schema   string // whose tables have bare names; empty: public
	begun    bool
	deadline time.Time // of the snapshot; zero: none

	wire      *wire         // of streams, once there was one
	abandoned chan struct{} // set when a stream failed; closed when the server has let go
}

// Ping runs one trivial query.
func (s *session) Ping(ctx context.Context) error {
	return s.run(ctx, "ping", "SELECT 1")
}

// Begin starts the snapshot, which holds everything committed until Begin returns. It is always a whole one.
func (s *session) Begin(ctx context.Context, deadline time.Time) (string, error) {
	if s.begun {
		return "", &source.Error{Category: source.CategoryOther, Err: errors.New("snapshot begun twice")}
	}
	s.deadline = deadline
	if err := s.begin(ctx); err != nil {
		return "", err
	}
	s.begun = true
	return "snapshot", nil
}

// begin starts a transaction with every setting the forms of values depend on. They are local to it: behind a pooler
// the server's session is not ours. The SELECTs take the snapshot.
func (s *session) begin(ctx context.Context) error {
	limit, err := s.timeout(ctx)
	if err != nil {
		return err
	}
	settings := []string{
		"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
		"SET LOCAL application_name = 'fetcher'",
		"SET LOCAL default_transaction_read_only = on",
		"SET LOCAL datestyle = 'ISO, YMD'",
		"SET LOCAL timezone = 'UTC'",
		"SET LOCAL intervalstyle = 'iso_8601'",
		"SET LOCAL extra_float_digits = 3",
		"SET LOCAL bytea_output = 'hex'",
		"SET LOCAL synchronize_seqscans = off", // the same rows in the same order, whoever else reads the table
		limit,
		// A statement whose client is gone would run on until it sends something. Where the server can tell, it looks.
		"SELECT CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 140000 " +
			"AND pg_catalog.version() LIKE '%linux%' " +
			"THEN pg_catalog.set_config('client_connection_check_interval', '2s', true) END",
		// Bytes without an encoding can't be converted: the server would refuse the first that is not ASCII.
		"SELECT pg_catalog.set_config('client_encoding', CASE pg_catalog.current_setting('server_encoding') " +
			"WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, true)",
	}
	return s.run(ctx, "begin", strings.Join(settings, ";"))
}

// timeout returns the statement that limits the next ones to the time left until the snapshot's or the context's
// deadline, whichever is first; an error if none is left. Without a deadline the server's own limit stays.
func (s *session) timeout(ctx context.Context) (string, error) {
	deadline, ok := ctx.Deadline()
	if !s.deadline.IsZero() && (!ok || s.deadline.Before(deadline)) {
		deadline, ok = s.deadline, true
	}
	if !ok {
		return "", nil
	}
	left := time.Until(deadline).Milliseconds()
	if left <= 0 {
		return "", &source.Error{Category: source.CategoryTimeout, Transient: true, Err: context.DeadlineExceeded}
	}
	left = min(left, math.MaxInt32)
	return fmt.Sprintf("SET LOCAL statement_timeout = %d;SET LOCAL idle_in_transaction_session_timeout = %d", left, left), nil
}

// run executes statements whose results don't matter. They hold nothing that anybody sent us.
func (s *session) run(ctx context.Context, operation, sql string) error {
	if err := s.usable(); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, sql).ReadAll(); err != nil {
		return classify(ctx, fmt.Errorf("%s: %w", operation, err), false)
	}
	return nil
}

// usable returns an error once a stream has left the connection behind.
func (s *session) usable() error {
	if s.abandoned != nil {
		return &source.Error{Category: source.CategoryBroken, Transient: true, Err: net.ErrClosed}
	}
	return nil
}

// Close ends the session. A statement that is being cancelled gets a moment to go; a server that doesn't answer is left
// alone.
func (s *session) Close() error {
	defer s.link.closeAll()
	if s.abandoned != nil {
		<-s.abandoned // takes closeGrace at most
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if !s.conn.IsClosed() && !s.conn.IsBusy() && s.conn.TxStatus() != 'I' {
		_ = s.run(ctx, "rollback", "ROLLBACK") // a pooler keeps the server's session
	}
	_ = s.conn.Close(ctx) // the farewell of a connection that may be gone
	s.cancelUntil(ctx, s.conn.CleanupDone())
	return nil
}

// abandon ends the connection under a running statement: it is cancelled, and cancelled again until the server has
// closed the connection, without anybody waiting for it but Close.
func (s *session) abandon(ctx context.Context) {
	s.abandoned = make(chan struct{})
	go func() {
		defer close(s.abandoned)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		conn := s.conn.Conn()
		deadline, _ := patience.Deadline()
		_ = conn.SetDeadline(deadline)
		_ = s.conn.CancelRequest(patience)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			// What is under way has to be read, or closing would reset the connection before the farewell is read.
			_, _ = conn.Write([]byte{'X', 0, 0, 0, lengthSize})
			_, _ = io.Copy(io.Discard, conn)
		}()
		s.cancelUntil(patience, drained)
		s.link.closeAll()
		<-drained
	}()
}

// cancelUntil asks the server to cancel what is running until it is done, at most as long as ctx. One request is not
// enough: it has no effect if it is there before the statement is.
func (s *session) cancelUntil(ctx context.Context, done <-chan struct{}) {
	again := time.NewTicker(cancelInterval)
	defer again.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-again.C:
			_ = s.conn.CancelRequest(ctx)
		}
	}
}
