package sqlserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

func numbersTable() catalogTable {
	return catalogTable{schema: "dbo", name: "n", columns: []catalogColumn{{name: "id", typ: "int"}}}
}

func numbers3() tds.Answer {
	return tds.Answer{Columns: []tds.Column{{Type: tds.Int()}}, Rows: [][]any{{1}, {2}, {3}}}
}

// endless sends numbers until somebody stops it.
func endless() tds.Answer {
	return tds.Answer{Columns: []tds.Column{{Type: tds.Int()}}, More: func(yield func([]any) bool) {
		for i := 0; yield([]any{i}); i++ {
		}
	}}
}

// TestLogin sends names and a password with any character, and nothing of the machine that we run on.
func TestLogin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open()
	if err := s.Ping(context.Background()); err != nil {
		t.Fatal(cause(err))
	}
	want := []tds.Login{{TDSVersion: 0x74000004, User: testUser, Password: testPassword, Application: "fetcher", Server: f.Host(), Database: testDatabase, PacketSize: packetSize}}
	if diff := cmp.Diff(want, f.Logins(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := counted("a😀b😀"); got != "a😀b😀xx" {
		t.Errorf("counted: %q", got)
	}
}

// TestBegin looks at what a session says to its database before it reads.
func TestBegin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, isolation int
		want             string
	}{{1, 5, "snapshot"}, {0, 2, "read committed"}, {2, 2, "read committed"}, {3, 2, "read committed"}} {
		t.Run(fmt.Sprint(c.state), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, numbersTable())
			f.database(c.state, 150)
			f.Handle(tds.Containing("FROM [dbo].[n]"), numbers3())
			s := f.open()
			deadline := time.Now().Add(time.Hour)
			got, err := s.Begin(context.Background(), deadline)
			if err != nil || got != c.want {
				t.Fatalf("got %q, %v", got, cause(err))
			}
			if _, err = s.Begin(context.Background(), deadline); err == nil {
				t.Error("a second snapshot began")
			}
			catalog, err := s.Catalog(context.Background(), source.Scope{})
			if err != nil {
				t.Fatal(cause(err))
			}
			if _, err := read(t, s, queryOf(t, catalog, "n", []string{"id"})); err != nil {
				t.Fatal(cause(err))
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			var steps []string
			for _, r := range f.Requests() {
				sql, wait, limited := strings.Cut(r.SQL, "SET LOCK_TIMEOUT ")
				if n := 0; limited {
					if _, err := fmt.Sscan(wait, &n); err != nil || n < 1_000_000 || n > 3_600_000 {
						t.Errorf("waits %q ms for locks", wait)
					}
				}
				steps = append(steps, fmt.Sprintf("%d %s", r.InTransaction, sql))
				if r.Kind == tds.Transaction && r.Isolation != c.isolation {
					t.Errorf("isolation %d", r.Isolation)
				}
			}
			want := []string{"0 " + settings + "; ", "0 " + databaseSQL, "0 BEGIN", "1 " + tablesSQL, "1 " + columnsSQL + columnsOrderSQL, "1 ", "1 SELECT [id] FROM [dbo].[n]", "1 ROLLBACK TRANSACTION"}
			if diff := cmp.Diff(want, steps); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotBegun reads nothing without a snapshot, and nothing after Close.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	s := newFixture(t).open()
	wantError(t, s.Stream(context.Background(), source.Query{}, nil), source.CategoryOther, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
}

// TestCancel stops a statement that runs: the server is told to, and the connection ends.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]tds.Answer{
		"before the first row": {Stall: true},
		"within the result":    {Columns: numbers3().Columns, Rows: numbers3().Rows, Stall: true},
		"while it sends":       endless(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, numbersTable())
			reached := make(chan struct{})
			if answer.More == nil {
				answer.Reached = reached
			}
			f.Handle(tds.Containing("FROM [dbo].[n]"), answer)
			s, catalog := f.begun()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				<-reached
				cancel()
			}()
			rows := 0
			err := s.Stream(ctx, queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error {
				if rows++; answer.More != nil && rows == 1000 {
					close(reached)
				}
				return nil
			})
			wantError(t, err, source.CategoryOther, false)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", cause(err))
			}
			f.Wait(func() bool { return f.Attentions() > 0 && f.Open() == 0 })
			wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
		})
	}
}

