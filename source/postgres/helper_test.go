package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// fixture is a database of one test.
type fixture struct {
	testkit.Database

	t testing.TB
}

// newFixture creates a database and runs the statements in it as its owner.
func newFixture(t testing.TB, statements ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, Database: testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})}
	f.exec(statements...)
	return f
}

// exec runs statements as the owner, each on its own.
func (f *fixture) exec(statements ...string) {
	f.t.Helper()
	conn := f.connect()
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			f.t.Fatalf("%v in %s", err, s)
		}
	}
}

// connect opens a connection of the test's own, closed when it ends.
func (f *fixture) connect() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(context.Background(), f.DSN)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (f *fixture) params() source.Params {
	return source.Params{
		Kind: source.PostgreSQL, Host: f.Host, Port: f.Port,
		Database: f.Name, User: f.Owner, Password: f.Password,
	}
}

// open opens a session, closed when the test ends.
func (f *fixture) open() source.Session {
	f.t.Helper()
	return openWith(f.t, f.params(), &net.Dialer{})
}

func openWith(t testing.TB, p source.Params, d source.Dialer) source.Session {
	t.Helper()
	s, err := New().Open(context.Background(), p, d)
	if err != nil {
		t.Fatalf("open: %v", cause(err))
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// begun is open with the snapshot begun and the whole catalogue read in it.
func (f *fixture) begun() (source.Session, *source.Catalog) {
	f.t.Helper()
	s := f.open()
	begin(f.t, s)
	return s, catalogOf(f.t, s, source.Scope{})
}

func begin(t testing.TB, s source.Session) {
	t.Helper()
	got, err := s.Begin(context.Background(), time.Now().Add(time.Minute))
	if err != nil || got != "snapshot" {
		t.Fatalf("begin: %q, %v", got, cause(err))
	}
}

func catalogOf(t testing.TB, s source.Session, scope source.Scope) *source.Catalog {
	t.Helper()
	c, err := s.Catalog(context.Background(), scope)
	if err != nil {
		t.Fatalf("catalog: %v", cause(err))
	}
	return c
}

// read returns the rows of a table as JSON objects, in the server's order.
func read(t testing.TB, s source.Session, c *source.Catalog, table string, fields []string, where ...source.Condition) []string {
	t.Helper()
	q := queryOf(t, c, table, fields, where...)
	var rows []string
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		rows = append(rows, object(q, r))
		return nil
	})
	if err != nil {
		t.Fatalf("stream %s: %v", table, cause(err))
	}
	return rows
}

func queryOf(t testing.TB, c *source.Catalog, table string, fields []string, where ...source.Condition) source.Query {
	t.Helper()
	tab, err := c.Resolve(table)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := tab.Select(fields)
	if err != nil {
		t.Fatal(err)
	}
	predicates, err := source.Compile(tab, where)
	if err != nil {
		t.Fatal(err)
	}
	return source.Query{Table: tab, Columns: columns, Where: predicates}
}

func object(q source.Query, r source.Row) string {
	out := []byte{'{'}
	for i, c := range q.Columns {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(form.AppendString(out, []byte(c.Name)), ':')
		out = r.AppendJSON(out, i)
	}
	return string(append(out, '}'))
}

// cause shows what an error hides from its readers.
func cause(err error) error {
	var e *source.Error
	if asSource(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

func dialer() source.Dialer { return &net.Dialer{} }

// wantError checks the category of a failure and that its text tells nothing else.
func wantError(t testing.TB, err error, category source.Category, transient bool) {
	t.Helper()
	var e *source.Error
	if !asSource(err, &e) {
		t.Fatalf("want %s, got %v", category, err)
	}
	if e.Category != category || e.Transient != transient {
		t.Errorf("want %s, transient %v; got %s, transient %v: %v", category, transient, e.Category, e.Transient, e.Err)
	}
	want := "source: " + string(e.Category)
	if server := (*pgconn.PgError)(nil); errors.As(e.Err, &server) && len(server.Code) == 5 && e.Code == server.Code {
		want += " (SQLSTATE " + server.Code + ")"
	}
	if e.Error() != want {
		t.Errorf("text tells more than category and code: %q", e.Error())
	}
}

// newSuper returns a database whose owner may do anything.
func newSuper(t testing.TB) *fixture {
	t.Helper()
	return &fixture{t: t, Database: testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{Superuser: true})}
}

// literal quotes s for a statement.
func (f *fixture) literal(s string) string {
	f.t.Helper()
	var out string
	if err := f.connect().QueryRow(context.Background(), "SELECT quote_literal($1::text)", s).Scan(&out); err != nil {
		f.t.Fatal(err)
	}
	return out
}
