package embedded

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

func TestSample(t *testing.T) { //nolint:tparallel // its parts use one server, in order
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	first, err := p.CreateSample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dsn := Database{
		Name: first.DatabaseName, User: first.UserName, Password: first.Password, Host: first.Host, Port: first.Port,
	}.DSN()

	t.Run("rows", func(t *testing.T) {
		counts := map[string]int{}
		for _, table := range []string{
			"customers", "transactions", `"order"`, "reporting.ledger", `reporting."Weird Name"`, "reporting.customer_totals",
		} {
			counts[table] = query[int](t, dsn, "SELECT count(*) FROM "+table)
		}
		want := map[string]int{
			"customers": 2000, "transactions": SampleRows, `"order"`: 5000, "reporting.ledger": 3000,
			`reporting."Weird Name"`: 200, "reporting.customer_totals": 2000,
		}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	// Other rows are another sample: change sampleMark with these digests.
	t.Run("the same everywhere", func(t *testing.T) {
		digests := map[string]string{}
		for _, table := range []string{"customers", "transactions", `"order"`, "reporting.ledger", `reporting."Weird Name"`} {
			digests[table] = query[string](t, dsn,
				`SELECT md5(string_agg(md5(r::text), '' ORDER BY r::text COLLATE "C")) FROM `+table+` r`)
		}
		want := map[string]string{
			"customers":              "18e227066dae00542b8e5094ee96d9aa",
			"transactions":           "c9d40546f7bed29d7085946a12000bd0",
			`"order"`:                "29796fac9e0b9b9a8c602895bc7bb786",
			"reporting.ledger":       "30d4febbd14dffadb38c73269250d0f4",
			`reporting."Weird Name"`: "12db52bb939abe7318a9157b75046561",
		}
		if diff := cmp.Diff(want, digests); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	t.Run("every family of types", func(t *testing.T) {
		types := query[[]string](t, dsn, `SELECT array_agg(DISTINCT format_type(t.oid, NULL) ORDER BY format_type(t.oid, NULL))
			FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid
			WHERE a.attnum > 0 AND c.relkind = 'r' AND c.relnamespace IN ('public'::regnamespace, 'reporting'::regnamespace)`)
		want := []string{
			"account_kind", "bigint", "boolean", "bytea", "character", "character varying", "date", "double precision",
			"inet", "integer", "integer[]", "interval", "json", "jsonb", "numeric", "real", "smallint", "text", "text[]",
			"time without time zone", "timestamp with time zone", "timestamp without time zone", "tstzrange", "uuid",
		}
		if diff := cmp.Diff(want, types); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	t.Run("its user may create schemas and databases", func(t *testing.T) {
		execute(t, dsn, `CREATE SCHEMA mine; CREATE TABLE mine.t (a int); DROP SCHEMA mine CASCADE`)
		execute(t, dsn, `CREATE DATABASE mine`)
		execute(t, dsn, `DROP DATABASE mine`)
		if query[bool](t, dsn, `SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user`) {
			t.Error("it may more than that")
		}
	})

	t.Run("again after a restart", func(t *testing.T) {
		execute(t, dsn, `UPDATE customers SET email = 'changed' WHERE id = (SELECT id FROM customers ORDER BY id LIMIT 1)`)
		stop(t, p)
		p = start(t, PostgresOptions{Dir: dir, Unsafe: true})
		second, err := p.CreateSample(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
		if got := query[int](t, dsn, `SELECT count(*) FROM customers WHERE email = 'changed'`); got != 1 {
			t.Error("the user's own change is gone")
		}
	})
}

func TestEnsureDatabase(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	a, err := p.EnsureDatabase(t.Context(), "a", "Owner of a", RoleCreateDB, RoleCreateRole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.EnsureDatabase(t.Context(), "b", "b")
	if err != nil {
		t.Fatal(err)
	}
	if !query[bool](t, a.DSN(), `SELECT rolcreatedb AND rolcreaterole AND NOT rolsuper FROM pg_roles WHERE rolname = current_user`) {
		t.Error("the rights asked for are not there")
	}
	if query[bool](t, b.DSN(), `SELECT rolcreatedb OR rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user`) {
		t.Error("rights that weren't asked for")
	}
	execute(t, b.DSN(), `CREATE TABLE t (a int)`)
	crossing := b
	crossing.Name = a.Name
	if conn, crossed := pgx.Connect(t.Context(), crossing.DSN()); crossed == nil {
		_ = conn.Close(t.Context())
		t.Error("one owner can connect to the other's database")
	}
	again, err := p.EnsureDatabase(t.Context(), "a", "Owner of a", RoleCreateDB, RoleCreateRole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, again); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}