// TestDeadlines abandons servers that don't answer in time, even if they don't let themselves be cancelled.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deaf, ofSnapshot bool
	}{"context": {false, false}, "snapshot": {false, true}, "deaf": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, numbersTable())
			f.Handle(tds.Containing("FROM [dbo].[n]"), tds.Answer{Columns: numbers3().Columns, Rows: numbers3().Rows, Stall: true, Deaf: c.deaf})
			s := f.open()
			catalog, err := s.Catalog(context.Background(), source.Scope{})
			if err != nil {
				t.Fatal(cause(err))
			}
			// Long enough for a slow machine to get to the statement.
			soon := time.Now().Add(2 * time.Second)
			deadline, ctx := time.Time{}, context.Background()
			if c.ofSnapshot {
				deadline = soon
			} else {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, soon)
				defer cancel()
			}
			if _, err = s.Begin(context.Background(), deadline); err != nil {
				t.Fatal(cause(err))
			}
			_, err = s.Begin(ctx, deadline)
			if err == nil {
				t.Error("began twice")
			}
			wantError(t, s.Stream(ctx, queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error { return nil }), source.CategoryTimeout, true)
			f.Wait(func() bool { return f.Attentions() > 0 && f.Open() == 0 })
			wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
		})
	}
}

// TestOver does not begin what has no time left.
func TestOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open()
	_, err := s.Begin(context.Background(), time.Now().Add(-time.Second))
	wantError(t, err, source.CategoryTimeout, true)
	if n := len(f.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestCut ends connections in the middle of results. It is an error wherever that is.
func TestCut(t *testing.T) {
	t.Parallel()
	columns, rows := numbers3().Columns, numbers3().Rows
	many := make([][]any, 5000) // more than a packet holds
	for i := range many {
		many[i] = []any{i}
	}
	for name, c := range map[string]struct {
		answer tds.Answer
		rows   int
	}{
		"before the result":      {tds.Answer{Cut: true}, 0},
		"before the first row":   {tds.Answer{Columns: columns, Cut: true}, 0},
		"after some rows":        {tds.Answer{Columns: columns, Rows: rows, Cut: true}, 3},
		"after many rows":        {tds.Answer{Columns: columns, Rows: many, Cut: true}, 5000},
		"after a large row":      {tds.Answer{Columns: []tds.Column{{Type: tds.VarChar(tds.Max, tds.Latin1)}}, Rows: [][]any{{make([]byte, 1<<20)}}, Cut: true}, 1},
		"before the end of none": {tds.Answer{Columns: columns, Rows: nil, Cut: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, numbersTable())
			f.Handle(tds.Containing("FROM [dbo].[n]"), c.answer)
			s, catalog := f.begun()
			seen := 0
			err := s.Stream(context.Background(), queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error {
				seen++
				return nil
			})
			wantError(t, err, source.CategoryBroken, true)
			if seen != c.rows {
				t.Errorf("%d rows, want %d", seen, c.rows)
			}
			f.Wait(func() bool { return f.Open() == 0 })
		})
	}
}

// TestCutAnywhere ends the connection after every single byte of an answer.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, numbersTable())
	f.Handle(tds.Containing("FROM [dbo].[n]"), numbers3())
	var size int
	for limit := 0; ; limit++ {
		d := &cuttingDialer{left: -1}
		s, err := New().Open(context.Background(), f.params(), d)
		if err != nil {
			t.Fatal(cause(err))
		}
		catalog, err := s.Catalog(context.Background(), source.Scope{})
		if err != nil {
			t.Fatal(cause(err))
		}
		if _, err = s.Begin(context.Background(), time.Time{}); err != nil {
			t.Fatal(cause(err))
		}
		d.left = limit
		rows := 0
		err = s.Stream(context.Background(), queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error {
			rows++
			return nil
		})
		_ = s.Close()
		if err == nil {
			if rows != 3 {
				t.Fatalf("%d rows without an error after %d bytes", rows, limit)
			}
			size = limit
			break
		}
		wantError(t, err, source.CategoryBroken, true)
	}
	if size < 40 {
		t.Errorf("the answer has %d bytes", size)
	}
}

