package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source"
)

// benchRow is a row as the wire brings it, of the types that most tables consist of.
func benchRow(tb testing.TB) *row {
	tb.Helper()
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	parts := []struct {
		oid   uint32
		value []byte
	}{
		{pgtype.Int8OID, []byte("9007199254740993")},
		{pgtype.UUIDOID, []byte("0123456789abcdef")},
		{pgtype.NumericOID, []byte("123456.78")},
		{pgtype.TimestamptzOID, number(759_000_000_123_456)},
		{pgtype.TextOID, []byte("note number 123456 – “é” \"q\"")},
		{pgtype.BoolOID, []byte("t")},
		{pgtype.Float8OID, number(math.Float64bits(1234.5678))},
		{pgtype.DateOID, []byte{0, 0, 0x22, 0x33}},
		{pgtype.JSONBOID, []byte(`{"k": 12345, "t": "x"}`)},
	}
	r := &row{}
	for _, p := range parts {
		t, ok := builtin(p.oid)
		if !ok {
			tb.Fatalf("type %d is not built in", p.oid)
		}
		kind, _ := t.wire()
		r.values = append(r.values, p.value)
		r.columns = append(r.columns, column{kind: kind, typ: &t})
	}
	return r
}

func BenchmarkRow(b *testing.B) {
	r := benchRow(b)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = dst[:0]
		for i := range r.columns {
			dst = r.AppendJSON(dst, i)
		}
	}
	b.SetBytes(int64(len(dst)))
}

// BenchmarkStream reads 200,000 rows from a real server.
func BenchmarkStream(b *testing.B) {
	f := newFixture(b, `CREATE TABLE big AS SELECT g::bigint AS id, md5(g::text)::uuid AS account,
		(g * 1.37)::numeric(18,2) AS amount, timestamptz '2020-01-01Z' + g * interval '61.017 second' AS created_at,
		'note number ' || g || CASE WHEN g % 10 = 0 THEN ' – “é” "q"' ELSE '' END AS note, g % 3 = 0 AS flag,
		g / 7.0::float8 AS ratio, date '2020-01-01' + g % 1000 AS day,
		CASE WHEN g % 4 > 0 THEN jsonb_build_object('k', g, 't', 'x') END AS meta
		FROM generate_series(1, 200000) g`)
	s, catalog := f.begun()
	q := queryOf(b, catalog, "big", []string{"*"})
	var dst []byte
	rows := 0
	b.ReportAllocs()
	for b.Loop() {
		err := s.Stream(context.Background(), q, func(r source.Row) error {
			dst = dst[:0]
			for i := range q.Columns {
				dst = r.AppendJSON(dst, i)
			}
			rows++
			return nil
		})
		if err != nil {
			b.Fatal(cause(err))
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
