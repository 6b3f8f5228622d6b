package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/source"
)

// Stream runs q in the snapshot. When visit fails or ctx ends, the statement is cancelled at the server and the session
// is good for Close only.
func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	if !s.begun {
		return &source.Error{Category: source.CategoryOther, Err: errors.New("no snapshot begun")}
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
		if err := s.run(ctx, "limit", limit); err != nil {
			return err
		}
	}
	// Ending the context of the query is what cancels it.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	result := s.conn.ExecParams(running, statement.sql.String(), statement.values, statement.oids, nil, statement.formats)
	rows, err := visitAll(result, statement.columns, visit)
	if err == nil {
		return finish(ctx, result, rows)
	}
	cancel()
	_, _ = result.Close() // its error is that of the cancelled context
	return err
}

var (
	errChanged = errors.New("table is not any more what the catalogue told of it")
	errShort   = errors.New("server counted other rows than it sent")
)

// visitAll calls visit for each row and counts them. Its error is visit's or one of a value; whether the result is
// whole is for finish to say.
func visitAll(result *pgconn.ResultReader, columns []column, visit func(source.Row) error) (int64, error) {
	r := &row{columns: columns}
	rows := int64(0)
	for result.NextRow() {
		if rows == 0 && !sameTypes(result.FieldDescriptions(), columns) {
			return 0, &source.Error{Category: source.CategoryObject, Transient: true, Err: errChanged}
		}
		rows++
		r.values = result.Values()
		if err := visit(r); err != nil {
			return rows, err
		}
		if r.err != nil {
			return rows, &source.Error{Category: source.CategoryValue, Err: r.err}
		}
	}
	return rows, nil
}

// sameTypes reports whether the values come as planned.
func sameTypes(fields []pgconn.FieldDescription, columns []column) bool {
	return slices.EqualFunc(fields, columns, func(f pgconn.FieldDescription, c column) bool {
		return f.DataTypeOID == c.typ.oid
	})
}

// finish ends the result and returns the cursor's final error. The server's own count must agree with ours.
func finish(ctx context.Context, result *pgconn.ResultReader, rows int64) error {
	tag, err := result.Close()
	if err != nil {
		return classify(ctx, fmt.Errorf("read: %w", err), false)
	}
	if tag.RowsAffected() != rows {
		return &source.Error{Category: source.CategoryBroken, Transient: true, Err: errShort}
	}
	return nil
}
