package store_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newSQL returns an empty database, with statements run as the router runs them.
func newSQL(t *testing.T) *sql.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(testkit.Postgres(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// newDB returns a migrated tenant database.
func newDB(t *testing.T) *gorm.DB {
	t.Helper()
	db := newSQL(t)
	if err := store.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	g, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
