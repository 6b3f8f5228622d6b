package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oracle "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"

	"github.com/fetcherhq/fetcher/source"
)

func numbersTable() table {
	return table{testSchema, "N", []field{{name: "ID", typ: "NUMBER", precision: "9", scale: "0"}}}
}

const fromNumbers = `FROM "READER"."N"`

func numbers3() [][]sqldriver.Value { return [][]sqldriver.Value{{"1"}, {"2"}, {"3"}} }

// TestStatements looks at what a session sends beside its queries.
func TestStatements(t *testing.T) {
	t.Parallel()
	f := newFake(t, numbersTable())
	f.handle(fromNumbers, answer{rows: numbers3()})
	s, catalog := f.begun()
	if err := s.Ping(context.Background()); err != nil {
		t.Fatal(cause(err))
	}
	for range 2 {
		rows, err := read(t, s, queryOf(t, catalog, "n", []string{"id"}))
		if diff := cmp.Diff([]string{`{"ID":1}`, `{"ID":2}`, `{"ID":3}`}, rows); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", cause(err), diff)
		}
	}
	var got []string
	for _, e := range f.log {
		got = append(got, e.sql)
	}
	want := []string{settingsSQL, moduleSQL, "BEGIN", beginSQL, tablesSQL, keysSQL, columnsSQL + columnsOrderSQL, pingSQL, `SELECT "ID" ` + fromNumbers, `SELECT "ID" ` + fromNumbers}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
	wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
}

// TestOrder refuses to read before the snapshot and to begin it twice.
func TestOrder(t *testing.T) {
	t.Parallel()
	f := newFake(t, numbersTable())
	s := f.session()
	catalog, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	_, err = read(t, s, queryOf(t, catalog, "n", []string{"id"}))
	wantError(t, err, source.CategoryOther, false)
	if _, err = s.Begin(context.Background(), time.Time{}); err != nil {
		t.Fatal(cause(err))
	}
	_, err = s.Begin(context.Background(), time.Time{})
	wantError(t, err, source.CategoryOther, false)
}

// TestModuleRefused goes on where the user may not name the session.
func TestModuleRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.handle(moduleSQL, answer{fails: &network.OracleError{ErrCode: noPackage}})
	if err := f.session().Ping(context.Background()); err != nil {
		t.Fatal(cause(err))
	}
	for part, number := range map[string]int{settingsSQL: 1031, moduleSQL: 1031} {
		f := newFake(t)
		f.handle(part, answer{fails: &network.OracleError{ErrCode: number}})
		s := &session{link: &link{}, handle: handle{connection: f}}
		wantError(t, s.prepare(context.Background()), source.CategoryRights, false)
	}
}

// TestServerErrors gives statements errors before and behind rows. They never pass for an end.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number    int
		category  source.Category
		transient bool
	}{
		{942, source.CategoryObject, false}, {904, source.CategoryObject, false}, {1031, source.CategoryRights, false}, {60, source.CategoryOther, true}, {8177, source.CategoryOther, true},
		{1555, source.CategoryOther, true}, {1722, source.CategoryValue, false}, {1843, source.CategoryValue, false}, {12170, source.CategoryTimeout, true}, {3113, source.CategoryBroken, true},
		{3135, source.CategoryBroken, true}, {1461, source.CategoryInput, false}, {933, source.CategoryUnsupported, false}, {99999, source.CategoryOther, false},
		{1017, source.CategoryAuth, false}, {28000, source.CategoryAuth, false}, {12154, source.CategoryDatabase, false}, {12514, source.CategoryDatabase, false}, {12505, source.CategoryDatabase, false},
		{12541, source.CategoryRefused, true}, {1033, source.CategoryDatabase, true}, {28860, source.CategoryTLS, false},
	} {
		for _, rows := range []int{0, 3} {
			f := newFake(t, numbersTable())
			failure := &network.OracleError{ErrCode: c.number, ErrMsg: "secret 10.0.0.1"}
			a := answer{fails: failure}
			if rows > 0 {
				a = answer{rows: numbers3(), err: fmt.Errorf("wrapped: %w", failure)}
			}
			f.handle(fromNumbers, a)
			s, catalog := f.begun()
			got, err := read(t, s, queryOf(t, catalog, "n", []string{"id"}))
			if e := wantError(t, err, c.category, c.transient); e.Number != c.number {
				t.Errorf("number %d", e.Number)
			}
			if len(got) != rows {
				t.Errorf("%d rows", len(got))
			}
			wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
		}
	}
}

