package extract_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/results"
)

// typed is a column of the table that the formats are compared by. The database itself says what a cell must become: text
// in JSON and CSV, parquet in Parquet.
type typed struct {
	name, typ string
	values    []string // SQL
	text      string   // SQL for the text of v; empty: the output of its type
	parquet   string   // SQL for the text of what the test reads there; empty: as text
	bare      bool     // no string in JSON
}

const (
	micros = `(extract(epoch FROM v) * 1000000)::bigint::text`
	iso    = `replace(format('%s', v), ' ', 'T')`
)

var everyType = []typed{ //nolint:gochecknoglobals // a table
	{name: "flag", typ: "boolean", values: []string{"true", "false"}, text: "v::text", bare: true},
	{name: "small", typ: "smallint", values: []string{"-32768", "32767"}, bare: true},
	{name: "int", typ: "integer", values: []string{"-2147483648", "2147483647"}, bare: true},
	{name: "big", typ: "bigint", values: []string{"-9223372036854775808", "9223372036854775807", "0"}, bare: true},
	{name: "oid", typ: "oid", values: []string{"4294967295"}, bare: true},
	{name: "price", typ: "numeric(9,2)", values: []string{"-1234567.89", "0", "0.05"}},
	{name: "amount", typ: "numeric(18,4)", values: []string{"-99999999999999.9999", "10.5"}},
	{name: "Huge, amount", typ: "numeric(38,10)", values: []string{"-9999999999999999999999999999.9999999999", "1e-10", "12345678901234567890"}},
	{name: "rounded", typ: "numeric(5,-2)", values: []string{"-1234500", "1"}},
	{name: "tiny", typ: "numeric(3,5)", values: []string{"0.00123", "-0.00999"}},
	{name: "any", typ: "numeric", values: []string{"1e40", "'NaN'", "-0.10", "'Infinity'"}},
	{name: "cash", typ: "money", values: []string{"-1234.5"}, text: "v::numeric::text"},
	{name: "real", typ: "real", values: []string{"1.1", "'-Infinity'", "'NaN'", "-0.0", "3.4028235e38"}},
	{name: "double", typ: "double precision", values: []string{"0.1", "1e-320", "'Infinity'", "123456789.125"}},
	{name: "text", typ: "text", values: []string{"''", `'a,"b"'`, `E'line\r\nbreak\ttab \\ back'`, "' blank '", "'–“é😀'", "'=1+1'", `E'\u0001\u2028'`, "repeat('x', 70000)", "'null'"}},
	{name: "char", typ: "char(5)", values: []string{"'ab'"}},
	{name: "mood", typ: "mood", values: []string{`'so "so"'`}},
	{name: "id2", typ: "uuid", values: []string{"'00112233-4455-6677-8899-aabbccddeeff'"}},
	{name: "day", typ: "date", values: []string{"'1970-01-01'", "'2024-02-29'", "'0001-01-01'", "'0044-03-15 BC'", "'12345-06-07'"}, parquet: "(v - date '1970-01-01')::text"},
	{name: "at", typ: "timestamp", values: []string{"'1969-12-31 23:59:59.999999'", "'2024-02-29 12:00:00.5'", "'0044-03-15 10:00:00 BC'", "'23456-01-01 00:00:00'"}, text: `regexp_replace(format('%s', v), ' (\d)', 'T\1')`, parquet: micros},
	{name: "instant", typ: "timestamptz", values: []string{"'2024-02-29 12:00:00.123456+05:30'", "'1900-01-01 00:00:00Z'"}, text: `replace(` + iso + `, '+00', 'Z')`, parquet: micros},
	{name: "time", typ: "time", values: []string{"'00:00:00'", "'23:59:59.999999'"}, parquet: micros},
	{name: "timetz", typ: "timetz", values: []string{"'12:00:00.5+02'"}, text: `format('%s', v) || ':00'`},
	{name: "span", typ: "interval", values: []string{"'-1 year 2 months 3 days 04:05:06.7'", "'0'"}},
	{name: "raw", typ: "bytea", values: []string{`'\x00ff10'`, "''", `decode(repeat('5a', 70000), 'hex')`}, text: `replace(encode(v, 'base64'), E'\n', '')`, parquet: "encode(v, 'hex')"},
	{name: "bits", typ: "bit(3)", values: []string{"B'101'"}},
	{name: "net", typ: "inet", values: []string{"'10.0.0.0/8'"}},
	{name: "doc", typ: "json", values: []string{`E'{"b": 1,\n "a": [1.10, "x\\n"]}'`, `'"text"'`, "'12345678901234567890'"}, bare: true},
	{name: "docb", typ: "jsonb", values: []string{`'{"k": "q\"c,"}'`}, bare: true},
	{name: "list", typ: "text[]", values: []string{`ARRAY['a', NULL, 'b "c"', '']`, "'{}'"}, text: "array_to_json(v)::text", bare: true},
	{name: "pair", typ: "pair", values: []string{`ROW(1, 'x,"y"')`}, text: "row_to_json(v)::text", bare: true},
	{name: "span4", typ: "int4range", values: []string{"'[1,5)'"}},
	{name: "words", typ: "tsvector", values: []string{"'fat cat'"}},
}

