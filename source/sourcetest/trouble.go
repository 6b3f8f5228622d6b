package sourcetest

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
)

// The result that breaks in the middle: more than networks hold back, and the bytes of it that pass.
const (
	bulkRows  = 4000
	bulkWidth = 2000
	bulkPass  = 700 << 10
)

// bulk makes the table bulk.
func (b Backend) bulk(t *testing.T, d Database, rows, width int) {
	t.Helper()
	if d.Bulk != nil {
		d.Bulk(t, "bulk", rows, width)
		return
	}
	table := Table{Name: "bulk", Columns: []Column{{"id", Integer}, {"v", Text}}}
	for i := 1; i <= rows; i++ {
		table.Rows = append(table.Rows, []string{strconv.Itoa(i), bulkText(i, width)})
	}
	d.Create(t, table)
}

func bulkText(row, width int) string {
	unit := strconv.Itoa(row) + " "
	return strings.Repeat(unit, width/len(unit)+1)[:width]
}

// behind puts a proxy before the server of the database.
func behind(t *testing.T, d *Database) *testkit.Proxy {
	t.Helper()
	proxy := testkit.NewProxy(t, net.JoinHostPort(d.Params.Host, strconv.Itoa(d.Params.Port)))
	d.Params.Host, d.Params.Port = proxy.Host, proxy.Port
	return proxy
}

// testCut cuts the connection in the middle of a result: never a short one without an error.
func (b Backend) testCut(t *testing.T) {
	b.needs(t, BrokenNetwork)
	d := b.New(t)
	b.bulk(t, d, bulkRows, bulkWidth)
	proxy := behind(t, &d)
	for range 3 {
		s, catalog := b.begin(t, d.Params)
		q := Query(t, catalog, "bulk", b.all("id", "v"))
		proxy.CutAfter(bulkPass)
		rows := 0
		err := s.Stream(context.Background(), q, func(r source.Row) error {
			rows++
			r.AppendJSON(r.AppendJSON(nil, 0), 1)
			return nil
		})
		WantError(t, err, source.CategoryBroken, true)
		if rows == 0 || rows >= bulkRows {
			t.Errorf("%d rows", rows)
		}
		if err = s.Stream(context.Background(), q, func(source.Row) error { return nil }); err == nil {
			t.Error("streamed again")
		}
		if err = s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// testSilent has the server stop in the middle of a result: it is abandoned when its time is up.
func (b Backend) testSilent(t *testing.T) {
	b.needs(t, BrokenNetwork)
	d := b.New(t)
	b.bulk(t, d, bulkRows, bulkWidth)
	proxy := behind(t, &d)
	s, catalog := b.begin(t, d.Params)
	q := Query(t, catalog, "bulk", b.all("id", "v"))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	proxy.HushAfter(bulkPass)
	err := within(t, func() error {
		return s.Stream(ctx, q, func(r source.Row) error {
			r.AppendJSON(r.AppendJSON(nil, 0), 1)
			return nil
		})
	})
	WantError(t, err, source.CategoryTimeout, true)
	if err = within(t, s.Close); err != nil {
		t.Errorf("close: %v", err)
	}
}

// testSilentOpen has the server say nothing from the start.
func (b Backend) testSilentOpen(t *testing.T) {
	b.needs(t, BrokenNetwork)
	d := b.New(t)
	proxy := behind(t, &d)
	proxy.Hush()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	err := within(t, func() error {
		s, err := b.Driver.Open(ctx, d.Params, &net.Dialer{})
		if err == nil {
			_ = s.Close()
		}
		return err
	})
	WantError(t, err, source.CategoryTimeout, true)
}

// within fails the test when f does not return.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("still waits")
		return nil
	}
}

// gone is how soon a cancelled statement must have left the server.
const gone = 5 * time.Second

// testCancel cancels a statement that computes: it must be gone from the server, not just abandoned.
func (b Backend) testCancel(t *testing.T) {
	b.needs(t, Cancel)
	d := b.New(t)
	table := d.Slow(t)
	s, catalog := b.begin(t, d.Params)
	q := Query(t, catalog, table, []string{"v"})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stream(ctx, q, func(source.Row) error { return nil }) }()
	await(t, patience, "the statement runs", func() bool { return len(d.Running(t)) > 0 })
	cancel()
	if err := within(t, func() error { return <-stopped }); !errors.Is(err, context.Canceled) {
		t.Errorf("want canceled, got %v", Cause(err))
	}
	await(t, gone, "the statement is gone", func() bool { return len(d.Running(t)) == 0 })
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// testDeadline ends a statement at the server when the snapshot's time is over.
func (b Backend) testDeadline(t *testing.T) {
	b.needs(t, Cancel)
	d := b.New(t)
	table := d.Slow(t)
	s := Open(t, b.Driver, d.Params)
	catalog := Catalog(t, s, source.Scope{})
	if _, err := s.Begin(context.Background(), time.Now().Add(2*time.Second)); err != nil {
		t.Fatal(Cause(err))
	}
	q := Query(t, catalog, table, []string{"v"})
	err := within(t, func() error {
		return s.Stream(context.Background(), q, func(source.Row) error { return nil })
	})
	WantError(t, err, source.CategoryTimeout, true)
	await(t, gone, "the statement is gone", func() bool { return len(d.Running(t)) == 0 })
}

// testVisitorFails ends the stream with the visitor's error, and the statement with it.
func (b Backend) testVisitorFails(t *testing.T) {
	d := b.New(t)
	b.bulk(t, d, bulkRows, bulkWidth)
	s, catalog := b.begin(t, d.Params)
	rows := 0
	err := s.Stream(context.Background(), Query(t, catalog, "bulk", b.all("id", "v")), func(source.Row) error {
		if rows++; rows == 3 {
			return io.ErrShortWrite
		}
		return nil
	})
	if !errors.Is(err, io.ErrShortWrite) || rows != 3 {
		t.Errorf("%d rows, %v", rows, Cause(err))
	}
	if d.Running != nil {
		await(t, gone, "the statement is gone", func() bool { return len(d.Running(t)) == 0 })
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}