// TestCut ends results with the connection. The driver makes ErrBadConn of that, or hands it over as it is.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"bad connection": sqldriver.ErrBadConn, "end": fmt.Errorf("read: %w", io.EOF), "within a packet": io.ErrUnexpectedEOF, "reset": &net.OpError{Op: "read", Err: net.ErrClosed},
		"panic": errPanic, "break": network.ErrConnReset,
	} {
		for rows := range 4 {
			f := newFake(t, numbersTable())
			f.handle(fromNumbers, answer{rows: numbers3()[:rows], err: failure, width: 1})
			s, catalog := f.begun()
			got, err := read(t, s, queryOf(t, catalog, "n", []string{"id"}))
			wantError(t, err, source.CategoryBroken, true)
			if len(got) != rows {
				t.Errorf("%s: %d rows, want %d", name, len(got), rows)
			}
		}
	}
	// Even where the driver takes it for the end of the rows, for it tells ends of connections by the same value.
	f := newFake(t, numbersTable())
	f.handle(fromNumbers, answer{rows: numbers3()})
	s, catalog := f.begun()
	err := s.Stream(context.Background(), queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error {
		s.link.note(io.EOF)
		return nil
	})
	wantError(t, err, source.CategoryBroken, true)
}

// TestCancel interrupts statements at the server: before rows, behind some, and while something is set up.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]int{"at once": 0, "behind rows": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, numbersTable())
			f.handle(fromNumbers, answer{rows: numbers3()[:rows], stall: true, width: 1})
			s, catalog := f.begun()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				<-f.stalled
				cancel()
			}()
			seen := 0
			err := s.Stream(ctx, queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error {
				seen++
				return nil
			})
			if seen != rows {
				t.Errorf("%d rows before the cancel, want %d", seen, rows)
			}
			wantError(t, err, source.CategoryOther, false)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", cause(err))
			}
			select {
			case <-f.interrupted:
			default:
				t.Error("the server was not asked to cancel")
			}
		})
	}
}

// TestDeadline interrupts a statement when the snapshot's time is over, and refuses what comes later.
func TestDeadline(t *testing.T) {
	t.Parallel()
	f := newFake(t, numbersTable())
	f.handle(fromNumbers, answer{stall: true, width: 1})
	s := f.session()
	catalog, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	if _, err = s.Begin(context.Background(), time.Time{}); err != nil {
		t.Fatal(cause(err))
	}
	s.deadline = time.Now().Add(10 * time.Millisecond) // set now, for nothing before to take longer
	_, err = read(t, s, queryOf(t, catalog, "n", []string{"id"}))
	wantError(t, err, source.CategoryTimeout, true)
	late := newFake(t, numbersTable()).session()
	_, err = late.Begin(context.Background(), time.Now().Add(-time.Second))
	wantError(t, err, source.CategoryTimeout, true)
}

