package sqlserver

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// catalogColumn is a column as the server's catalogue describes it.
type catalogColumn struct {
	name      string
	typ       string // the base type
	assembly  bool
	length    int
	precision int
	scale     int
	notNull   bool
	codePage  int // of texts; 0: not one
	key       bool
}

// catalogTable is a table as the server's catalogue describes it.
type catalogTable struct {
	schema, name string
	partly       bool // rights on single columns
	readable     []int
	columns      []catalogColumn
}

// fixture is a scripted server.
type fixture struct {
	*tds.Server

	t testing.TB
}

const (
	testUser     = "reader"
	testPassword = "p;w'd\"{}=\\ é 😀"
	testDatabase = "le]d;g'er 😀"
)

// newFixture starts a server on which one user reads one database that allows snapshots, with the tables.
func newFixture(t testing.TB, tables ...catalogTable) *fixture {
	t.Helper()
	return newFixtureWith(t, tds.Options{}, tables...)
}

func newFixtureWith(t testing.TB, opts tds.Options, tables ...catalogTable) *fixture {
	t.Helper()
	if opts.User == "" {
		opts.User, opts.Password, opts.Database = testUser, testPassword, testDatabase
	}
	f := &fixture{t: t, Server: tds.New(t, opts)}
	f.database(snapshotOn, 150)
	f.catalog(tables)
	return f
}

// database answers what a session asks about its database.
func (f *fixture) database(state, level int) {
	f.Handle(tds.Statement(databaseSQL), tds.Answer{
		Columns: []tds.Column{{Name: "state", Type: tds.Int()}, {Name: "level", Type: tds.Int().NotNull()}},
		Rows:    [][]any{{state, level}},
	})
}

// catalog answers the queries of the catalogue. It evaluates no conditions.
func (f *fixture) catalog(tables []catalogTable) {
	var objects, columns, rights [][]any
	for i, t := range tables {
		id := 1000 + i
		partly := 0
		if t.partly {
			partly = 1
		}
		objects = append(objects, []any{id, t.schema, t.name, partly})
		for _, n := range t.readable {
			rights = append(rights, []any{id, n})
		}
		for j, c := range t.columns {
			columns = append(columns, c.row(id, j+1))
		}
	}
	number, name := tds.Int(), tds.NVarChar(128)
	f.Handle(tds.Containing(tablesSQL), tds.Answer{
		Columns: []tds.Column{{Name: "object_id", Type: number.NotNull()}, {Name: "schema", Type: name}, {Name: "name", Type: name}, {Name: "partly", Type: number.NotNull()}},
		Rows:    objects,
	})
	f.Handle(tds.Containing(columnsSQL), tds.Answer{
		Columns: []tds.Column{
			{Name: "object_id", Type: number}, {Name: "column_id", Type: number}, {Name: "name", Type: name}, {Name: "type", Type: name}, {Name: "assembly", Type: number},
			{Name: "length", Type: number}, {Name: "precision", Type: number}, {Name: "scale", Type: number}, {Name: "nullable", Type: number}, {Name: "collation", Type: name},
			{Name: "page", Type: number}, {Name: "key", Type: number.NotNull()},
		},
		Rows: columns, Compact: true,
	})
	f.Handle(tds.Containing(rightsSQL), tds.Answer{Columns: []tds.Column{{Name: "object_id", Type: number}, {Name: "column_id", Type: number}}, Rows: rights})
}

func (c catalogColumn) row(table, position int) []any {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	row := []any{table, position, c.name, c.typ, flag(c.assembly), c.length, c.precision, c.scale, flag(!c.notNull), nil, nil, flag(c.key)}
	if c.codePage != 0 {
		row[9], row[10] = "Collation_"+strconv.Itoa(c.codePage), c.codePage
	}
	return row
}

func (f *fixture) params() source.Params {
	return source.Params{
		Kind: source.SQLServer, Host: f.Host(), Port: f.Port(),
		Database: testDatabase, User: testUser, Password: testPassword,
	}
}

// open opens a session, closed when the test ends.
func (f *fixture) open() source.Session {
	f.t.Helper()
	s, err := New().Open(context.Background(), f.params(), &net.Dialer{})
	if err != nil {
		f.t.Fatalf("open: %v", cause(err))
	}
	f.t.Cleanup(func() { _ = s.Close() })
	return s
}

// begun is open with the snapshot begun and the whole catalogue read in it.
func (f *fixture) begun() (source.Session, *source.Catalog) {
	f.t.Helper()
	s := f.open()
	if got, err := s.Begin(context.Background(), time.Now().Add(10*time.Minute)); err != nil || got != "snapshot" {
		f.t.Fatalf("begin: %q, %v", got, cause(err))
	}
	c, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		f.t.Fatalf("catalog: %v", cause(err))
	}
	return s, c
}

// selects returns the statements that read tables, of those that arrived.
func (f *fixture) selects() []tds.Request {
	var out []tds.Request
	for _, r := range f.Requests() {
		if tds.Containing(" FROM [")(r) {
			out = append(out, r)
		}
	}
	return out
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

// read returns the rows of a table as JSON objects.
func read(t testing.TB, s source.Session, q source.Query) ([]string, error) {
	t.Helper()
	var rows []string
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		out := []byte{'{'}
		for i, c := range q.Columns {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(form.AppendString(out, []byte(c.Name)), ':')
			out = r.AppendJSON(out, i)
		}
		out = append(out, '}')
		if !jsontext.Value(out).IsValid() {
			t.Errorf("not JSON: %s", out)
		}
		rows = append(rows, string(out))
		return nil
	})
	return rows, err
}

// cause shows what an error hides from its readers.
func cause(err error) error {
	if e, ok := errors.AsType[*source.Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// wantError checks the category of a failure and that its text tells nothing else.
func wantError(t testing.TB, err error, category source.Category, transient bool) *source.Error {
	t.Helper()
	e, ok := errors.AsType[*source.Error](err)
	if !ok {
		t.Fatalf("want %s, got %v", category, err)
	}
	if e.Category != category || e.Transient != transient {
		t.Errorf("want %s, transient %v; got %s, transient %v: %v", category, transient, e.Category, e.Transient, e.Err)
	}
	want := "source: " + string(e.Category)
	if e.Number != 0 {
		want += " (error " + strconv.Itoa(e.Number) + ")"
	}
	if e.Hint != "" {
		want += ": " + e.Hint
	}
	if e.Error() != want {
		t.Errorf("text tells more than category, number and hint: %q", e.Error())
	}
	return e
}
