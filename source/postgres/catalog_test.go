package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
)

// namesDDL makes tables of every sort with names that need care.
func namesDDL() []string {
	return []string{
		`CREATE SCHEMA sales`, `CREATE SCHEMA "Mixed Schema"`, `CREATE SCHEMA "dots.in"`,
		`CREATE TABLE plain (id int PRIMARY KEY, v text)`,
		`CREATE TABLE "MixedCase" ("Id" int, "vAlue" text)`,
		`CREATE TABLE "select" ("from" int)`,
		`CREATE TABLE "with space" ("a b" int)`,
		`CREATE TABLE "quo""te" ("q""q" int)`,
		`CREATE TABLE "cash$" ("$1" int)`,
		`CREATE TABLE "größe_表" ("größe" int, "列" text)`,
		`CREATE TABLE nothing_in_it ()`, `INSERT INTO nothing_in_it DEFAULT VALUES`, `CREATE TABLE "pg_custom" (id int)`, `CREATE TABLE "sql_orders" (id int)`,
		`CREATE TABLE sales.plain (id int)`, `CREATE TABLE "Mixed Schema"."T" (id int)`, `CREATE TABLE "dots.in"."a.b" (id int)`,
		`CREATE TABLE "sales.plain" (id int, odd int)`,
		`CREATE VIEW v_plain AS SELECT id, v FROM plain`,
		`CREATE MATERIALIZED VIEW m_plain AS SELECT id FROM plain`,
		`CREATE TABLE parted (id int, day date) PARTITION BY RANGE (day)`,
		`CREATE TABLE parted_2024 PARTITION OF parted FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')`,
		`CREATE SEQUENCE seq`, `CREATE INDEX idx ON plain (v)`, `CREATE TYPE comp AS (a int)`,
		`CREATE TEMP TABLE temporary (id int)`,
		`INSERT INTO plain VALUES (1, 'x')`, `INSERT INTO "MixedCase" VALUES (2, 'y')`, `INSERT INTO "select" VALUES (3)`,
		`INSERT INTO "with space" VALUES (4)`, `INSERT INTO "quo""te" VALUES (5)`, `INSERT INTO "cash$" VALUES (6)`,
		`INSERT INTO "größe_表" VALUES (7, '値')`, `INSERT INTO sales.plain VALUES (8)`, `INSERT INTO "Mixed Schema"."T" VALUES (9)`,
		`INSERT INTO "dots.in"."a.b" VALUES (10)`, `INSERT INTO "sales.plain" VALUES (11, 12)`, `INSERT INTO parted VALUES (13, '2024-06-01')`,
		`REFRESH MATERIALIZED VIEW m_plain`,
	}
}

func TestCatalogNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t, namesDDL()...)
	s, catalog := f.begun()

	names := tableNames(catalog)
	want := []string{
		"Mixed Schema.T", "MixedCase", "cash$", "dots.in.a.b", "größe_表", "m_plain", "nothing_in_it", "parted", "parted_2024", "pg_custom",
		"plain", "public.sales.plain", `quo"te`, "sales.plain", "select", "sql_orders", "v_plain", "with space",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}

	reads := map[string]string{
		"plain": `{"id":1,"v":"x"}`, "public.plain": `{"id":1,"v":"x"}`, "PLAIN": `{"id":1,"v":"x"}`, "Public.Plain": `{"id":1,"v":"x"}`,
		"MixedCase": `{"Id":2,"vAlue":"y"}`, "mixedcase": `{"Id":2,"vAlue":"y"}`, "select": `{"from":3}`, "with space": `{"a b":4}`,
		`quo"te`: `{"q\"q":5}`, "cash$": `{"$1":6}`, "größe_表": `{"größe":7,"列":"値"}`, "GRÖßE_表": `{"größe":7,"列":"値"}`,
		"sales.plain": `{"id":8}`, "SALES.PLAIN": `{"id":8}`, "Mixed Schema.T": `{"id":9}`, "mixed schema.t": `{"id":9}`, "dots.in.a.b": `{"id":10}`,
		"public.sales.plain": `{"id":11,"odd":12}`, "nothing_in_it": `{}`, "v_plain": `{"id":1,"v":"x"}`, "m_plain": `{"id":1}`,
		"parted": `{"id":13,"day":"2024-06-01"}`, "parted_2024": `{"id":13,"day":"2024-06-01"}`,
	}
	for name, row := range reads {
		if diff := cmp.Diff([]string{row}, read(t, s, catalog, name, []string{"*"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		targeted := catalogOf(t, s, source.Scope{Tables: []string{name}})
		if diff := cmp.Diff([]string{row}, read(t, s, targeted, name, []string{"*"})); diff != "" {
			t.Errorf("targeted %s (-want +got):\n%s", name, diff)
		}
		if len(targeted.Tables) > 2 {
			t.Errorf("targeted %s: %d tables", name, len(targeted.Tables))
		}
	}
	if diff := cmp.Diff([]string{`{"vAlue":"y","Id":2}`}, read(t, s, catalog, "MixedCase", []string{"VALUE", "id"})); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	for _, name := range []string{"temporary", "idx", "seq", "comp", "pg_class", "information_schema.tables", "nothing", ""} {
		if _, err := catalog.Resolve(name); !errors.Is(err, source.ErrTableUnknown) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := catalogOf(t, s, source.Scope{Tables: []string{"nothing"}}); len(got.Tables) != 0 {
		t.Errorf("tables for an unknown name: %v", got.Tables)
	}
}

func tableNames(c *source.Catalog) []string {
	names := make([]string, len(c.Tables))
	for i, t := range c.Tables {
		names[i] = t.Name
	}
	return names
}

func TestCatalogAmbiguous(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE "Orders" (id int, "ID" int)`, `CREATE TABLE orders (id int)`)
	s := f.open()
	for _, scope := range []source.Scope{{}, {Tables: []string{"ORDERS", "orders"}}} {
		catalog := catalogOf(t, s, scope)
		if _, err := catalog.Resolve("ORDERS"); !errors.Is(err, source.ErrTableAmbiguous) {
			t.Errorf("ORDERS: %v", err)
		}
		table, err := catalog.Resolve("Orders")
		if err != nil || table.Base != "Orders" {
			t.Fatalf("Orders: %v, %v", table, err)
		}
		if _, err := table.Column("Id"); !errors.Is(err, source.ErrColumnAmbiguous) {
			t.Errorf("Id: %v", err)
		}
		if _, err := table.Select([]string{"id", "ID", "id"}); !errors.Is(err, source.ErrColumnRepeated) {
			t.Errorf("id twice: %v", err)
		}
	}
}

// TestCatalogCollisions refuses a name that two tables are listed by, and reads what other names tell apart.
func TestCatalogCollisions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE SCHEMA a`, `CREATE SCHEMA "a.b"`, `CREATE TABLE a."b.c" (one int)`, `CREATE TABLE "a.b".c (two int)`,
		`CREATE TABLE "a.b.c" (three int)`, `INSERT INTO "a.b.c" VALUES (3)`)
	s, catalog := f.begun()
	for _, name := range []string{"a.b.c", "A.b.c"} {
		for _, c := range []*source.Catalog{catalog, catalogOf(t, s, source.Scope{Tables: []string{name}})} {
			if table, err := c.Resolve(name); !errors.Is(err, source.ErrTableAmbiguous) {
				t.Errorf("%s: %+v, %v", name, table, err)
			}
		}
	}
	targeted := catalogOf(t, s, source.Scope{Tables: []string{"public.a.b.c"}})
	for _, c := range []*source.Catalog{catalog, targeted} {
		if diff := cmp.Diff([]string{`{"three":3}`}, read(t, s, c, "public.a.b.c", []string{"*"})); diff != "" {
			t.Errorf("public.a.b.c (-want +got):\n%s", diff)
		}
	}
}

func TestCatalogSchema(t *testing.T) {
	t.Parallel()
	f := newFixture(t, namesDDL()...)
	p := f.params()
	p.Schema = "sales"
	for name, catalog := range map[string]*source.Catalog{
		"of the connection": catalogOf(t, openWith(t, p, dialer()), source.Scope{}),
		"of the scope":      catalogOf(t, f.open(), source.Scope{Schema: "sales"}),
	} {
		if len(catalog.Tables) != 1 || catalog.Tables[0].Name != "plain" || catalog.DefaultSchema != "sales" {
			t.Errorf("%s: %+v", name, catalog)
		}
		for _, spelling := range []string{"plain", "sales.plain"} {
			if table, err := catalog.Resolve(spelling); err != nil || table.Schema != "sales" {
				t.Errorf("%s, %s: %v", name, spelling, err)
			}
		}
		if _, err := catalog.Resolve("public.plain"); !errors.Is(err, source.ErrTableUnknown) {
			t.Errorf("%s: public.plain: %v", name, err)
		}
	}
}

func TestCatalogColumns(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		`CREATE TYPE mood AS ENUM ('sad', 'ok')`, `CREATE DOMAIN price AS numeric(12,3) NOT NULL`, `CREATE DOMAIN label AS varchar(10)`,
		`CREATE TABLE c (gone int, a int NOT NULL, b text, "n" numeric(10,2), d price, e mood, l label, arr int[], j jsonb, at timestamptz, m money,
			neg numeric(5, -2), PRIMARY KEY (b, a))`,
		`ALTER TABLE c DROP COLUMN gone`)
	catalog := catalogOf(t, f.open(), source.Scope{})
	want := []source.Column{
		{Name: "a", Type: "integer", Family: source.FamilyInt, PrimaryKey: true, Position: 1, Bits: 32},
		{Name: "b", Type: "text", Family: source.FamilyText, PrimaryKey: true, Position: 2},
		{Name: "n", Type: "numeric(10,2)", Family: source.FamilyDecimal, Nullable: true, Position: 3, Precision: 10, Scale: 2, Wide: true},
		{Name: "d", Type: "price", Family: source.FamilyDecimal, Position: 4, Precision: 12, Scale: 3, Wide: true},
		{Name: "e", Type: "mood", Family: source.FamilyEnum, Nullable: true, Position: 5, Labels: []string{"sad", "ok"}},
		{Name: "l", Type: "label", Family: source.FamilyText, Nullable: true, Position: 6},
		{Name: "arr", Type: "integer[]", Family: source.FamilyArray, Nullable: true, Position: 7},
		{Name: "j", Type: "jsonb", Family: source.FamilyJSON, Nullable: true, Position: 8},
		{Name: "at", Type: "timestamp with time zone", Family: source.FamilyTimestampTZ, Nullable: true, Position: 9, Fraction: 6, Wide: true},
		{Name: "m", Type: "money", Family: source.FamilyDecimal, Nullable: true, Position: 10, Scale: 2},
		{Name: "neg", Type: "numeric(5,-2)", Family: source.FamilyDecimal, Nullable: true, Position: 11, Precision: 5, Scale: -2, Wide: true},
	}
	ignore := cmpopts.IgnoreFields(source.Column{}, "Native")
	if diff := cmp.Diff(want, catalog.Tables[0].Columns, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

// TestCatalogRights lists what another user may read and no more.
func TestCatalogRights(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		`CREATE SCHEMA closed`, `CREATE TABLE closed.t (id int)`, `CREATE TABLE open_t (id int)`, `CREATE TABLE secret_t (id int)`,
		`CREATE TABLE half (id int, secret text, name text)`, `INSERT INTO half VALUES (1, 's', 'n')`)
	reader := f.Name + "_reader"
	pg := testkit.Postgres(t)
	t.Cleanup(func() {
		f.exec(`DROP OWNED BY ` + reader)
		pg.Exec(t, "REVOKE CONNECT ON DATABASE "+f.Name+" FROM "+reader, "DROP ROLE "+reader)
	})
	pg.Exec(t, "CREATE ROLE "+reader+" LOGIN PASSWORD 'p'", "GRANT CONNECT ON DATABASE "+f.Name+" TO "+reader,
		"GRANT "+reader+" TO "+f.Owner) // who may take its rights away again then
	f.exec(`GRANT USAGE ON SCHEMA public TO `+reader, `GRANT SELECT ON open_t TO `+reader, `GRANT SELECT (id, name) ON half TO `+reader, `GRANT SELECT ON closed.t TO `+reader)

	p := f.params()
	p.User, p.Password = reader, "p"
	s := openWith(t, p, dialer())
	begin(t, s)
	catalog := catalogOf(t, s, source.Scope{})
	if diff := cmp.Diff([]string{"half", "open_t"}, tableNames(catalog)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"id":1,"name":"n"}`}, read(t, s, catalog, "half", []string{"*"})); diff != "" {
		t.Errorf("half (-want +got):\n%s", diff)
	}

	f.exec(`REVOKE SELECT ON open_t FROM ` + reader)
	err := s.Stream(context.Background(), queryOf(t, catalog, "open_t", []string{"*"}), func(source.Row) error { return nil })
	wantError(t, err, source.CategoryRights, false)
}

// TestForeignTable reads a table of another database through the server.
func TestForeignTable(t *testing.T) {
	t.Parallel()
	far := newFixture(t, `CREATE TABLE far (id int, v numeric)`, `INSERT INTO far VALUES (1, 1.50)`)
	d := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{Superuser: true})
	f := &fixture{t: t, Database: d}
	f.exec(`CREATE EXTENSION postgres_fdw`,
		fmt.Sprintf(`CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname '%s')`, far.Host, far.Port, far.Name),
		fmt.Sprintf(`CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user '%s', password '%s')`, far.Owner, far.Password),
		`CREATE FOREIGN TABLE near (id int, v numeric) SERVER far OPTIONS (table_name 'far')`)
	s, catalog := f.begun()
	if diff := cmp.Diff([]string{`{"id":1,"v":"1.50"}`}, read(t, s, catalog, "near", []string{"*"})); diff != "" {
		t.Errorf("near (-want +got):\n%s", diff)
	}
}

// TestCatalogOfThousands bounds what a large database costs: 5,000 tables with 60,000 columns, at most five queries.
func TestCatalogOfThousands(t *testing.T) {
	if testing.Short() {
		t.Skip("creates 5,000 tables")
	}
	t.Parallel()
	f := newFixture(t)
	for chunk := range 50 {
		f.exec(fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP
			EXECUTE format('CREATE TABLE t%%s (id int PRIMARY KEY, a text, b numeric(10,2), c timestamptz, d date, e uuid, f jsonb, g text[], h bool, i float8, j bigint, k varchar(20))', i);
		END LOOP; END $$`, chunk*100+1, chunk*100+100))
	}
	s := f.open()
	start := time.Now()
	catalog := catalogOf(t, s, source.Scope{})
	took := time.Since(start)
	columns := 0
	for _, table := range catalog.Tables {
		columns += len(table.Columns)
	}
	t.Logf("%d tables, %d columns in %v", len(catalog.Tables), columns, took)
	if len(catalog.Tables) != 5000 || columns != 60000 {
		t.Errorf("%d tables, %d columns in %v", len(catalog.Tables), columns, took)
	}
	start = time.Now()
	one := catalogOf(t, s, source.Scope{Tables: []string{"T4711"}})
	if took := time.Since(start); len(one.Tables) != 1 || len(one.Tables[0].Columns) != 12 {
		t.Errorf("targeted: %d tables in %v", len(one.Tables), took)
	}
}
