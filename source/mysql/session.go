package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fetcherhq/fetcher/source"
)

// closeGrace bounds how long Close waits for a statement to be ended, and limitGrace how long the server may take to end
// one itself when the snapshot's time is over.
const (
	closeGrace = 3 * time.Second
	limitGrace = time.Second
)

// Numbers of the server's errors: a setting it does not have, a statement it does not understand, and what relatives
// say of anything.
const (
	unknownVariable = 1193
	syntaxError     = 1064
	unknownError    = 1105
)

// What Begin returns.
const (
	consistent = "snapshot"
	unknown    = "unknown" // a relative of MySQL, whose transactions may be anything
)

// session is one connection. After a failure that leaves an answer unread it is good for Close only.
type session struct {
	link     *link
	wire     *wire
	end      func() // of the connection
	schema   string // whose tables have bare names
	only     bool   // no other schema is listed
	maria    bool
	id       uint64 // of the connection, at the server
	begun    bool
	deadline time.Time // of the snapshot; zero: none

	closed    bool
	abandoned chan struct{} // set when an answer was left unread; closed when the server has been told
}

// open connects and finds out what the server is.
func open(ctx context.Context, l *link) (*session, *source.Error) {
	w, end, err := l.connect(ctx)
	if err != nil {
		l.closeAll()
		return nil, classify(ctx, fmt.Errorf("connect: %w", err), true)
	}
	l.established(w)
	s := &session{link: l, wire: w, end: end, schema: l.params.Database}
	if l.params.Schema != "" {
		s.schema, s.only = l.params.Schema, true
	}
	if err := s.identify(ctx); err != nil {
		_ = s.Close()
		return nil, classify(ctx, err, true)
	}
	return s, nil
}

// identify asks for version and number of the connection.
func (s *session) identify(ctx context.Context) error {
	var version string
	err := s.query(ctx, "identify", "SELECT VERSION(), CONNECTION_ID()", nil, 2, func(row [][]byte) {
		version = string(row[0])
		s.id, _ = strconv.ParseUint(string(row[1]), 10, 64)
	})
	if err != nil {
		return err
	}
	s.maria = strings.Contains(version, "MariaDB")
	if oldest := [2]int{5, 7}; tooOld(version, s.maria, oldest) {
		return &source.Error{Category: source.CategoryUnsupported, Err: errors.New("server version is too old")}
	}
	return nil
}

// tooOld reports whether a version like 8.0.36 or 10.11.6-MariaDB-log is older than what we need.
func tooOld(version string, maria bool, oldest [2]int) bool {
	if maria {
		oldest = [2]int{10, 3}
	}
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 {
		return false // what relatives say is not known
	}
	return major < oldest[0] || (major == oldest[0] && minor < oldest[1])
}

// Ping runs one trivial query.
func (s *session) Ping(ctx context.Context) error {
	return s.query(ctx, "ping", "SELECT 1", nil, 1, func([][]byte) {})
}

// Begin starts the snapshot, which holds everything that was committed to tables of transactional engines. A relative
// of MySQL that has no such snapshot is read in an ordinary transaction.
func (s *session) Begin(ctx context.Context, deadline time.Time) (string, error) {
	if s.begun {
		return "", &source.Error{Category: source.CategoryOther, Err: errors.New("snapshot begun twice")}
	}
	s.deadline = deadline
	consistency, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	s.begun = true
	return consistency, nil
}

