package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/fetcherhq/fetcher/source"
)

var errChanged = errors.New("table is not any more what the catalogue told of it")

// Stream runs q in the snapshot. When it leaves an answer unread the statement is ended at the server and the session
// is good for Close only.
func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	if !s.begun {
		return &source.Error{Category: source.CategoryOther, Err: errors.New("no snapshot to read from")}
	}
	statement, err := newStatement(q)
	if err != nil {
		return classify(ctx, err, false)
	}
	if err = s.limit(ctx); err != nil {
		return err
	}
	r := &row{columns: statement.columns, wire: s.wire, spill: q.Spill}
	err = s.talk(ctx, "read", func() error {
		return s.wire.run(statement.sql.String(), statement.params, r, func() error {
			if failed := visit(r); failed != nil {
				return &visitError{err: failed}
			}
			return nil
		})
	})
	if failed := (*visitError)(nil); errors.As(err, &failed) {
		return failed.err
	}
	return err
}

// visitError tells the visitor's failure from those of the source.
type visitError struct{ err error }

func (e *visitError) Error() string { return e.err.Error() }

// query runs a statement of our own, which yields so many columns, and hands its rows over as text. They are valid
// during the call only.
func (s *session) query(ctx context.Context, operation, sql string, params []param, columns int, visit func(row [][]byte)) error {
	return s.talk(ctx, operation, func() error {
		r := &row{wire: s.wire, own: true, columns: make([]column, columns)}
		return s.wire.run(sql, params, r, func() error {
			visit(r.texts())
			return nil
		})
	})
}

// run prepares and executes a statement and has every row visited. Its error is one of the server, after which the
// wire is at the end of the answer, or any other, after which it is not.
func (w *wire) run(sql string, params []param, r *row, visit func() error) error {
	id, err := w.prepare(sql, len(params))
	if err != nil {
		return err
	}
	err = w.execute(id, params, r, visit)
	if whole := (*mysql.MySQLError)(nil); err != nil && !errors.As(err, &whole) {
		return err
	}
	if closing := w.command(comClose, binary.LittleEndian.AppendUint32(nil, id)); closing != nil {
		return closing
	}
	w.shrink()
	return err
}

// prepare returns the number of the statement.
func (w *wire) prepare(sql string, params int) (id uint32, err error) {
	if err = w.command(comPrepare, []byte(sql)); err != nil {
		return 0, err
	}
	body, err := w.packet()
	if err != nil {
		return 0, err
	}
	const size = 9
	switch {
	case body[0] == headerError:
		return 0, serverError(body)
	case body[0] != headerOK || len(body) < size:
		return 0, errProtocol
	}
	id = binary.LittleEndian.Uint32(body[1:])
	columns := int(binary.LittleEndian.Uint16(body[5:]))
	if int(binary.LittleEndian.Uint16(body[7:])) != params {
		return 0, errProtocol
	}
	for _, n := range []int{params, columns} {
		for range n {
			if _, err = w.packet(); err != nil {
				return 0, err
			}
		}
		if n > 0 {
			if err = w.endOfColumns(); err != nil {
				return 0, err
			}
		}
	}
	return id, nil
}

// endOfColumns reads the packet that older servers send behind columns.
func (w *wire) endOfColumns() error {
	if !w.plainEOF {
		return nil
	}
	body, err := w.packet()
	if err == nil && body[0] != headerEnd {
		return errProtocol
	}
	return err
}

// execute runs a prepared statement and has every row visited.
func (w *wire) execute(id uint32, params []param, r *row, visit func() error) error {
	if err := w.command(comExecute, executeBody(id, params)); err != nil {
		return err
	}
	body, err := w.packet()
	if err != nil {
		return err
	}
	if body[0] == headerError {
		return serverError(body)
	}
	n, size := number(body)
	if size != len(body) || n != uint64(len(r.columns)) {
		return errProtocol
	}
	if err = w.describe(r); err != nil {
		return err
	}
	for {
		size, err := w.header()
		if err != nil {
			return err
		}
		more, err := r.begin(size)
		if err != nil || !more {
			return err
		}
		if err = visit(); err != nil {
			return err
		}
		if err = r.end(); err != nil {
			return err
		}
	}
}

// describe reads the columns of a result and checks that the values will come as planned. Those of our own statements
// are texts, however they come.
func (w *wire) describe(r *row) error {
	var failed error
	for i := range r.columns {
		body, err := w.packet()
		if err != nil {
			return err
		}
		wireType, flags, charset, err := columnOf(body)
		if err != nil {
			return err
		}
		if !r.columns[i].bind(wireType, flags, charset) {
			failed = &source.Error{Category: source.CategoryObject, Transient: true, Err: fmt.Errorf("%w: column %d", errChanged, i)}
		}
	}
	if failed != nil && !r.own {
		return failed
	}
	return w.endOfColumns()
}

// columnOf takes the description of a column apart.
func columnOf(body []byte) (wireType byte, flags, charset uint16, err error) {
	const names = 6 // catalogue, schema, table and column, each also as it was before aliases
	for range names {
		var ok bool
		if _, body, ok = text(body); !ok {
			return 0, 0, 0, errProtocol
		}
	}
	const fixed = 10
	if len(body) < 1+fixed {
		return 0, 0, 0, errProtocol
	}
	return body[7], binary.LittleEndian.Uint16(body[8:]), binary.LittleEndian.Uint16(body[1:]), nil
}
