package store

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// RowReader reads single rows past GORM and database/sql, which cost a read by its key several times what the driver
// does. It must reach the same database as the *sql.DB beside it.
type RowReader interface {
	// ReadRow runs a statement whose one parameter is the id, and scans its first row into the destinations, column by
	// column; sql.ErrNoRows when there is none. The statement only reads: it may be sent again when a connection turns
	// out dead. Statements are few and constant: each may be kept prepared.
	ReadRow(ctx context.Context, statement string, id uuid.UUID, into ...any) error
}

// readPool is a *sql.DB for GORM that knows of the other way.
type readPool struct {
	*sql.DB

	rows RowReader
}

// GetDBConn is for GORM, which looks for the *sql.DB.
func (p *readPool) GetDBConn() (*sql.DB, error) { return p.DB, nil }

// readRow reads one row by the shortest way that db has: in a transaction that is its own connection.
func readRow(ctx context.Context, db *gorm.DB, statement string, id uuid.UUID, into ...any) error {
	if db.Error != nil {
		return db.Error
	}
	if pool, ok := db.Statement.ConnPool.(*readPool); ok {
		return pool.rows.ReadRow(ctx, statement, id, into...)
	}
	return db.Statement.ConnPool.QueryRowContext(ctx, statement, id).Scan(into...)
}
