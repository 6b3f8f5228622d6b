package extract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

func formatted(format, compression string, sources ...extract.Datasource) extract.Job {
	return formatJob(nil, format, compression, sources...)
}

// What Parquet can't hold fails the job, naming the field and not the value; what it can, doesn't.
func TestParquetHolds(t *testing.T) {
	t.Parallel()
	column := func(f source.Family, more ...func(*source.Column)) source.Column {
		c := source.Column{Name: "v", Family: f, Position: 1}
		for _, m := range more {
			m(&c)
		}
		return c
	}
	decimal := func(precision, scale int) source.Column {
		return column(source.FamilyDecimal, func(c *source.Column) { c.Precision, c.Scale = precision, scale })
	}
	bits := func(n int, unsigned bool) source.Column {
		return column(source.FamilyInt, func(c *source.Column) { c.Bits, c.Unsigned = n, unsigned })
	}
	const (
		ofType = "the value is not of the field's type"
		rng    = "the value is out of the range of the field's type"
		day    = "the value is not a day of the calendar"
		fine   = "the value has a fraction finer than microseconds"
		digits = "the value has more digits than the field's type"
	)
	for _, tt := range []struct {
		column source.Column
		cell   string
		reason string // empty: it is held
	}{
		{column(source.FamilyBool), `true`, ""},
		{column(source.FamilyBool), `1`, ofType},
		{bits(8, false), `-128`, ""},
		{bits(8, false), `128`, rng},
		{bits(8, true), `-1`, rng},
		{bits(24, true), `16777215`, ""},
		{bits(64, true), `18446744073709551615`, ""},
		{bits(64, true), `18446744073709551616`, rng},
		{bits(0, false), `"7"`, ofType},
		{bits(0, false), `1.5`, rng},
		{decimal(38, 0), `"-99999999999999999999999999999999999999"`, ""},
		{decimal(38, 0), `123456789012345678`, ""},
		{decimal(5, 2), `"999.99"`, ""},
		{decimal(5, 2), `"1.500"`, ""},
		{decimal(5, 2), `"1000.00"`, digits},
		{decimal(5, 2), `"1.005"`, digits},
		{decimal(5, 2), `"NaN"`, "the value is not a finite number"},
		{decimal(5, 2), `"1E+2"`, ofType},
		{decimal(39, 2), `"NaN"`, ""},
		{column(source.FamilyFloat), `"NaN"`, ""},
		{column(source.FamilyFloat), `"1.5"`, ofType},
		{column(source.FamilyFloat, func(c *source.Column) { c.Bits = 32 }), `1e300`, rng},
		{column(source.FamilyText), `7`, ofType},
		{column(source.FamilyText), `{"a":1}`, ofType},
		{column(source.FamilyOther), `7`, ""},
		{column(source.FamilyUUID), `"00112233-4455-6677-8899-aabbccddeeff"`, ""},
		{column(source.FamilyUUID), `"00112233445566778899aabbccddeeff0000"`, ofType},
		{column(source.FamilyDate), `"infinity"`, day},
		{column(source.FamilyDate), `"0000-00-00"`, day},
		{column(source.FamilyDate), `"2023-02-29"`, day},
		{column(source.FamilyDate), `"4713-01-01 BC"`, ""},
		{column(source.FamilyDate), `"5874897-12-31"`, ""},
		{column(source.FamilyDate), `20230101`, ofType},
		{column(source.FamilyTime), `"23:59:59.1234560"`, ""},
		{column(source.FamilyTime), `"23:59:59.1234567"`, fine},
		{column(source.FamilyTime), `"-838:59:59"`, "the value is not a time of day"},
		{column(source.FamilyTime), `"24:00:00"`, "the value is not a time of day"},
		{column(source.FamilyTimeTZ), `"12:00:00+02:00"`, ""},
		{column(source.FamilyTimestamp), `"-infinity"`, day},
		{column(source.FamilyTimestamp), `"2024-01-01T00:00:00Z"`, day},
		{column(source.FamilyTimestamp), `"294247-01-11T00:00:00"`, rng},
		{column(source.FamilyTimestamp), `"290000-01-01T00:00:00"`, ""},
		{column(source.FamilyTimestampTZ), `"2024-01-01T00:00:00.123456789+01:00"`, fine},
		{column(source.FamilyTimestampTZ), `"0044-03-15T10:00:00Z BC"`, ""},
		{column(source.FamilyTimestampTZ), `"2024-01-01T00:00:00"`, day},
		{column(source.FamilyBinary), `"AP8="`, ""},
		{column(source.FamilyBinary), `"00112233-4455"`, ofType},
		{column(source.FamilyObjectID), `"0123456789abcdef01234567"`, ""},
		{column(source.FamilyJSON), `7`, ""},
	} {
		t.Run(fmt.Sprint(tt.column.Family, tt.cell), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &script{tables: map[string]table{"t": {columns: []source.Column{tt.column}, cells: [][]string{{"null"}, {tt.cell}}}}})
			got, err := b.run(t, formatted(extract.FormatParquet, extract.CompressionNone, ds("d", 0, "t")))
			if tt.reason == "" {
				if err != nil || got.Rows != 2 {
					t.Errorf("%d rows, %v", got.Rows, err)
				}
				return
			}
			var f *extract.Failure
			if !errors.As(err, &f) {
				t.Fatal(err)
			}
			want := &extract.Failure{
				Code: problem.JobFormat, Message: "the format can't hold a value: " + tt.reason + `: field "v": datasource "d", table "t"`,
				Datasource: "d", Table: "t",
			}
			if diff := cmp.Diff(want, f); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			if left := b.files(t); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestParquetWithoutFields(t *testing.T) {
	t.Parallel()
	b := newBench(t, &script{tables: map[string]table{"t": {columns: []source.Column{}, cells: [][]string{{}}}}})
	_, err := b.run(t, formatted(extract.FormatParquet, "", ds("d", 0, "t")))
	var f *extract.Failure
	if !errors.As(err, &f) || f.Code != problem.JobFormat || f.Message != `the format can't hold the table: parquet needs a field: datasource "d", table "t"` {
		t.Errorf("failure %v", err)
	}
}

func TestSafeCells(t *testing.T) {
	t.Parallel()
	columns := []source.Column{
		{Name: "=t", Family: source.FamilyText, Position: 1}, {Name: "d", Family: source.FamilyDecimal, Position: 2},
		{Name: "j", Family: source.FamilyJSON, Position: 3},
	}
	cells := [][]string{
		{`"=1+1"`, `"-10.50"`, `"=x"`}, {`"-5"`, "null", "-5"}, {`"+4912"`, "null", "null"}, {`"-a,\"b"`, "null", "null"},
		{`"@x"`, "null", "null"}, {`"\tx"`, "null", "null"}, {`"\r"`, "null", "null"}, {`""`, "null", "null"}, {`"a=b"`, "null", "null"},
	}
	for safe, want := range map[bool]string{
		false: "=t,d,j\r\n=1+1,-10.50,\"\"\"=x\"\"\"\r\n-5,,-5\r\n+4912,,\r\n\"-a,\"\"b\",,\r\n@x,,\r\n\tx,,\r\n\"\r\",,\r\n\"\",,\r\na=b,,\r\n",
		true:  "'=t,d,j\r\n'=1+1,-10.50,\"\"\"=x\"\"\"\r\n-5,,-5\r\n+4912,,\r\n\"'-a,\"\"b\",,\r\n'@x,,\r\n'\tx,,\r\n\"'\r\",,\r\n\"\",,\r\na=b,,\r\n",
	} {
		b := newBench(t, &script{tables: map[string]table{"t": {columns: columns, cells: cells}}})
		j := formatted(extract.FormatCSV, "", ds("d", 0, "t"))
		j.SafeCells = safe
		got, err := b.run(t, j)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(b.object(t, got.Facts.KeyVersion, got.Tables[0]))); diff != "" {
			t.Errorf("safe %v (-want +got):\n%s", safe, diff)
		}
	}
}

// Escapes that our own sources don't write, others may.
func TestEscapesInCSV(t *testing.T) {
	t.Parallel()
	cells := [][]string{{`"\u00e9\ud83d\ude00\/\b\f\n\\\""`}, {`"\ud83d\u0041"`}, {`"\udc00"`}, {`"\u00E9x\u0000"`}}
	b := newBench(t, &script{tables: map[string]table{"t": {columns: []source.Column{{Name: "v", Family: source.FamilyText, Position: 1}}, cells: cells}}})
	got, err := b.run(t, formatted(extract.FormatCSV, "", ds("d", 0, "t")))
	if err != nil {
		t.Fatal(err)
	}
	want := "v\r\n\"é😀/\b\f\n\\\"\"\"\r\n\ufffdA\r\n\ufffd\r\néx\x00\r\n"
	if diff := cmp.Diff(want, string(b.object(t, got.Facts.KeyVersion, got.Tables[0]))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Names of tables make keys that are plain, unlike each other, and readable backwards.
func TestObjectNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("長", 70)
	names := map[string]string{
		"plain_Name-1.$x": "plain_Name-1.$x", "a/b": "a%2Fb", "..": "%2E.", ".": "%2E", "a%2Fb": "a%252Fb", "A": "A", "a": "a",
		"tab\tnl\n": "tab%09nl%0A", "é": "%C3%A9", "a b": "a%20b", "__0x2f__": "%5F_0x2f__", `\`: "%5C", "~": "%7E",
		long: "", long + "x": "", // cut
	}
	tables := map[string]table{}
	var list []string
	for name := range names {
		tables[name] = table{rows: 1}
		list = append(list, name)
	}
	b := newBench(t, &script{tables: tables})
	got, err := b.run(t, formatted(extract.FormatNDJSON, "", ds("d", 0, list...)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range got.Tables {
		file, ok := strings.CutPrefix(strings.TrimSuffix(f.File, ".ndjson"), "d/")
		if !ok || seen[file] || len(file) > 180 {
			t.Errorf("%q is %q", f.Table, f.File)
		}
		seen[file] = true
		if strings.HasPrefix(f.Table, long) {
			if !strings.Contains(file, "~") {
				t.Errorf("%q is %q", f.Table, file)
			}
			continue
		}
		if file != names[f.Table] {
			t.Errorf("%q is %q, want %q", f.Table, file, names[f.Table])
		}
		if back, err := url.PathUnescape(file); err != nil || back != f.Table {
			t.Errorf("%q reads back as %q (%v)", file, back, err)
		}
		if got := b.object(t, 1, f); string(got) != "{\"id\":0,\"text\":\"x\"}\n" {
			t.Errorf("%q holds %q", f.Table, got)
		}
	}
}

// A failure after some tables were stored takes them back, unless the attempt isn't the owner any more; the next one
// then clears what is left, whatever it is.
func TestTablesAreTakenBack(t *testing.T) {
	t.Parallel()
	s := &script{tables: map[string]table{"a": {rows: 3}, "b": {rows: 3}}}
	b := newBench(t, s)
	j := formatted(extract.FormatCSV, extract.CompressionGzip, ds("d", 0, "a", "b", "c"))
	fail := func() { // once a and b are stored
		t.Helper()
		stored := make(chan struct{})
		s.tables["c"] = table{rows: 3, block: stored, err: srcErr(source.CategoryBroken, true)}
		_, err := b.Run(t.Context(), j, func(p extract.Progress) {
			if p.Table == "d.b" {
				if left := b.files(t); len(left) != 2 {
					t.Errorf("stored %v", left)
				}
				close(stored)
			}
		})
		var f *extract.Failure
		if !errors.As(err, &f) || f.Table != "c" {
			t.Fatalf("failure %v", err)
		}
	}
	fail()
	if left := b.files(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	lost := errors.New("lost")
	j.Owned = func(context.Context) error { return lost }
	fail()
	if left := b.files(t); len(left) != 2 {
		t.Errorf("left %v", left)
	}
	j.Datasources[0].Tables = j.Datasources[0].Tables[:2]
	j.Retry = true
	if _, err := b.run(t, j); !errors.Is(err, lost) {
		t.Errorf("by another than the owner: %v", err)
	}
	j.Owned = func(context.Context) error { return nil }
	j.Datasources[0].Tables = j.Datasources[0].Tables[:1]
	if _, err := b.run(t, j); err != nil {
		t.Fatal(err)
	}
	if left := b.files(t); len(left) != 2 { // the table and the manifest
		t.Errorf("left %v", left)
	}
}

func TestTablesLimits(t *testing.T) {
	t.Parallel()
	text := func(int) string { return strings.Repeat("x", 1000) }
	s := &script{tables: map[string]table{"a": {rows: 300, text: text}, "b": {rows: 300, text: text}}}
	for _, format := range []string{extract.FormatNDJSON, extract.FormatCSV, extract.FormatParquet} {
		for limit, change := range map[string]func(*extract.Job){
			"JOB_MAX_ROWS (599)":            func(j *extract.Job) { j.MaxRows = 599 },
			"JOB_MAX_RESULT_BYTES (500000)": func(j *extract.Job) { j.MaxBytes = 500_000 },
		} {
			b := newBench(t, s)
			j := formatted(format, "", ds("d", 0, "a", "b"))
			change(&j)
			_, err := b.run(t, j)
			var f *extract.Failure
			if !errors.As(err, &f) || f.Code != problem.JobLimit || f.Table != "b" || !strings.Contains(f.Message, limit) {
				t.Errorf("%s, %s: %v", format, limit, err)
			}
			if left := b.files(t); len(left) > 0 {
				t.Errorf("%s, %s: left %v", format, limit, left)
			}
		}
	}
}

// Row groups and pages of every size are read back in order.
func TestParquetRowGroups(t *testing.T) {
	t.Parallel()
	const rows = 40_000
	width := func(i int) int {
		if i%5000 == 4999 {
			return 300_000
		}
		return i % 100
	}
	s := &script{tables: map[string]table{"t": {rows: rows, text: func(i int) string { return strings.Repeat("w", width(i)) }}}}
	for _, compression := range extract.Compressions() {
		b := newBench(t, s)
		b.RowGroups = 1
		got, err := b.run(t, formatted(extract.FormatParquet, compression, ds("d", 0, "t")))
		if err != nil {
			t.Fatal(err)
		}
		file := b.object(t, 1, got.Tables[0])
		f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		read, err := parquet.Read[struct {
			ID   int64  `parquet:"id,optional"`
			Text string `parquet:"text,optional"`
		}](bytes.NewReader(file), int64(len(file)))
		if err != nil || len(read) != rows {
			t.Fatalf("%d rows, %v", len(read), err)
		}
		for i, r := range read {
			if r.ID != int64(i) || len(r.Text) != width(i) {
				t.Fatalf("row %d: %d, %d bytes", i, r.ID, len(r.Text))
			}
		}
		if n := len(f.RowGroups()); compression == extract.CompressionNone && n < 2 {
			t.Errorf("%d row groups", n)
		}
	}
}

// Memory depends neither on the number of rows nor, beyond a row, on their width.
func TestMemoryOfFormats(t *testing.T) { //nolint:paralleltest // measures the heap
	wide := strings.Repeat("w", 16<<20)
	narrow := strings.Repeat("n", 1000)
	s := &script{tables: map[string]table{
		"wide": {rows: 3, text: func(int) string { return wide }}, "narrow": {rows: 30_000, text: func(int) string { return narrow }},
	}}
	b := newBench(t, s)
	for _, o := range []extract.Output{
		{Format: extract.FormatCSV, Compression: extract.CompressionZstd}, {Format: extract.FormatParquet, Compression: extract.CompressionNone},
		{Format: extract.FormatParquet, Compression: extract.CompressionZstd},
	} {
		for name, sources := range map[string][]extract.Datasource{
			"wide":   {ds("a", 0, "wide")},
			"narrow": {ds("a", 0, "narrow"), ds("b", 0, "narrow"), ds("c", 0, "narrow"), ds("d", 0, "narrow")},
		} {
			grown := heapGrowth(func() {
				if _, err := b.run(t, formatted(o.Format, o.Compression, sources...)); err != nil {
					t.Error(err)
				}
			})
			t.Logf("%s %s, %s rows: heap grew by %d MiB", o.Format, o.Compression, name, grown>>20)
			if grown > 64<<20 {
				t.Errorf("%s %s, %s rows: heap grew by %d MiB", o.Format, o.Compression, name, grown>>20)
			}
		}
	}
}

// heapGrowth is how many bytes more than before the heap has at the most while run runs.
func heapGrowth(run func()) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, peak := m.HeapInuse, m.HeapInuse
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
		}
	}()
	run()
	close(stop)
	<-stopped
	return peak - base
}