const formatSchema = `CREATE TYPE mood AS ENUM ('sad', 'so "so"');
	CREATE TYPE pair AS (a int, b text);
	CREATE TABLE nothing (id int, note text);
	CREATE TABLE "Straße/../x.y" (a int);
	INSERT INTO "Straße/../x.y" VALUES (1)`

// fillEvery makes a table with a row for each of the most values a column has, and one of nulls.
func fillEvery(t *testing.T, l *live) {
	t.Helper()
	var columns []string
	rows := 0
	for _, c := range everyType {
		columns = append(columns, pgx.Identifier{c.name}.Sanitize()+" "+c.typ)
		rows = max(rows, len(c.values)+1)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := l.conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v in %s", err, sql)
		}
	}
	exec("CREATE TABLE every (" + strings.Join(columns, ", ") + ")")
	for i := range rows {
		var values []string
		for _, c := range everyType {
			if i < len(c.values) {
				values = append(values, c.values[i])
			} else {
				values = append(values, "NULL")
			}
		}
		exec("INSERT INTO every VALUES (" + strings.Join(values, ", ") + ")")
	}
	for _, s := range []string{"SET timezone = 'UTC'", "SET intervalstyle = 'iso_8601'", "SET extra_float_digits = 3"} {
		exec(s)
	}
}

