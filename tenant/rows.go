package tenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rowReader reads single rows straight from a pool's connections, with the waits and errors of its connector.
type rowReader struct{ conns *connector }

// sends is how often a statement is sent at most, as database/sql does.
const sends = 3

// ReadRow is store.RowReader's.
func (r rowReader) ReadRow(ctx context.Context, statement string, id uuid.UUID, into ...any) error {
	for n := 1; ; n++ {
		err := r.readOnce(ctx, statement, id, n == 1, into)
		if err == nil || n == sends || !mayRepeat(err) {
			return err
		}
	}
}

// mayRepeat reports whether a connection had ended while it was idle, or a prepared statement does not hold any more:
// because a migration has changed a column's type, or because it is on another server connection after all.
func mayRepeat(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code == planOutdated || answer.Code == noStatement
	}
	return pgconn.SafeToRetry(err)
}

const (
	planOutdated = "0A000" // feature_not_supported: "cached plan must not change result type"
	noStatement  = "26000" // invalid_sql_statement_name
)

func (r rowReader) readOnce(ctx context.Context, statement string, id uuid.UUID, prepare bool, into []any) error {
	conn, err := r.conns.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	mode := pgx.QueryExecModeCacheDescribe
	if prepare && direct(conn.Conn()) {
		mode = pgx.QueryExecModeCacheStatement
	}
	// As bytes, for pgx would first ask the type itself how it is sent, and get a text to parse.
	rows, err := conn.Query(ctx, statement, mode, [16]byte(id))
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err = rows.Err(); err == nil {
			err = sql.ErrNoRows
		}
		return err
	}
	if err = rows.Scan(into...); err != nil {
		return fmt.Errorf("scan row: %w", err)
	}
	rows.Close()
	return rows.Err()
}

const directKey = "fetcher.direct"

// markDirect notes on a new connection whether it ends at the server. Poolers make up the process id that they tell at the
// start, because one connection of theirs may be served by many; between a prepared statement and its use it may change.
func markDirect(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return fmt.Errorf("ask for process id: %w", err)
	}
	if pid == conn.PgConn().PID() {
		conn.PgConn().CustomData()[directKey] = true
	}
	return nil
}

func direct(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[directKey] != nil }
