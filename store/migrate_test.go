package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/store"
)

func TestMigrateIsIdempotentAndSafeConcurrently(t *testing.T) {
	t.Parallel()
	db := newSQL(t)
	current, latest, err := store.Version(t.Context(), db)
	if err != nil || current != 0 || latest < 1 {
		t.Fatalf("empty database: version %d of %d, %v", current, latest, err)
	}
	var group errgroup.Group
	for range 8 {
		group.Go(func() error { return store.Migrate(t.Context(), db) })
	}
	if err = group.Wait(); err != nil {
		t.Fatal(err)
	}
	if current, _, err = store.Version(t.Context(), db); err != nil || current != latest {
		t.Fatalf("migrated database: version %d of %d, %v", current, latest, err)
	}
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var applied int
	row := db.QueryRowContext(t.Context(), "SELECT count(*) FROM fetcher_tenant_version WHERE version_id > 0")
	if err := row.Scan(&applied); err != nil || applied != len(files) {
		t.Fatalf("%d migrations recorded, want %d: %v", applied, len(files), err)
	}
}

func TestMigrateWaitsForTheLockNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	db := newSQL(t)
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback() }()
	if _, err := holder.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock($1)", int64(0x66657463_0001)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := store.Migrate(ctx, db); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the context's error", err)
	}
	if current, _, err := store.Version(t.Context(), db); err != nil || current != 0 {
		t.Fatalf("version %d, %v", current, err)
	}
}