// wanted asks the database for the text of every cell; nil is NULL.
func wanted(t *testing.T, l *live, parquet bool) [][]*string {
	t.Helper()
	var exprs []string
	for _, c := range everyType {
		expr := c.text
		if expr == "" {
			expr = "format('%s', v)"
		}
		if parquet && c.parquet != "" {
			expr = c.parquet
		}
		column := "every." + pgx.Identifier{c.name}.Sanitize()
		exprs = append(exprs, "(SELECT CASE WHEN "+column+"::text IS NOT NULL THEN "+expr+" END FROM (SELECT "+column+" AS v) s)")
	}
	rows, err := l.conn.Query(t.Context(), "SELECT ARRAY["+strings.Join(exprs, ", ")+"] FROM every")
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[[]*string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func formatJob(l *live, format, compression string, sources ...extract.Datasource) extract.Job {
	j := job(sources...)
	j.Output = extract.Output{Format: format, Compression: compression}
	j.Key = "acme/external-data/" + j.Output.ObjectName(j.ID.String())
	return j
}

// object reads what a download of one table serves, decompressed.
func (b *bench) object(t *testing.T, version int, f extract.TableFacts) []byte {
	t.Helper()
	stored := []byte(b.read(t, results.Facts{Key: f.Path, SizeBytes: f.SizeBytes, SHA256: f.SHA256, HMAC: f.HMAC, KeyVersion: version}))
	return decompressed(t, f.Path, stored)
}

func decompressed(t *testing.T, name string, stored []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(stored)
	var err error
	switch {
	case strings.HasSuffix(name, ".gz"):
		r, err = gzip.NewReader(r)
	case strings.HasSuffix(name, ".zst"):
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func eachOutput(t *testing.T, run func(t *testing.T, format, compression string)) {
	t.Helper()
	for _, format := range extract.Formats() {
		for _, compression := range extract.Compressions() {
			t.Run(format+"/"+compression, func(t *testing.T) { run(t, format, compression) })
		}
	}
}

// Every type of PostgreSQL comes back from every format as the database itself writes it.
func TestFormatsRoundTrip(t *testing.T) { //nolint:tparallel // one connection to ask
	t.Parallel()
	l := newLive(t, formatSchema)
	fillEvery(t, l)
	eachOutput(t, func(t *testing.T, format, compression string) {
		j := formatJob(l, format, compression, l.ds("shop", "every", "nothing", "Straße/../x.y"))
		got, err := l.run(t, j)
		if err != nil {
			t.Fatal(err)
		}
		var cells [][]*string
		if format == extract.FormatJSON {
			cells = fromDocument(t, decompressed(t, j.Key, []byte(l.read(t, got.Facts))))
		} else {
			checkManifest(t, l, j, got)
			every := l.object(t, got.Facts.KeyVersion, got.Tables[1])
			cells = map[string]func(*testing.T, []byte) [][]*string{
				extract.FormatNDJSON: fromLines, extract.FormatCSV: fromCSV, extract.FormatParquet: fromParquet,
			}[format](t, every)
			checkEmpty(t, format, l.object(t, got.Facts.KeyVersion, got.Tables[2]))
		}
		want := wanted(t, l, format == extract.FormatParquet)
		for _, row := range want { // white space in JSON is free, and a line of NDJSON is a line
			for i := range row {
				if everyType[i].bare && row[i] != nil {
					*row[i] = strings.ReplaceAll(*row[i], "\n", " ")
				}
			}
		}
		compareCells(t, want, cells)
	})
}

func compareCells(t *testing.T, want, got [][]*string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		for k, c := range everyType {
			if diff := cmp.Diff(want[i][k], got[i][k]); diff != "" {
				t.Errorf("row %d, %s (-want +got):\n%.500s", i, c.name, diff)
			}
		}
	}
}

// checkManifest reads the manifest and compares it with what the run says.
func checkManifest(t *testing.T, l *live, j extract.Job, got extract.Result) {
	t.Helper()
	var m extract.Manifest
	if err := json.Unmarshal([]byte(l.read(t, got.Facts)), &m); err != nil {
		t.Fatal(err)
	}
	ext := map[string]string{"none": "", "gzip": ".gz", "zstd": ".zst"}[j.Output.Compression]
	if j.Output.Format == extract.FormatParquet {
		ext = ""
	}
	dir := "acme/external-data/" + j.ID.String() + "/"
	if got.Facts.Key != dir+"manifest.json" {
		t.Errorf("manifest at %s", got.Facts.Key)
	}
	var size int64
	for i, name := range []string{"Stra%C3%9Fe%2F..%2Fx.y", "every", "nothing"} {
		f := got.Tables[i]
		if want := dir + "shop/" + name + "." + j.Output.Format + ext; f.Path != want || m.Tables[i].Path != want || dir+m.Tables[i].File != want {
			t.Errorf("paths %s and %s, want %s", f.Path, m.Tables[i].Path, want)
		}
		if m.Tables[i].SHA256 != f.SHA256 || m.Tables[i].HMAC != f.HMAC || m.Tables[i].Rows != f.Rows || m.Tables[i].SizeBytes != f.SizeBytes {
			t.Errorf("manifest %+v, table %+v", m.Tables[i], f)
		}
		size += f.SizeBytes
	}
	if m.Format != j.Output.Format || m.Compression != j.Output.Compression || m.JobID != j.ID.String() ||
		m.RowCount != got.Rows || m.SizeBytes != size || got.SizeBytes != size {
		t.Errorf("manifest %+v, result %+v", m, got)
	}
}

func checkEmpty(t *testing.T, format string, file []byte) {
	t.Helper()
	switch format {
	case extract.FormatNDJSON:
		if len(file) != 0 {
			t.Errorf("empty table: %q", file)
		}
	case extract.FormatCSV:
		if string(file) != "id,note\r\n" {
			t.Errorf("empty table: %q", file)
		}
	default:
		f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
		if err != nil || f.NumRows() != 0 || len(f.Schema().Fields()) != 2 {
			t.Errorf("empty table: %v", err)
		}
	}
}

// fromObject returns the cells of a JSON object; its keys must be in order.
func fromObject(t *testing.T, dec *json.Decoder) []*string {
	t.Helper()
	var cells []*string
	for _, c := range everyType {
		key, err := dec.Token()
		if err != nil || key != c.name {
			t.Fatalf("key %v, want %s (%v)", key, c.name, err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		switch {
		case text == "null":
			cells = append(cells, nil)
			continue
		case raw[0] == '"' && !c.bare:
			if err := json.Unmarshal(raw, &text); err != nil {
				t.Fatal(err)
			}
		case raw[0] != '"' && !c.bare && c.typ != "real" && c.typ != "double precision":
			t.Errorf("%s: %s is no string", c.name, raw)
		}
		cells = append(cells, &text)
	}
	return cells
}

func fromDocument(t *testing.T, text []byte) [][]*string {
	t.Helper()
	var doc map[string]map[string][]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var out [][]*string
	for _, row := range doc["shop"]["every"] {
		dec := json.NewDecoder(bytes.NewReader(row))
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		out = append(out, fromObject(t, dec))
	}
	return out
}

func fromLines(t *testing.T, text []byte) [][]*string {
	t.Helper()
	var out [][]*string
	for line := range bytes.Lines(text) {
		dec := json.NewDecoder(bytes.NewReader(line))
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		out = append(out, fromObject(t, dec))
	}
	return out
}

// fromCSV reads with the standard library, which can't tell "" from nothing and makes \r\n in a field \n: both are
// looked up in the text itself.
func fromCSV(t *testing.T, text []byte) [][]*string {
	t.Helper()
	const mark = "\x02"
	text = bytes.ReplaceAll(text, []byte(`,"",`), []byte(`,`+mark+`,`))
	if n := bytes.Count(text, []byte("\r\n")); n != bytes.Count(text, []byte("\n")) {
		t.Error("a line does not end in CRLF")
	}
	r := csv.NewReader(bytes.NewReader(text))
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range everyType {
		names = append(names, c.name)
	}
	if diff := cmp.Diff(names, records[0]); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	var out [][]*string
	for _, record := range records[1:] {
		row := make([]*string, len(record))
		for i, cell := range record {
			cell = strings.ReplaceAll(cell, "line\nbreak", "line\r\nbreak")
			if cell != "" {
				cell = strings.ReplaceAll(cell, mark, "")
				row[i] = &cell
			}
		}
		out = append(out, row)
	}
	return out
}

func fromParquet(t *testing.T, file []byte) [][]*string {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	fields := f.Schema().Fields()
	for i, c := range everyType {
		if fields[i].Name() != c.name {
			t.Fatalf("column %d is %s, want %s", i, fields[i].Name(), c.name)
		}
	}
	var out [][]*string
	for _, g := range f.RowGroups() {
		rows := g.Rows()
		buffer := make([]parquet.Row, 10)
		for {
			n, err := rows.ReadRows(buffer)
			for _, row := range buffer[:n] {
				cells := make([]*string, len(row))
				for i, v := range row {
					if !v.IsNull() {
						text := parquetText(fields[i], everyType[i].typ, v)
						cells[i] = &text
					}
				}
				out = append(out, cells)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = rows.Close()
	}
	return out
}

// parquetText is a value of a Parquet file as the database would write it.
func parquetText(field parquet.Field, typ string, v parquet.Value) string {
	logical := field.Type().LogicalType()
	kind := ""
	if logical != nil {
		kind = logical.Value.String()
	}
	switch {
	case strings.HasPrefix(kind, "DECIMAL"):
		return decimalOf(field, v)
	case kind == "UUID":
		return uuid.UUID(v.ByteArray()).String()
	case typ == "bytea":
		return hex.EncodeToString(v.ByteArray())
	case v.Kind() == parquet.ByteArray:
		return string(v.ByteArray())
	case v.Kind() == parquet.Float:
		return floatText(float64(v.Float()), 32)
	case v.Kind() == parquet.Double:
		return floatText(v.Double(), 64)
	case kind == "INT(32,false)":
		return strconv.FormatUint(uint64(v.Uint32()), 10)
	}
	return v.String()
}

func decimalOf(field parquet.Field, v parquet.Value) string {
	var precision, scale int
	_, _ = fmt.Sscanf(field.Type().LogicalType().Value.String(), "DECIMAL(%d,%d)", &precision, &scale)
	n := new(big.Int)
	if v.Kind() == parquet.FixedLenByteArray {
		b := v.ByteArray()
		n.SetBytes(b)
		if b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	} else {
		n.SetInt64(v.Int64())
		if v.Kind() == parquet.Int32 {
			n.SetInt64(int64(v.Int32()))
		}
	}
	text := fmt.Sprintf("%0*s", scale+1, new(big.Int).Abs(n).String())
	if scale > 0 {
		text = text[:len(text)-scale] + "." + text[len(text)-scale:]
	}
	if n.Sign() < 0 {
		text = "-" + text
	}
	return text
}

// floatText writes a float as PostgreSQL does.
func floatText(f float64, size int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	text := strconv.FormatFloat(f, 'f', -1, size)
	if exponent := strconv.FormatFloat(f, 'e', -1, size); f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e15 || size == 32 && math.Abs(f) >= 1e6) {
		return exponent
	}
	return text
}