// begin starts a transaction with every setting that what is read depends on.
func (s *session) begin(ctx context.Context) (consistency string, err error) {
	for _, sql := range []string{
		"SET NAMES utf8mb4",
		"SET SESSION sql_mode = '', time_zone = '+00:00', sql_select_limit = 9223372036854775807, autocommit = 1",
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	} {
		if err = s.run(ctx, "set", sql); err != nil {
			return "", err
		}
	}
	// Who reads slowly is not gone; and IS NULL finds nothing but nulls.
	for _, sql := range []string{"SET SESSION net_write_timeout = 3600", "SET SESSION sql_auto_is_null = 0", "SET SESSION sql_big_selects = 1"} {
		if err = s.optional(ctx, sql); err != nil {
			return "", err
		}
	}
	if err = s.limit(ctx); err != nil {
		return "", err
	}
	if err = s.run(ctx, "begin", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"); refused(err, syntaxError, unknownError) {
		return unknown, s.run(ctx, "begin", "START TRANSACTION READ ONLY")
	}
	return consistent, err
}

// limit limits the next statements to the time left until the snapshot's or the context's deadline, whichever is first;
// an error if none is left. Without a deadline the server's own limit stays.
func (s *session) limit(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !s.deadline.IsZero() && (!ok || s.deadline.Before(deadline)) {
		deadline, ok = s.deadline, true
	}
	if !ok {
		return nil
	}
	left := time.Until(deadline).Milliseconds()
	if left <= 0 {
		return &source.Error{Category: source.CategoryTimeout, Transient: true, Err: context.DeadlineExceeded}
	}
	const most = 365 * 24 * time.Hour / time.Millisecond
	left = min(left, int64(most))
	if s.maria {
		return s.optional(ctx, fmt.Sprintf("SET SESSION max_statement_time = %d.%03d", left/1000, left%1000))
	}
	return s.optional(ctx, fmt.Sprintf("SET SESSION max_execution_time = %d", left))
}

// run executes a statement without a result. It holds nothing that anybody sent us.
func (s *session) run(ctx context.Context, operation, sql string) error {
	return s.talk(ctx, operation, func() error { return s.wire.exec(sql) })
}

// optional is run for a setting that relatives of MySQL may not have.
func (s *session) optional(ctx context.Context, sql string) error {
	if err := s.run(ctx, "set", sql); !refused(err, unknownVariable) {
		return err
	}
	return nil
}

// refused reports whether the server said one of these.
func refused(err error, numbers ...uint16) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && slices.Contains(numbers, server.Number)
}

// talk has f send a command and read the whole answer, as long as ctx lasts. Only an error of the server leaves the
// session usable.
func (s *session) talk(ctx context.Context, operation string, f func() error) error {
	if s.closed || s.abandoned != nil {
		return &source.Error{Category: source.CategoryBroken, Transient: true, Err: net.ErrClosed}
	}
	if !s.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.deadline.Add(limitGrace))
		defer cancel()
	}
	release := s.watch(ctx)
	err := f()
	release()
	if err == nil {
		return nil
	}
	if whole := (*mysql.MySQLError)(nil); !errors.As(err, &whole) {
		s.abandon(ctx)
	}
	return classify(ctx, fmt.Errorf("%s: %w", operation, err), false)
}

// watch ends reading and writing when ctx ends. The function it returns must be called afterwards.
func (s *session) watch(ctx context.Context) (release func()) {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = s.wire.conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-fired
			_ = s.wire.conn.SetDeadline(time.Time{})
		}
	}
}

// abandon ends the connection under a running statement, at the server too, without anybody waiting for it but Close.
func (s *session) abandon(ctx context.Context) {
	s.abandoned = make(chan struct{})
	go func() {
		defer close(s.abandoned)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		if s.id != 0 {
			_ = s.link.kill(patience, s.id) // it may be gone already, or not reachable any more
		}
		s.link.closeAll()
		s.end()
	}()
}

// Close ends the session. A statement that is being ended gets a moment to go; a server that doesn't answer is left
// alone.
func (s *session) Close() error {
	if s.abandoned != nil {
		<-s.abandoned // takes closeGrace at most
		return nil
	}
	if s.closed {
		return nil
	}
	s.closed = true
	_ = s.wire.conn.SetDeadline(time.Now().Add(closeGrace))
	s.end()
	s.link.closeAll()
	return nil
}
