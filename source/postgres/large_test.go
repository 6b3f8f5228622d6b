package postgres

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

// message writes a row as the server would; nil is null.
func message(values ...[]byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			body = binary.BigEndian.AppendUint32(body, 0xffffffff)
			continue
		}
		body = binary.BigEndian.AppendUint32(body, uint32(len(v)))
		body = append(body, v...)
	}
	return body
}

// chunks reads a few bytes at a time, as a network may bring them.
type chunks struct {
	r io.Reader
	n func() int
}

func (c chunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n())]) }

// rowOf makes a row of the types over a connection.
func rowOf(t *testing.T, conn io.Reader, oids ...uint32) *row {
	t.Helper()
	r := &row{wire: newWire(conn)}
	for _, oid := range oids {
		native, ok := builtin(oid)
		if !ok {
			t.Fatalf("type %d is not built in", oid)
		}
		form, _ := native.wire()
		r.columns = append(r.columns, column{kind: form, typ: &native})
	}
	return r
}

// TestLargeRows reads rows around and beyond the buffer, in pieces of any size, with and without handing over.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	oids := []uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.JSONOID, pgtype.ByteaOID, pgtype.NumericOID, pgtype.TextOID}
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		size := []int{10, bufferSize - 200, bufferSize, 3*bufferSize + 17}[seed%4] + rnd.IntN(300)
		text, binaries := randomText(rnd, size), randomBytes(rnd, size)
		jsonText := form.AppendString(nil, []byte(randomText(rnd, size)))
		last := []byte("end\xff")
		if seed%3 == 0 {
			last = nil
		}
		body := message([]byte("42"), []byte(text), jsonText, binaries, bytes.Repeat([]byte("7"), size), last)

		var spilled []byte
		conn := chunks{bytes.NewReader(body), func() int { return 1 + rnd.IntN(1<<(seed%18)) }}
		r := rowOf(t, conn, oids...)
		if seed%2 == 0 {
			r.spill = func(dst []byte) error { spilled = append(spilled, dst...); return nil }
		}
		if err := r.begin(len(body)); err != nil {
			t.Fatal(err)
		}
		dst := []byte{'['}
		for i := range oids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = r.AppendJSON(dst, i)
			if r.spill != nil && len(dst) > 4*bufferSize && i < 4 {
				t.Errorf("seed %d: %d bytes held", seed, len(dst))
			}
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		var got []any
		if err := json.Unmarshal(append(append(spilled, dst...), ']'), &got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var jsonWant string
		_ = json.Unmarshal(jsonText, &jsonWant)
		want := []any{42.0, text, jsonWant, base64.StdEncoding.EncodeToString(binaries), strings.Repeat("7", size), any("end\uFFFD")}
		if last == nil {
			want[5] = nil
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("seed %d, size %d: column %d differs", seed, size, i)
			}
		}
	}
}

func randomText(rnd *rand.Rand, size int) string {
	alphabet := []string{"a", "b", "é", "漢", "🦊", "\"", "\\", "\n", "\x01", " ", "plain words here "}
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(alphabet[rnd.IntN(len(alphabet))])
	}
	return b.String()
}

