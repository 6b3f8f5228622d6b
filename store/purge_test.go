package store_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/store"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	db := newSQL(t)
	if err := store.Purge(t.Context(), db, "acme"); err != nil {
		t.Errorf("of an empty database: %v", err)
	}
	if err := store.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := store.Own(t.Context(), db, "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE others (v int)`); err != nil {
		t.Fatal(err)
	}
	if err := store.Purge(t.Context(), db, "globex"); !errors.Is(err, store.ErrForeign) {
		t.Errorf("by another tenant: %v, want ErrForeign", err)
	}
	for range 2 {
		if err := store.Purge(t.Context(), db, "acme"); err != nil {
			t.Fatal(err)
		}
		var left string
		err := db.QueryRowContext(t.Context(), `SELECT array_agg(name)::text FROM (
			SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace
			UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
			UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype = 'e') names`).Scan(&left)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("{others}", left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	}
	if err := store.Migrate(t.Context(), db); err != nil {
		t.Errorf("migrating again: %v", err)
	}
}