// cuttingDialer dials connections that end after so many bytes; below zero they don't.
type cuttingDialer struct{ left int }

type cuttingConn struct {
	net.Conn

	d *cuttingDialer
}

func (d *cuttingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &cuttingConn{conn, d}, err
}

func (c *cuttingConn) Read(b []byte) (int, error) {
	if c.d.left < 0 {
		return c.Conn.Read(b)
	}
	if c.d.left == 0 {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b[:min(len(b), c.d.left)])
	c.d.left -= n
	return n, err
}

// TestVisitorFails hands the visitor's own error back and stops the statement.
func TestVisitorFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, numbersTable())
	f.Handle(tds.Containing("FROM [dbo].[n]"), endless())
	s, catalog := f.begun()
	mine := errors.New("mine")
	rows := 0
	err := s.Stream(context.Background(), queryOf(t, catalog, "n", []string{"id"}), func(source.Row) error {
		if rows++; rows == 100 {
			return mine
		}
		return nil
	})
	if err != mine {
		t.Errorf("got %v", err)
	}
	if rows != 100 {
		t.Errorf("%d rows", rows)
	}
	f.Wait(func() bool { return f.Attentions() > 0 && f.Open() == 0 })
}

// TestChanged fails when values don't come as the catalogue told, and when they are not what they should be.
func TestChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		column    catalogColumn
		answer    tds.Answer
		category  source.Category
		transient bool
	}{
		"text for a number": {catalogColumn{name: "v", typ: "int"}, tds.Answer{Columns: []tds.Column{{Type: tds.NVarChar(5)}}, Rows: [][]any{{"5"}}}, source.CategoryObject, true},
		"number for a text": {catalogColumn{name: "v", typ: "nvarchar", length: 10}, tds.Answer{Columns: []tds.Column{{Type: tds.Int()}}, Rows: [][]any{{5}}}, source.CategoryObject, true},
		"time for a number": {catalogColumn{name: "v", typ: "int"}, tds.Answer{Columns: []tds.Column{{Type: tds.Date()}}, Rows: [][]any{{"2024-01-31"}}}, source.CategoryObject, true},
		"bytes for a text":  {catalogColumn{name: "v", typ: "nvarchar", length: 10}, tds.Answer{Columns: []tds.Column{{Type: tds.VarBinary(5)}}, Rows: [][]any{{[]byte{1}}}}, source.CategoryObject, true},
		"fewer columns":     {catalogColumn{name: "v", typ: "sql_variant"}, tds.Answer{Columns: []tds.Column{{Type: tds.Variant()}}, Rows: [][]any{{tds.VariantValue{Type: tds.Int(), Value: 1}}}}, source.CategoryObject, true},
		"short uuid":        {catalogColumn{name: "v", typ: "uniqueidentifier"}, tds.Answer{Columns: []tds.Column{{Type: tds.VarBinary(5)}}, Rows: [][]any{{[]byte{1}}}}, source.CategoryValue, false},
		"broken json":       {catalogColumn{name: "v", typ: "json"}, tds.Answer{Columns: []tds.Column{{Type: tds.NVarChar(5)}}, Rows: [][]any{{`{"a"`}}}, source.CategoryValue, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{c.column}})
			f.Handle(tds.Containing("FROM [dbo].[t]"), c.answer)
			s, catalog := f.begun()
			rows, err := read(t, s, queryOf(t, catalog, "t", []string{"v"}))
			wantError(t, err, c.category, c.transient)
			if diff := cmp.Diff([]string{`{"v":null}`}, rows); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
