package testkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func query[T any](t *testing.T, dsn, statement string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var value T
	if err := conn.QueryRow(t.Context(), statement).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestDatabasesAreEmptyAndApart(t *testing.T) {
	t.Parallel()
	pg := Postgres(t)
	a, b := pg.NewDatabase(t), pg.NewDatabase(t)
	tables := `SELECT count(*)::int FROM pg_class WHERE relnamespace = 'public'::regnamespace`
	if got := query[int](t, a, tables); got != 0 {
		t.Errorf("a new database holds %d relations", got)
	}
	pgExec(t, a, `CREATE TABLE mine (); CREATE SCHEMA other`)
	if got := query[int](t, b, tables); got != 0 {
		t.Errorf("another database shows %d relations", got)
	}
	type facts struct{ Owner, Super, CreateDB, Encoding string }
	got := query[[]string](t, a, `SELECT ARRAY[pg_get_userbyid(datdba) = current_user, rolsuper, rolcreatedb]::text[]
		|| pg_encoding_to_char(encoding)::text
		FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user`)
	if diff := cmp.Diff(facts{"true", "false", "false", "UTF8"}, facts{got[0], got[1], got[2], got[3]}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDatabaseOptions(t *testing.T) {
	t.Parallel()
	d := Postgres(t).CreateDatabase(t, DatabaseOptions{CreateDB: true, CreateRole: true, Superuser: true})
	if !query[bool](t, d.DSN, `SELECT rolsuper AND rolcreatedb AND rolcreaterole FROM pg_roles WHERE rolname = current_user`) {
		t.Error("rights are missing")
	}
}

func TestDatabasesAreDropped(t *testing.T) { //nolint:tparallel // looks at what the subtest left
	t.Parallel()
	pg := Postgres(t)
	var d Database
	t.Run("use", func(t *testing.T) {
		d = pg.CreateDatabase(t, DatabaseOptions{CreateDB: true})
		pgExec(t, d.DSN, `CREATE DATABASE "`+d.Name+` Second"`)
		left, err := pgx.Connect(t.Context(), d.DSN) // a connection that the test forgets
		if err != nil {
			t.Fatal(err)
		}
		_ = left
	})
	got := query[int](t, pg.AdminDSN(), `SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE '`+d.Name+`%')::int
		+ (SELECT count(*) FROM pg_roles WHERE rolname = '`+d.Owner+`')::int`)
	if got != 0 {
		t.Errorf("%d databases and roles are left", got)
	}
}

func TestServerOfOneTest(t *testing.T) { //nolint:tparallel // looks at what the subtest left
	t.Parallel()
	var path string
	t.Run("use", func(t *testing.T) {
		s := NewServer(t)
		path = s.dir.path
		dsn := s.NewDatabase(t)
		pgExec(t, dsn, `CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)`)
		s.Restart()
		if got := query[int](t, dsn, `SELECT a FROM kept`); got != 1 {
			t.Errorf("data = %d", got)
		}
		s.Kill()
		if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
			_ = conn.Close(t.Context())
			t.Error("a killed server answers")
		}
		s.Start()
		if got := query[int](t, dsn, `SELECT a FROM kept`); got != 1 {
			t.Errorf("data = %d", got)
		}
	})
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

// Not parallel: it changes the environment.
func TestServerAtAddress(t *testing.T) {
	given := NewServer(t)
	t.Setenv(DatabaseURL, given.AdminDSN())
	var other sharedServer
	pg, err := other.start()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(given.AdminDSN(), pg.AdminDSN()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := other.stop(); err != nil {
		t.Fatal(err)
	}
	if query[int](t, given.NewDatabase(t), `SELECT 1`) != 1 {
		t.Error("a server that isn't ours was stopped")
	}
}

func TestStartAfterStop(t *testing.T) {
	t.Parallel()
	var s sharedServer
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.start(); err == nil {
		t.Error("a server was started that nobody will stop")
	}
}

func TestStaleDirectories(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{tempPrefix + "old": 25 * time.Hour, tempPrefix + "new": time.Hour, "other": 99 * time.Hour} {
		path := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(parent, now.Add(-24*time.Hour))
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	left := make([]string, 0, len(entries))
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if diff := cmp.Diff([]string{tempPrefix + "new", "other"}, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExecRunsAsAdministrator(t *testing.T) {
	t.Parallel()
	pg := Postgres(t)
	d := pg.CreateDatabase(t, DatabaseOptions{})
	pg.Exec(t, "ALTER ROLE "+d.Owner+" NOLOGIN")
	_, err := pgx.Connect(t.Context(), d.DSN)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "28000" {
		t.Errorf("error = %v, want 28000", err)
	}
}

func pgExec(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
