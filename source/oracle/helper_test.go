package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	oracle "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// answer is what the driver makes of a statement: rows, then an end, an error, or nothing until it is interrupted.
type answer struct {
	rows  [][]sqldriver.Value
	more  func(yield func([]sqldriver.Value) bool) // rows behind those
	err   error                                    // behind the rows
	fails error                                    // before the rows
	stall bool                                     // behind the rows
	width int                                      // 0: that of the first row
}

// executed is a statement with its parameters.
type executed struct {
	sql  string
	args []string
}

// scripted is the answer to statements with a part.
type scripted struct {
	answer

	part string
}

// fake is a connection at the border of the driver. It hands over values as go-ora makes them.
type fake struct {
	t           testing.TB
	mu          sync.Mutex
	answers     []scripted
	log         []executed
	fetched     int
	closed      int
	interrupted chan struct{}
	once        sync.Once
	stalled     chan struct{} // closed once a statement hangs within its rows
	hang        sync.Once
}

func newFake(t testing.TB, tables ...table) *fake {
	f := &fake{t: t, interrupted: make(chan struct{}), stalled: make(chan struct{})}
	f.handle(pingSQL, answer{rows: [][]sqldriver.Value{{"1"}}})
	f.catalog(tables)
	return f
}

// handle answers statements that contain part. The last one that fits counts.
func (f *fake) handle(part string, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, scripted{a, part})
}

func (f *fake) find(query string, args []sqldriver.NamedValue) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := executed{sql: query}
	for i, a := range args {
		if a.Ordinal != i+1 || a.Name != "" {
			f.t.Errorf("argument %d is %+v", i, a)
		}
		e.args = append(e.args, fmt.Sprintf("%T %v", a.Value, a.Value))
	}
	f.log = append(f.log, e)
	for _, a := range slices.Backward(f.answers) {
		if strings.Contains(query, a.part) {
			return a.answer
		}
	}
	return answer{}
}

func (f *fake) QueryContext(_ context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	a := f.find(query, args)
	if a.fails != nil {
		return nil, a.fails
	}
	r := &fakeRows{f: f, a: a, width: a.width}
	if r.width == 0 && len(a.rows) > 0 {
		r.width = len(a.rows[0])
	}
	r.next = make(chan []sqldriver.Value)
	r.stop = make(chan struct{})
	go r.feed()
	return r, nil
}

func (f *fake) ExecContext(_ context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	a := f.find(query, args)
	if a.stall {
		<-f.interrupted
		return nil, canceled()
	}
	return sqldriver.RowsAffected(0), a.fails
}

func (f *fake) BeginTx(_ context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	if opts.ReadOnly || opts.Isolation != 0 {
		return nil, errors.New("readonly transaction is not supported") // connection.go
	}
	f.find("BEGIN", nil)
	return fakeTx{}, nil
}

// fakeTx is a transaction, of which only that it was begun matters.
type fakeTx struct{ sqldriver.Tx }

func (f *fake) Close() error {
	f.closed++
	return nil
}

// canceled is the server's answer to being interrupted.
func canceled() error { return &network.OracleError{ErrCode: 1013} }

// fakeRows is a result.
type fakeRows struct {
	f     *fake
	a     answer
	width int
	next  chan []sqldriver.Value
	stop  chan struct{}
}

func (r *fakeRows) feed() {
	defer close(r.next)
	send := func(row []sqldriver.Value) bool {
		select {
		case r.next <- row:
			return true
		case <-r.stop:
			return false
		case <-r.f.t.Context().Done():
			return false
		}
	}
	for _, row := range r.a.rows {
		if !send(row) {
			return
		}
	}
	if r.a.more != nil {
		r.a.more(send)
	}
}

func (r *fakeRows) Columns() []string { return make([]string, r.width) }

func (r *fakeRows) Close() error {
	close(r.stop)
	return nil
}

func (r *fakeRows) Next(dest []sqldriver.Value) error {
	row, ok := <-r.next
	switch {
	case ok:
		copy(dest, row)
		return nil
	case r.a.stall:
		r.f.hang.Do(func() { close(r.f.stalled) })
		<-r.f.interrupted
		return canceled()
	case r.a.err != nil:
		return r.a.err
	}
	return io.EOF
}

// session is a session on the fake, as one is after the login.
func (f *fake) session() *session {
	f.t.Helper()
	s := &session{link: &link{}, handle: handle{
		connection: f,
		interrupt: func() error {
			f.once.Do(func() { close(f.interrupted) })
			return nil
		},
		fetch: func(n int) { f.fetched = n },
	}}
	if err := s.prepare(context.Background()); err != nil {
		f.t.Fatal(cause(err))
	}
	return s
}

// begun is session with the snapshot begun and the whole catalogue read in it.
func (f *fake) begun() (*session, *source.Catalog) {
	f.t.Helper()
	s := f.session()
	if got, err := s.Begin(context.Background(), time.Now().Add(10*time.Minute)); err != nil || got != "snapshot" {
		f.t.Fatalf("begin: %q, %v", got, cause(err))
	}
	c, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		f.t.Fatalf("catalog: %v", cause(err))
	}
	return s, c
}

// selects returns the statements that read tables.
func (f *fake) selects() []executed {
	var out []executed
	for _, e := range f.log {
		if strings.Contains(e.sql, ` FROM "`) {
			out = append(out, e)
		}
	}
	return out
}

// field is a column as the server's catalogue describes it. Numbers without a value are null there.
type field struct {
	name, typ, owner string
	length, chars    int
	precision, scale string
	notNull, key     bool
}

// table is a table as the server's catalogue describes it.
type table struct {
	schema, name string
	fields       []field
}

const testSchema = "READER"

// catalog answers the queries of the catalogue, numbers as the driver makes them: digits. It evaluates no conditions.
func (f *fake) catalog(tables []table) {
	number := func(s string) sqldriver.Value {
		if s == "" {
			return nil
		}
		return s
	}
	var names, columns, keys [][]sqldriver.Value
	for _, t := range tables {
		names = append(names, []sqldriver.Value{t.schema, t.name, testSchema})
		for _, c := range t.fields {
			nullable := "Y"
			if c.notNull {
				nullable = "N"
			}
			columns = append(columns, []sqldriver.Value{
				t.schema, t.name, c.name, c.typ, number(c.owner), strconv.Itoa(c.length), strconv.Itoa(c.chars), number(c.precision), number(c.scale), nullable,
			})
			if c.key {
				keys = append(keys, []sqldriver.Value{t.schema, t.name, c.name})
			}
		}
	}
	f.handle(tablesSQL, answer{rows: names, width: 3})
	f.handle(columnsSQL, answer{rows: columns, width: 10})
	f.handle(keysSQL, answer{rows: keys, width: 3})
}

func queryOf(t testing.TB, c *source.Catalog, name string, fields []string, where ...source.Condition) source.Query {
	t.Helper()
	tab, err := c.Resolve(name)
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
	if e.Error() != want {
		t.Errorf("text tells more than category and number: %q", e.Error())
	}
	return e
}

// The driver's connection does what a session needs of it.
var (
	_ connection = guarded{}
	_ connection = (*oracle.Connection)(nil)
)
