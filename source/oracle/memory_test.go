package oracle

import (
	"bytes"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/source"
)

// TestLargeValues hands values over in pieces, so that no more of them is held than what the driver made.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	long, bin := strings.Repeat("0123456789\"\n- é", size/16), bytes.Repeat([]byte{1}, size)
	f := newFake(t, table{testSchema, "T", []field{{name: "S", typ: "CLOB"}, {name: "B", typ: "BLOB"}}})
	f.handle(`FROM "READER"."T"`, answer{rows: [][]sqldriver.Value{{long, "1", nil, "0"}, {nil, "0", bin, "1"}}})
	s, catalog := f.begun()
	q := queryOf(t, catalog, "t", []string{"s", "b"})
	var out []byte
	most := 0
	take := func(dst []byte) error {
		most = max(most, len(dst))
		out = append(out, dst...)
		return nil
	}
	q.Spill = take
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		return take(r.AppendJSON(r.AppendJSON(nil, 0), 1))
	})
	if err != nil {
		t.Fatal(cause(err))
	}
	whole := &row{columns: []column{{typ: &typ{kind: kindText}}, {typ: &typ{kind: kindBytes}, at: 1}}, values: []sqldriver.Value{long, bin}}
	want := append(append(whole.AppendJSON(nil, 0), "nullnull"...), whole.AppendJSON(nil, 1)...)
	if !bytes.Equal(want, out) {
		t.Errorf("%d bytes, want %d", len(out), len(want))
	}
	if most > 256<<10 {
		t.Errorf("%d bytes at once", most)
	}
	mine := errors.New("mine")
	q.Spill = func([]byte) error { return mine }
	s, _ = f.begun()
	err = s.Stream(context.Background(), q, func(r source.Row) error {
		r.AppendJSON(nil, 0)
		return nil
	})
	if !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
}

// TestRowsAllocateNothing keeps memory flat, however many rows there are. It is not parallel, for it counts what the
// process allocates.
func TestRowsAllocateNothing(t *testing.T) { //nolint:paralleltest // see above
	types := []field{
		{typ: "NUMBER", precision: "18", scale: "0"}, {typ: "NUMBER", precision: "10", scale: "2"}, {typ: "VARCHAR2", length: 10}, {typ: "TIMESTAMP(6) WITH TIME ZONE", scale: "6"}, {typ: "INTERVAL DAY(2) TO SECOND(6)"},
		{typ: "RAW", length: 10}, {typ: "BINARY_DOUBLE"},
	}
	given := []sqldriver.Value{"123", "10.5", "é", " 2024-01-31T10:00:00.500000000+02:00", nil, []byte{1, 2}, 0.1}
	r := &row{}
	for i, f := range types {
		r.columns = append(r.columns, column{typ: typeOf(columnType{name: f.typ, length: f.length, hasScale: f.scale != "", hasPrecision: f.precision != "", precision: len(f.precision) * 9, scale: len(f.scale)}), at: i})
	}
	values, dst := make([]sqldriver.Value, len(given)), make([]byte, 0, 4096)
	allocated := testing.AllocsPerRun(1000, func() {
		copy(values, given)
		r.begin(values)
		dst = dst[:0]
		for i := range given {
			dst = r.AppendJSON(dst, i)
		}
	})
	if allocated != 0 || r.err != nil {
		t.Errorf("%v allocations for a row, %v: %s", allocated, r.err, dst)
	}
}
