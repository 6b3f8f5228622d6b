package control

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/fetcherhq/fetcher/store/internal/migrate"
	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

//go:embed migrations/*.sql
var migrations embed.FS

func set() (migrate.Set, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return migrate.Set{}, fmt.Errorf("embedded migrations: %w", err)
	}
	return migrate.Set{FS: files, Table: "fetcher_control_version", Lock: 0x66657463_0002}, nil
}

// Migrate brings the queue's tables and then our own to their newest versions. It is idempotent, and any number of
// processes may try at once: one works, the others wait as long as ctx lasts. pool must allow two connections.
func Migrate(ctx context.Context, pool *pgxpool.Pool) (err error) {
	s, err := set()
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	return s.Locked(ctx, db, func(ctx context.Context) error {
		if err := migrateQueue(ctx, pool); err != nil {
			return err
		}
		return s.Up(ctx, db)
	})
}

func migrateQueue(ctx context.Context, pool *pgxpool.Pool) error {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("queue migrations: %w", err)
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return pgerr.Wrap("apply queue migrations", err)
	}
	return nil
}

// Version returns the version of our own tables, 0 for an empty database, and the newest this program knows.
func Version(ctx context.Context, pool *pgxpool.Pool) (current, latest int64, err error) {
	s, err := set()
	if err != nil {
		return 0, 0, err
	}
	if latest, err = s.Latest(); err != nil {
		return 0, 0, err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func(db *sql.DB) { err = errors.Join(err, db.Close()) }(db)
	current, err = s.Version(ctx, db)
	return current, latest, err
}
