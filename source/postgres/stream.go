package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fetcherhq/fetcher/source"
)

var (
	errChanged = errors.New("table is not any more what the catalogue told of it")
	errShort   = errors.New("server counted other rows than it sent")
)

// Stream runs q in the snapshot. When it fails the statement is cancelled at the server and the session is good for
// Close only.
func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	if !s.begun {
		return &source.Error{Category: source.CategoryOther, Err: errors.New("no snapshot to read from")}
	}
	statement, err := newStatement(q)
	if err != nil {
		return &source.Error{Category: source.CategoryOther, Err: err}
	}
	limit, err := s.timeout(ctx)
	if err != nil {
		return err
	}
	if limit != "" {
		if err = s.run(ctx, "limit", limit); err != nil {
			return err
		}
	}
	if err = s.conn.SyncConn(ctx); err != nil { // from here on we read ourselves
		return classify(ctx, err, false)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Conn().SetDeadline(time.Unix(1, 0)) })
	whole, err := s.read(statement, q.Spill, visit)
	stop()
	if !whole {
		s.abandon(ctx)
	}
	if failed := (*visitError)(nil); errors.As(err, &failed) {
		return failed.err
	}
	if err != nil {
		return classify(ctx, fmt.Errorf("read: %w", err), false)
	}
	return nil
}

// visitError tells the visitor's failure from those of the source.
type visitError struct{ err error }

func (e *visitError) Error() string { return e.err.Error() }

// read sends the statement and reads its result. It tells whether the server's answer was read to its end, which it
// may be with an error.
func (s *session) read(statement *statement, spill func([]byte) error, visit func(source.Row) error) (whole bool, err error) {
	if err := statement.send(s.conn.Frontend()); err != nil {
		return false, err
	}
	if s.wire == nil {
		s.wire = newWire(s.conn.Conn())
	}
	c := &cursor{wire: s.wire, row: &row{columns: statement.columns, wire: s.wire, spill: spill}, visit: visit}
	c.filtered = len(statement.values) > 0
	for !c.ready {
		if err := c.step(); err != nil {
			if c.failure != nil { // the server's last words before it hung up
				return false, c.failure
			}
			return false, err
		}
	}
	if err := s.wire.finish(); err != nil {
		return false, err
	}
	if c.failure == nil && pgconn.NewCommandTag(c.tag).RowsAffected() != c.rows {
		c.failure = &source.Error{Category: source.CategoryBroken, Transient: true, Err: errShort}
	}
	return true, c.failure
}

// send writes the statement to the server, as an unnamed one, in one go.
func (s *statement) send(to *pgproto3.Frontend) error {
	to.SendParse(&pgproto3.Parse{Query: s.sql.String(), ParameterOIDs: s.oids})
	to.SendBind(&pgproto3.Bind{Parameters: s.values, ResultFormatCodes: s.formats})
	to.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
	to.SendExecute(&pgproto3.Execute{})
	to.SendSync(&pgproto3.Sync{})
	return to.Flush()
}

// cursor reads the messages of one result.
type cursor struct {
	wire  *wire
	row   *row
	visit func(source.Row) error

	filtered bool // the statement has parameters

	rows    int64
	tag     string // how the server says the statement ended
	failure error  // what the server says went wrong
	ready   bool   // nothing more will come
	bound   bool   // the server took the parameters
}

// step reads one message.
func (c *cursor) step() error {
	kind, size, err := c.wire.header()
	if err != nil {
		return err
	}
	switch kind {
	case 'D':
		return c.visitRow(size)
	case 'T':
		return c.describe(size)
	case 'C':
		var done pgproto3.CommandComplete
		err = c.wire.decode(size, &done)
		c.tag = string(done.CommandTag)
		return err
	case 'E':
		var failure pgproto3.ErrorResponse
		if err = c.wire.decode(size, &failure); err == nil && c.failure == nil {
			c.failure = c.serverError(pgconn.ErrorResponseToPgError(&failure))
		}
		return err
	case 'Z':
		c.ready = true
		return c.wire.skip(size)
	case '2':
		c.bound = true
		return c.wire.skip(size)
	case '1', 'n', 'N', 'S', 'A': // parsed, no columns; notices, settings, notifications
		return c.wire.skip(size)
	}
	return errProtocol
}

// serverError tells the refusal of a parameter from all else that the server may say.
func (c *cursor) serverError(e *pgconn.PgError) error {
	if c.filtered && !c.bound {
		if refused := inputError(e); refused != nil {
			return refused
		}
	}
	return e
}

// describe checks that the values will come as planned.
func (c *cursor) describe(size int) error {
	var fields pgproto3.RowDescription
	if err := c.wire.decode(size, &fields); err != nil {
		return err
	}
	same := slices.EqualFunc(fields.Fields, c.row.columns, func(f pgproto3.FieldDescription, planned column) bool {
		return f.DataTypeOID == planned.typ.oid
	})
	if !same {
		return &source.Error{Category: source.CategoryObject, Transient: true, Err: errChanged}
	}
	return nil
}

func (c *cursor) visitRow(size int) error {
	if err := c.row.begin(size); err != nil {
		return err
	}
	c.rows++
	if err := c.visit(c.row); err != nil {
		return &visitError{err: err}
	}
	return c.row.end()
}