// TestVisitorFails hands the visitor's own error back.
func TestVisitorFails(t *testing.T) {
	t.Parallel()
	f := newFake(t, numbersTable())
	f.handle(fromNumbers, answer{more: func(yield func([]sqldriver.Value) bool) {
		for yield([]sqldriver.Value{"1"}) {
		}
	}, width: 1})
	s, catalog := f.begun()
	mine := errors.New("mine")
	q := queryOf(t, catalog, "n", []string{"id"})
	if err := s.Stream(context.Background(), q, func(source.Row) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
}

// TestHandle reaches into the driver's connection for what it does not offer.
func TestHandle(t *testing.T) {
	t.Parallel()
	conn := &oracle.Connection{}
	if _, err := handleOf(conn); err != nil {
		t.Fatal(err)
	}
	config, err := configOf(context.Background(), source.Params{Host: "h", Port: 1, User: "u", Password: "p", Database: "d"}, &link{})
	if err != nil {
		t.Fatal(err)
	}
	if conn, err = oracle.NewConnection("", config); err != nil {
		t.Fatal(err)
	}
	h, err := handleOf(conn)
	if err != nil {
		t.Fatal(err)
	}
	h.fetch(7)
	if got := reflect.ValueOf(conn).Elem().FieldByName(fieldConfig).Elem().FieldByName("PrefetchRows").Int(); got != 7 {
		t.Errorf("%d rows at once", got)
	}
	if err := h.interrupt(); err != nil { // there is nothing to interrupt yet
		t.Error(err)
	}
	if _, err := h.QueryContext(context.Background(), pingSQL, nil); err == nil {
		t.Error("ran a query without a connection")
	}
	if err := safely(func() error { panic("index out of range") }); !errors.Is(err, errPanic) {
		t.Errorf("%v", err)
	}
}

// TestFetchSizes bounds what the driver holds at once.
func TestFetchSizes(t *testing.T) {
	t.Parallel()
	text := func(length int) field { return field{typ: "VARCHAR2", length: length, chars: length} }
	for _, c := range []struct {
		fields []field
		want   int
	}{
		{[]field{{typ: "NUMBER"}}, fetchMost}, {[]field{text(4000), text(4000)}, 65}, {[]field{text(32767)}, 16}, {[]field{{typ: "CLOB"}}, 1}, {[]field{text(10), {typ: "LONG"}}, 1},
		{[]field{{typ: "XMLTYPE", owner: "SYS"}}, 1}, {[]field{text(20970)}, 24}, {[]field{text(20000)}, 26},
	} {
		tab := table{schema: testSchema, name: "T"}
		for i, f := range c.fields {
			f.name = fmt.Sprintf("C%d", i)
			tab.fields = append(tab.fields, f)
		}
		f := newFake(t, tab)
		f.handle(`FROM "READER"."T"`, answer{width: 2 * len(c.fields)})
		s, catalog := f.begun()
		if _, err := read(t, s, queryOf(t, catalog, "T", []string{"*"})); err != nil {
			t.Fatal(cause(err))
		}
		if f.fetched != c.want {
			t.Errorf("%v: %d rows at once, want %d", c.fields, f.fetched, c.want)
		}
	}
}

// TestWide reads as many columns as a table can have, and more.
func TestWide(t *testing.T) {
	t.Parallel()
	const width = 1500
	tab := table{schema: testSchema, name: "T"}
	rows := make([][]sqldriver.Value, 2)
	var want strings.Builder
	for i := range width {
		tab.fields = append(tab.fields, field{name: fmt.Sprintf("C%d", i), typ: "NUMBER", precision: "9", scale: "0"})
		rows[0] = append(rows[0], fmt.Sprint(i))
		rows[1] = append(rows[1], nil)
		fmt.Fprintf(&want, `,"C%d":%d`, i, i)
	}
	f := newFake(t, tab)
	f.handle(`FROM "READER"."T"`, answer{rows: rows})
	s, catalog := f.begun()
	got, err := read(t, s, queryOf(t, catalog, "T", []string{"*"}))
	if err != nil {
		t.Fatal(cause(err))
	}
	if len(got) != 2 || got[0] != "{"+want.String()[1:]+"}" || strings.Count(got[1], ":null") != width {
		t.Errorf("%d rows, %.100s", len(got), got)
	}
}

// TestChangedColumns fails a stream with fewer values than the catalogue promised.
func TestChangedColumns(t *testing.T) {
	t.Parallel()
	f := newFake(t, table{testSchema, "T", []field{{name: "A", typ: "NUMBER"}, {name: "B", typ: "CLOB"}}})
	f.handle(`FROM "READER"."T"`, answer{rows: [][]sqldriver.Value{{"1", "x"}}})
	s, catalog := f.begun()
	_, err := read(t, s, queryOf(t, catalog, "T", []string{"*"}))
	wantError(t, err, source.CategoryObject, true)
}