func randomBytes(rnd *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// TestLargeRowSkips leaves columns out, and refuses to go back.
func TestLargeRowSkips(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), 2*bufferSize)
	body := message(big, []byte("1"), big, nil, []byte("2"), big)
	oids := []uint32{pgtype.TextOID, pgtype.Int4OID, pgtype.TextOID, pgtype.TextOID, pgtype.Int4OID, pgtype.TextOID}
	r := rowOf(t, iotest.HalfReader(bytes.NewReader(append(bytes.Clone(body), "next"...))), oids...)
	if err := r.begin(len(body)); err != nil {
		t.Fatal(err)
	}
	got := string(r.AppendJSON(r.AppendJSON(r.AppendJSON(nil, 1), 3), 4))
	if got != "1null2" {
		t.Errorf("got %q", got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if rest, err := r.wire.next(4); err != nil || string(rest) != "next" {
		t.Errorf("behind the row: %q, %v", rest, err)
	}

	r = rowOf(t, bytes.NewReader(body), oids...)
	if err := r.begin(len(body)); err != nil {
		t.Fatal(err)
	}
	r.AppendJSON(r.AppendJSON(nil, 4), 1)
	if err := r.end(); !errors.Is(err, errOrder) {
		t.Errorf("going back: %v", err)
	}
}

// TestBrokenRows ends rows early and gives lengths that can't be.
func TestBrokenRows(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("é"), bufferSize)
	whole := message(big, []byte("1"), big)
	for _, cut := range []int{1, 3, 5, 100, bufferSize + 1, 2*bufferSize + 7, 2*bufferSize + 12, len(whole) - 1} {
		r := rowOf(t, bytes.NewReader(whole[:cut]), pgtype.TextOID, pgtype.Int4OID, pgtype.TextOID)
		err := r.begin(len(whole))
		for i := range 3 {
			if err == nil {
				r.AppendJSON(nil, i)
			}
		}
		if err == nil {
			err = r.end()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	small := message([]byte("1"), []byte("22"))
	for name, body := range map[string][]byte{
		"empty": {}, "other count": message([]byte("1")), "no length": small[:4], "short value": small[:len(small)-1],
		"negative": {0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0},
	} {
		r := rowOf(t, bytes.NewReader(body), pgtype.Int4OID, pgtype.Int4OID)
		if err := r.begin(len(body)); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lying := append(binary.BigEndian.AppendUint32([]byte{0, 1}, 5*bufferSize), big...)
	r := rowOf(t, bytes.NewReader(lying), pgtype.TextOID)
	if err := r.begin(len(lying)); err != nil {
		t.Fatal(err)
	}
	r.AppendJSON(nil, 0)
	if err := r.end(); !errors.Is(err, errProtocol) {
		t.Errorf("length beyond the row: %v", err)
	}
}

// TestSpillFails ends the stream with the error of whoever takes the output.
func TestSpillFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE wide AS SELECT g, repeat('é"', 100000) AS v FROM generate_series(1, 100) g`)
	s, catalog := f.begun()
	q := queryOf(t, catalog, "wide", []string{"*"})
	q.Spill = func([]byte) error { return io.ErrShortWrite }
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		r.AppendJSON(nil, 1)
		return nil
	})
	if !errors.Is(err, io.ErrShortWrite) {
		t.Error(cause(err))
	}
	f.awaitNoStatement()
}

// TestWideRows reads rows of 16 MiB from a real server while next to nothing is held.
func TestWideRows(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 100 MB")
	}
	t.Parallel()
	f := newFixture(t,
		`CREATE TABLE seed AS SELECT repeat('0123456789abcdé"', 1024 * 1024 - 64) AS v`,
		`CREATE VIEW wide AS SELECT g AS id, v, convert_to(v, 'UTF8') AS b, md5(v) AS sum FROM seed, generate_series(1, 3) g`)
	s, catalog := f.begun()
	q := queryOf(t, catalog, "wide", []string{"*"})
	var total, most int
	q.Spill = func(dst []byte) error {
		total += len(dst)
		most = max(most, len(dst))
		return nil
	}
	rows := 0
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		rows++
		dst := make([]byte, 0, 4*bufferSize)
		for i := range q.Columns {
			dst = r.AppendJSON(dst, i)
		}
		total += len(dst)
		return nil
	})
	if err != nil {
		t.Fatal(cause(err))
	}
	units := 1024*1024 - 64
	want := 3 * (1 + (units*18 + 2) + (base64.StdEncoding.EncodedLen(units*17) + 2) + 34)
	if rows != 3 || total != want || most > 4*bufferSize {
		t.Errorf("%d rows, %d bytes of %d, %d at once", rows, total, want, most)
	}
}

// TestManyColumns reads rows with as many columns as a table can have.
func TestManyColumns(t *testing.T) {
	t.Parallel()
	columns, values := make([]string, 1500), make([]string, 1500)
	for i := range columns {
		columns[i], values[i] = fmt.Sprintf("c%d text", i), fmt.Sprintf("repeat('%d', g)", i%10)
	}
	f := newFixture(t, "CREATE TABLE many ("+strings.Join(columns, ",")+")",
		"INSERT INTO many SELECT "+strings.Join(values, ",")+" FROM (VALUES (0), (1), (3)) v (g)")
	s, catalog := f.begun()
	got := read(t, s, catalog, "many", []string{"*"})
	if len(got) != 3 {
		t.Fatalf("%d rows", len(got))
	}
	for i, n := range []int{0, 1, 3} {
		if want := fmt.Sprintf(`"c1499":"%s"}`, strings.Repeat("9", n)); !strings.HasSuffix(got[i], want) {
			t.Errorf("row %d ends in %s", i, got[i][len(got[i])-30:])
		}
	}
}
