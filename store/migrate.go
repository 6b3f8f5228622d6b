package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/fetcherhq/fetcher/store/internal/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

func set() (migrate.Set, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return migrate.Set{}, fmt.Errorf("embedded migrations: %w", err)
	}
	return migrate.Set{FS: files, Table: "fetcher_tenant_version", Lock: 0x66657463_0001}, nil
}

// Migrate brings a tenant's database to the newest version. It is idempotent, and any number of callers may try at
// once: one works, the others wait for it as long as ctx lasts. db must allow two connections.
func Migrate(ctx context.Context, db *sql.DB) error {
	s, err := set()
	if err != nil {
		return err
	}
	current, latest, err := Version(ctx, db)
	if err != nil {
		return err
	}
	if current >= latest {
		return nil
	}
	return s.Locked(ctx, db, func(ctx context.Context) error { return s.Up(ctx, db) })
}

// Version returns the schema version a tenant's database is at, 0 for an empty one, and the newest this program
// knows. A current one above latest belongs to a newer release.
func Version(ctx context.Context, db *sql.DB) (current, latest int64, err error) {
	s, err := set()
	if err != nil {
		return 0, 0, err
	}
	if latest, err = s.Latest(); err != nil {
		return 0, 0, err
	}
	current, err = s.Version(ctx, db)
	return current, latest, err
}
