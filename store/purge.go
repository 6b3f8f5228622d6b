package store

import (
	"context"
	"database/sql"
)

// Purge drops everything that this package's migrations made in the tenant's database, with all data; the database itself
// and what others made in it stay. ErrForeign: it is another tenant's, and nothing is dropped. What is gone already is no
// error. db must allow two connections.
func Purge(ctx context.Context, db *sql.DB, tenantID string) error {
	s, err := set()
	if err != nil {
		return err
	}
	current, _, err := Version(ctx, db)
	if err != nil || current == 0 {
		return err
	}
	// A database that is behind has no owner yet, perhaps.
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	if err := Own(ctx, db, tenantID); err != nil {
		return err
	}
	return s.Locked(ctx, db, func(ctx context.Context) error { return s.Down(ctx, db) })
}
