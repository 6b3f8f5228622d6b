package extract_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/testkit"
)

// live is a bench whose datasources read a real database.
type live struct {
	*bench

	params source.Params
	conn   *pgx.Conn
}

func newLive(t testing.TB, statements ...string) *live {
	t.Helper()
	db := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	l := &live{bench: newBench(t), params: source.Params{
		Kind: source.PostgreSQL, Host: db.Host, Port: db.Port, Database: db.Name, User: db.Owner, Password: db.Password,
	}}
	guard, err := dial.NewGuard(dial.Policy{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Drivers, l.Dialer = source.Drivers{source.PostgreSQL: postgres.New()}, guard
	if l.conn, err = pgx.Connect(t.Context(), db.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.conn.Close(context.Background()) })
	for _, s := range statements {
		if _, err := l.conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return l
}

// ds asks for tables of the database under a name.
func (l *live) ds(name string, tables ...string) extract.Datasource {
	d := ds(name, 0, tables...)
	d.Params = l.params
	return d
}

const wideTable = `CREATE TABLE wide AS SELECT g AS id, repeat(md5(g::text), 512 * 1024) AS filler FROM generate_series(1, 3) g`

// Rows of 16 MiB pass, one at a time.
func TestWideRowsFromPostgres(t *testing.T) {
	t.Parallel()
	l := newLive(t, wideTable)
	got, err := l.run(t, job(l.ds("d", "wide")))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]map[string][]struct {
		ID     int    `json:"id"`
		Filler string `json:"filler"`
	}
	if err := json.Unmarshal([]byte(l.read(t, got.Facts)), &doc); err != nil {
		t.Fatal(err)
	}
	for i, r := range doc["d"]["wide"] {
		if r.ID != i+1 || len(r.Filler) != 16<<20 {
			t.Errorf("row %d: id %d, %d bytes", i, r.ID, len(r.Filler))
		}
	}
}

// A server that ends the session in the middle leaves no object.
func TestTerminatedInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLive(t, `CREATE TABLE t AS SELECT g AS id, md5(g::text) AS d FROM generate_series(1, 300000) g`)
	killed := false
	_, err := l.Run(t.Context(), job(l.ds("d", "t")), func(p extract.Progress) {
		if !killed {
			killed = true
			if _, err := l.conn.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'fetcher'`); err != nil {
				t.Error(err)
			}
		}
	})
	var f *extract.Failure
	if !errors.As(err, &f) || !f.Transient || f.Table != "t" {
		t.Errorf("failure %v", err)
	}
	if left := l.files(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// What the database can't evaluate is not what it can't be reached for, and not the filter's fault; the log tells
// the server's code and nothing else of its words.
func TestQueryFailsAtTheSource(t *testing.T) {
	t.Parallel()
	l := newLive(t, `CREATE TABLE n AS SELECT 1 AS id, 'hunter2'::text AS s`,
		`CREATE VIEW planned AS SELECT id, 1/0 AS v FROM n`, `CREATE VIEW run AS SELECT id, 1/(id-1) AS v FROM n`,
		`CREATE VIEW cast_v AS SELECT id, s::int AS v FROM n`, `CREATE VIEW many AS SELECT id, (SELECT g FROM generate_series(1, 2) g) AS v FROM n`,
		`CREATE FUNCTION no() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hunter2'; END $$`, `CREATE VIEW raised AS SELECT id, no() AS v FROM n`)
	for name, state := range map[string]string{"planned": "22012", "run": "22012", "cast_v": "22P02", "many": "21000", "raised": "P0001"} {
		for _, filtered := range []bool{false, true} {
			j := job(l.ds("d", name))
			j.Key = uuid.NewString()
			if filtered {
				where(&j, name, "id", "eq", "1")
			}
			_, err := l.Run(t.Context(), j, func(extract.Progress) {})
			var f *extract.Failure
			if !errors.As(err, &f) || f.Code != problem.JobRefused || f.Transient || f.Table != name {
				t.Errorf("%s, filtered %v: %v", name, filtered, err)
				continue
			}
			want := `extract: FET-1029: the database could not evaluate the query: datasource "d", table "` + name + `": source: value (SQLSTATE ` + state + ")"
			if f.Error() != want {
				t.Errorf("%s: log %q, want %q", name, f.Error(), want)
			}
		}
	}
}

// A name that two tables are listed by reads neither.
func TestCollidingNames(t *testing.T) {
	t.Parallel()
	l := newLive(t, `CREATE SCHEMA a`, `CREATE SCHEMA "a.b"`, `CREATE TABLE a."b.c" (one int)`, `CREATE TABLE "a.b".c (two int)`)
	_, err := l.run(t, job(l.ds("d", "a.b.c")))
	var f *extract.Failure
	if !errors.As(err, &f) || f.Code != problem.JobUnknownField || f.Message != `several tables have the name: datasource "d", table "a.b.c"` {
		t.Errorf("failure %v", err)
	}
}

// BenchmarkPostgres extracts 200,000 rows of mixed types.
func BenchmarkPostgres(b *testing.B) {
	l := newLive(b, mixed(200_000))
	rows := int64(0)
	for b.Loop() {
		j := job(l.ds("d", "big"))
		j.Key = uuid.NewString()
		r, err := l.Run(b.Context(), j, func(extract.Progress) {})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(r.Facts.SizeBytes)
		rows += r.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func mixed(rows int) string {
	return `CREATE TABLE big AS SELECT g::bigint AS id, md5(g::text)::uuid AS account,
		(g * 1.37)::numeric(18,2) AS amount, timestamptz '2020-01-01Z' + g * interval '61.017 second' AS created_at,
		'note number ' || g || CASE WHEN g % 10 = 0 THEN ' – “é” "q"' ELSE '' END AS note, g % 3 = 0 AS flag,
		g / 7.0::float8 AS ratio, date '2020-01-01' + g % 1000 AS day,
		CASE WHEN g % 4 > 0 THEN jsonb_build_object('k', g, 't', 'x') END AS meta
		FROM generate_series(1, ` + strconv.Itoa(rows) + `) g`
}
