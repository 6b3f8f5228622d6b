package store_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/store"
)

func TestADatabaseHasOneOwner(t *testing.T) {
	t.Parallel()
	db := newSQL(t)
	if err := store.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var won atomic.Int64
	var winner atomic.Value
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 8 {
		group.Go(func() error {
			id := "tenant-" + strconv.Itoa(i)
			err := store.Own(ctx, db, id)
			if err == nil {
				won.Add(1)
				winner.Store(id)
			} else if !errors.Is(err, store.ErrForeign) {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if won.Load() != 1 {
		t.Fatalf("%d tenants own the database", won.Load())
	}
	if err := store.Own(t.Context(), db, winner.Load().(string)); err != nil {
		t.Errorf("its owner asked again: %v", err)
	}
}

func TestVacant(t *testing.T) {
	t.Parallel()
	empty, taken, ours := newSQL(t), newSQL(t), newSQL(t)
	if _, err := taken.ExecContext(t.Context(), "CREATE SCHEMA s; CREATE TABLE s.theirs (id int)"); err != nil {
		t.Fatal(err)
	}
	if err := store.Migrate(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	if err := store.Vacant(t.Context(), empty); err != nil {
		t.Errorf("an empty database: %v", err)
	}
	if err := store.Vacant(t.Context(), ours); err != nil {
		t.Errorf("a tenant's database: %v", err)
	}
	if err := store.Vacant(t.Context(), taken); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("a database with tables: %v, want ErrNotEmpty", err)
	}
}
