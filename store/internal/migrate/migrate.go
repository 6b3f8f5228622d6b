// Package migrate brings one of our databases to the newest schema version, once, whoever else tries at the same time.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// Set is a sequence of migrations and the table that records which were applied.
type Set struct {
	FS    fs.FS  // *.sql in its root
	Table string // name of the version table
	Lock  int64  // advisory lock of this set
}

// undefinedTable is the SQLSTATE for a version table that is not there yet.
const undefinedTable = "42P01"

// Locked runs fn while it holds the set's advisory lock in db. It waits for the lock as long as ctx lasts.
//
// The lock belongs to a transaction of its own, on a connection of its own, rather than to the session: it works
// through a pooler in transaction mode and is gone with the process that held it. db must allow two connections.
func (s Set) Locked(ctx context.Context, db *sql.DB, fn func(context.Context) error) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return pgerr.Wrap("begin lock transaction", err)
	}
	defer func() {
		if end := tx.Rollback(); end != nil && err == nil {
			err = pgerr.Wrap("end lock transaction", end)
		}
	}()
	// A server that ends idle transactions would end the lock.
	if _, err := tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return pgerr.Wrap("prepare lock transaction", err)
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", s.Lock); err != nil {
		return pgerr.Wrap("take migration lock", err)
	}
	return fn(ctx)
}

// Up applies what is missing. The caller holds the lock.
func (s Set) Up(ctx context.Context, db *sql.DB) error {
	provider, err := s.provider(db)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return pgerr.Wrap("apply migrations", err)
	}
	return nil
}

// Down takes everything back, the version table included. The caller holds the lock.
func (s Set) Down(ctx context.Context, db *sql.DB) error {
	provider, err := s.provider(db)
	if err != nil {
		return err
	}
	if _, err = provider.DownTo(ctx, 0); err != nil {
		return pgerr.Wrap("take migrations back", err)
	}
	_, err = db.ExecContext(ctx, "DROP TABLE "+s.Table)
	return pgerr.Wrap("drop version table", err)
}

// Version returns the version db is at, 0 for an empty one, with a single query.
func (s Set) Version(ctx context.Context, db *sql.DB) (int64, error) {
	var current sql.NullInt64
	err := db.QueryRowContext(ctx, "SELECT max(version_id) FROM "+s.Table+" WHERE is_applied").Scan(&current)
	if pgerr.State(err) == undefinedTable {
		return 0, nil
	}
	if err != nil {
		return 0, pgerr.Wrap("read schema version", err)
	}
	return current.Int64, nil
}

// Latest returns the newest version the set holds.
func (s Set) Latest() (int64, error) {
	names, err := fs.Glob(s.FS, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var latest int64
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration name: %w", err)
		}
		latest = max(latest, version)
	}
	if latest == 0 {
		return 0, errors.New("no migrations")
	}
	return latest, nil
}

func (s Set) provider(db *sql.DB) (*goose.Provider, error) {
	p, err := goose.NewProvider(goose.DialectPostgres, db, s.FS,
		goose.WithTableName(s.Table), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}
