package mysql

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestCatalogColumns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE TABLE c (a int NOT NULL, b varchar(20) NOT NULL, n decimal(10,2), u bigint unsigned, e enum('sad','it''s'), j json, at timestamp(3) NULL, dt datetime, tm time(6), "+
		"y year, m mediumint, one bit(1), nine bit(9), s set('a','b'), bin varbinary(5), g point, id uuid, PRIMARY KEY (b, a))")
	catalog := sourcetest.Catalog(t, sourcetest.Open(t, New(), f.params()), source.Scope{})
	want := []source.Column{
		{Name: "a", Type: "int(11)", Family: source.FamilyInt, PrimaryKey: true, Position: 1, Bits: 32},
		{Name: "b", Type: "varchar(20)", Family: source.FamilyText, PrimaryKey: true, Position: 2},
		{Name: "n", Type: "decimal(10,2)", Family: source.FamilyDecimal, Nullable: true, Position: 3, Precision: 10, Scale: 2},
		{Name: "u", Type: "bigint(20) unsigned", Family: source.FamilyInt, Nullable: true, Position: 4, Bits: 64, Unsigned: true},
		{Name: "e", Type: "enum('sad','it''s')", Family: source.FamilyEnum, Nullable: true, Position: 5, Labels: []string{"sad", "it's"}},
		{Name: "j", Type: "longtext", Family: source.FamilyJSON, Nullable: true, Position: 6},
		{Name: "at", Type: "timestamp(3)", Family: source.FamilyTimestampTZ, Nullable: true, Position: 7, Fraction: 6},
		{Name: "dt", Type: "datetime", Family: source.FamilyTimestamp, Nullable: true, Position: 8, Fraction: 6},
		{Name: "tm", Type: "time(6)", Family: source.FamilyTime, Nullable: true, Position: 9, Fraction: 6, Wide: true},
		{Name: "y", Type: "year(4)", Family: source.FamilyInt, Nullable: true, Position: 10, Bits: 16},
		{Name: "m", Type: "mediumint(9)", Family: source.FamilyInt, Nullable: true, Position: 11, Bits: 32},
		{Name: "one", Type: "bit(1)", Family: source.FamilyBool, Nullable: true, Position: 12},
		{Name: "nine", Type: "bit(9)", Family: source.FamilyBinary, Nullable: true, Position: 13},
		{Name: "s", Type: "set('a','b')", Family: source.FamilyText, Nullable: true, Position: 14},
		{Name: "bin", Type: "varbinary(5)", Family: source.FamilyBinary, Nullable: true, Position: 15},
		{Name: "g", Type: "point", Family: source.FamilyOther, Nullable: true, Position: 16},
		{Name: "id", Type: "uuid", Family: source.FamilyUUID, Nullable: true, Position: 17},
	}
	if diff := cmp.Diff(want, catalog.Tables[0].Columns, cmpopts.IgnoreFields(source.Column{}, "Native"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

// TestCatalogTables lists what reads like a table, and reads it.
func TestCatalogTables(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		"CREATE TABLE parted (id int, day date) PARTITION BY RANGE (YEAR(day)) (PARTITION p0 VALUES LESS THAN (2024), PARTITION p1 VALUES LESS THAN MAXVALUE)",
		"INSERT INTO parted VALUES (1, '2023-05-01'), (2, '2024-05-01')",
		"CREATE TABLE versioned (id int) WITH SYSTEM VERSIONING", "INSERT INTO versioned VALUES (3)",
		"CREATE TABLE isam (id int) ENGINE = MyISAM", "INSERT INTO isam VALUES (4)",
		"CREATE SEQUENCE seq", "CREATE TABLE gone (id int)", "CREATE VIEW dangling AS SELECT id FROM gone", "DROP TABLE gone",
		"CREATE VIEW computed AS SELECT id + 1 AS n, CONCAT('x', id) AS s, NULL AS nothing, 1.50 AS d, NOW() > '2000-01-01' AS b FROM isam",
		"CREATE TABLE `dots.in` (id int)", "CREATE TABLE hidden (id int INVISIBLE, v int DEFAULT 1)", "INSERT INTO hidden (id) VALUES (5)",
		"CREATE TABLE generated (id int, twice int AS (id * 2))", "INSERT INTO generated (id) VALUES (6)")
	s, catalog := f.begun()
	if diff := cmp.Diff([]string{"computed", "dots.in", "generated", "hidden", "isam", "parted", "versioned"}, tableNames(catalog)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, want := range map[string][]string{
		"parted": {`{"id":1,"day":"2023-05-01"}`, `{"id":2,"day":"2024-05-01"}`}, "versioned": {`{"id":3}`}, "isam": {`{"id":4}`},
		"computed": {`{"n":5,"s":"x4","nothing":null,"d":"1.50","b":1}`}, "hidden": {`{"id":5,"v":1}`}, "generated": {`{"id":6,"twice":12}`},
	} {
		if diff := cmp.Diff(want, sourcetest.Read(t, s, catalog, name, []string{"*"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func tableNames(c *source.Catalog) []string {
	names := make([]string, len(c.Tables))
	for i, t := range c.Tables {
		names[i] = t.Name
	}
	return names
}

// TestCatalogAmbiguous has two tables that differ in case only.
func TestCatalogAmbiguous(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE TABLE `Orders` (id int)", "CREATE TABLE orders (id int)")
	s := sourcetest.Open(t, New(), f.params())
	for _, scope := range []source.Scope{{}, {Tables: []string{"ORDERS", "orders"}}} {
		catalog := sourcetest.Catalog(t, s, scope)
		if _, err := catalog.Resolve("ORDERS"); !errors.Is(err, source.ErrTableAmbiguous) {
			t.Errorf("ORDERS: %v", err)
		}
		if table, err := catalog.Resolve("Orders"); err != nil || table.Base != "Orders" {
			t.Errorf("Orders: %v, %v", table, err)
		}
	}
}

// TestCatalogRights lists what another user may read and no more.
func TestCatalogRights(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE TABLE open_t (id int)", "CREATE TABLE secret_t (id int)", "CREATE TABLE half (id int, secret text, name text)", "INSERT INTO half VALUES (1, 's', 'n')")
	server := testkit.MariaDB(t)
	reader := f.Name + "_r"
	t.Cleanup(func() { server.Exec(t, "DROP USER '"+reader+"'") })
	server.Exec(t, "CREATE USER '"+reader+"' IDENTIFIED BY 'p'", "GRANT SELECT ON `"+f.Name+"`.open_t TO '"+reader+"'", "GRANT SELECT (id, name) ON `"+f.Name+"`.half TO '"+reader+"'")
	p := f.params()
	p.User, p.Password = reader, "p"
	s := sourcetest.Open(t, New(), p)
	begin(t, s)
	catalog := sourcetest.Catalog(t, s, source.Scope{})
	if diff := cmp.Diff([]string{"half", "open_t"}, tableNames(catalog)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"id":1,"name":"n"}`}, sourcetest.Read(t, s, catalog, "half", []string{"*"})); diff != "" {
		t.Errorf("half (-want +got):\n%s", diff)
	}
	server.Exec(t, "REVOKE SELECT ON `"+f.Name+"`.open_t FROM '"+reader+"'")
	err := s.Stream(context.Background(), sourcetest.Query(t, catalog, "open_t", []string{"*"}), func(source.Row) error { return nil })
	sourcetest.WantError(t, err, source.CategoryRights, false)
}

// TestCatalogOfThousands bounds what a large database costs: 5,000 tables with 60,000 columns, at most five queries.
func TestCatalogOfThousands(t *testing.T) {
	if testing.Short() {
		t.Skip("creates 5,000 tables")
	}
	t.Parallel()
	// MEMORY tables are one small file each.
	f := newFixture(t, "SET sql_mode = 'PIPES_AS_CONCAT'", `BEGIN NOT ATOMIC FOR i IN 0..4999 DO EXECUTE IMMEDIATE 'CREATE TABLE t' || i || ' (id int PRIMARY KEY, a char(9), b decimal(10,2),
		c datetime, d date, e uuid, f varchar(99) CHECK (json_valid(f)), g varbinary(9), h bit(1), i double, j bigint, k varchar(20)) ENGINE = MEMORY'; END FOR; END`)
	p := f.params()
	p.TLS.Mode = "false" // for the statements to be seen
	counter := &countingDialer{}
	s, err := New().Open(context.Background(), p, counter)
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	t.Cleanup(func() { _ = s.Close() })
	before := counter.executed.Load()
	start := time.Now()
	catalog := sourcetest.Catalog(t, s, source.Scope{})
	took := time.Since(start)
	if n := counter.executed.Load() - before; n > 5 {
		t.Errorf("%d queries", n)
	}
	columns := 0
	for _, table := range catalog.Tables {
		columns += len(table.Columns)
	}
	t.Logf("%d tables, %d columns in %v", len(catalog.Tables), columns, took)
	if len(catalog.Tables) != 5000 || columns != 60000 {
		t.Errorf("%d tables, %d columns", len(catalog.Tables), columns)
	}
	if c, err := catalog.Tables[17].Column("f"); err != nil || c.Family != source.FamilyJSON {
		t.Errorf("json: %+v, %v", c, err)
	}
	one := sourcetest.Catalog(t, s, source.Scope{Tables: []string{"T4711"}})
	if len(one.Tables) != 1 || len(one.Tables[0].Columns) != 12 {
		t.Errorf("targeted: %d tables", len(one.Tables))
	}
}

// countingDialer counts the queries that are sent.
type countingDialer struct{ executed atomic.Int64 }

type countingConn struct {
	net.Conn

	d *countingDialer
}

func (d *countingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &countingConn{conn, d}, err
}

func (c *countingConn) Write(b []byte) (int, error) {
	if len(b) > headerSize && b[headerSize] == comExecute {
		c.d.executed.Add(1)
	}
	return c.Conn.Write(b)
}

// TestChecked takes columns out of checks.
func TestChecked(t *testing.T) {
	t.Parallel()
	for clause, want := range map[string]string{
		"json_valid(`j`)": "j", "json_valid(`a``b`)": "a`b", "json_valid(`a`) and json_valid(`b`)": "", "length(`j`) > 1": "", "json_valid(`j`) or 1": "",
	} {
		if got, ok := checkedColumn(clause); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", clause, got, ok)
		}
	}
}
