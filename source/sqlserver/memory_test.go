package sqlserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

// TestLargeValues hands values of 15 MiB over in pieces. The driver holds a whole row, and more while it decodes it,
// but does not read on while one is visited. It is not parallel, for it looks at the memory of the process.
func TestLargeValues(t *testing.T) { //nolint:paralleltest // see above
	size := 15 << 20
	if testing.Short() {
		size = 1 << 20
	}
	ascii, bin := bytes.Repeat([]byte("0123456789\"\n- é"[:15]), size/15), make([]byte, size)
	f := newFixture(t, catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{
		{name: "s", typ: "varchar", length: -1, codePage: 1252}, {name: "b", typ: "varbinary", length: -1},
	}})
	const rows = 8
	f.Handle(tds.Containing("FROM [dbo].[t]"), tds.Answer{
		Columns: []tds.Column{{Type: tds.VarChar(tds.Max, tds.Latin1)}, {Type: tds.VarBinary(tds.Max)}},
		More: func(yield func([]any) bool) {
			for i := range rows {
				row := []any{ascii, nil}
				if i%2 == 1 {
					row = []any{nil, bin}
				}
				if !yield(row) {
					return
				}
			}
		},
	})
	s, catalog := f.begun()
	q := queryOf(t, catalog, "t", []string{"s", "b"})
	total, most := 0, 0
	q.Spill = func(dst []byte) error {
		total, most = total+len(dst), max(most, len(dst))
		return nil
	}
	peak := watchHeap()
	seen := 0
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		seen++
		dst := r.AppendJSON(nil, 0)
		dst = r.AppendJSON(dst, 1)
		total, most = total+len(dst), max(most, len(dst))
		return nil
	})
	if err != nil {
		t.Fatal(cause(err))
	}
	if seen != rows {
		t.Errorf("%d rows", seen)
	}
	escaped := len(ascii) + bytes.Count(ascii, []byte("\"")) + bytes.Count(ascii, []byte("\n")) + 2 + bytes.Count(ascii, []byte("é")[:1])
	if want := rows / 2 * (escaped + len("null") + (size+2)/3*4 + 2 + len("null")); total != want {
		t.Errorf("%d bytes, want %d", total, want)
	}
	if most > 1<<20 {
		t.Errorf("%d bytes at once", most)
	}
	grown := peak()
	t.Logf("the heap grew by %d MiB", grown>>20)
	// One value, as it comes, as it grows and as a text, with some garbage; the driver's several rows would be more.
	if limit := uint64(max(10*size, 64<<20)); grown > limit { // #nosec G115 -- not negative
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// watchHeap looks at the heap until the function it returns is called, which returns how much it grew at most.
func watchHeap() func() uint64 {
	runtime.GC()
	idle := heap()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := idle
		for {
			most = max(most, heap())
			select {
			case <-stop:
				peak <- most - idle
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}

// heap is how much memory objects take, garbage too.
func heap() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

// TestReadAhead stops reading while a row is visited, and goes on when the next one is wanted.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		for {
			if _, err := theirs.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	l := newLink(dialerFunc(func(context.Context, string, string) (net.Conn, error) { return ours, nil }), "x")
	conn, err := l.DialContext(context.Background(), "tcp", "x:1")
	if err != nil {
		t.Fatal(err)
	}
	l.hold()
	if _, err = io.CopyN(io.Discard, conn, readAhead); err != nil {
		t.Fatal(err)
	}
	more := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 4096))
		more <- err
	}()
	select {
	case err := <-more:
		t.Fatalf("read on while a row was visited: %v", err)
	case <-time.After(50 * time.Millisecond): // a moment in which it could have
	}
	l.release()
	if err := <-more; err != nil {
		t.Fatal(err)
	}
	l.hold()
	go func() {
		_, err := io.CopyN(io.Discard, conn, 2*readAhead)
		more <- err
	}()
	l.closeAll()
	if err := <-more; err == nil {
		t.Error("read on after the end")
	}
	if _, err := l.DialContext(context.Background(), "tcp", "x:1"); err == nil {
		t.Error("dialled after the end")
	}
	if _, err := l.DialContext(context.Background(), "udp", "x:1434"); err == nil {
		t.Error("dialled UDP")
	}
}

// TestWide reads as many columns as a table can have, and more.
func TestWide(t *testing.T) {
	t.Parallel()
	const width = 1500
	table := catalogTable{schema: "dbo", name: "t"}
	answer := tds.Answer{Rows: [][]any{nil, nil}, Compact: true}
	var want strings.Builder
	for i := range width {
		table.columns = append(table.columns, catalogColumn{name: fmt.Sprintf("c%d", i), typ: "int"})
		answer.Columns = append(answer.Columns, tds.Column{Type: tds.Int()})
		answer.Rows[0] = append(answer.Rows[0], i)
		answer.Rows[1] = append(answer.Rows[1], nil)
		fmt.Fprintf(&want, `,"c%d":%d`, i, i)
	}
	f := newFixture(t, table)
	f.Handle(tds.Containing("FROM [dbo].[t]"), answer)
	s, catalog := f.begun()
	rows, err := read(t, s, queryOf(t, catalog, "t", []string{"*"}))
	if err != nil {
		t.Fatal(cause(err))
	}
	if len(rows) != 2 || rows[0] != "{"+want.String()[1:]+"}" || strings.Count(rows[1], ":null") != width {
		t.Errorf("%d rows, %.100s", len(rows), rows)
	}
}
