package extract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

const tenant = "acme"

// bench is a runner on scripted databases, one kind each, and a bucket in files.
type bench struct {
	extract.Runner

	dir string
}

func newBench(t testing.TB, scripts ...*script) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if b.Store, err = results.Open(t.Context(), "file://"+b.dir, keys, results.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Store.Close() })
	b.Drivers = source.Drivers{}
	for i, s := range scripts {
		b.Drivers[kind(i)] = s
	}
	return b
}

func kind(i int) source.Kind { return source.Kind(fmt.Sprint("script", i)) }

// ds asks script i for whole tables.
func ds(name string, i int, tables ...string) extract.Datasource {
	d := extract.Datasource{Name: name, Params: source.Params{Kind: kind(i)}}
	for _, t := range tables {
		d.Tables = append(d.Tables, extract.Table{Name: t, Fields: []string{"*"}})
	}
	return d
}

func job(sources ...extract.Datasource) extract.Job {
	return extract.Job{ID: uuid.New(), TenantID: tenant, Key: "acme/job.json", Datasources: sources}
}

func (b *bench) run(t *testing.T, j extract.Job) (extract.Result, error) {
	t.Helper()
	return b.Run(t.Context(), j, func(extract.Progress) {})
}

func (b *bench) read(t *testing.T, f results.Facts) string {
	t.Helper()
	r, err := b.Store.OpenReader(t.Context(), tenant, f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (b *bench) files(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDocument(t *testing.T) {
	t.Parallel()
	s := &script{tables: map[string]table{
		"b":       {rows: 2},
		"a":       {rows: 0},
		`q"u\ote`: {rows: 1, text: func(int) string { return "y" }},
	}}
	b := newBench(t, s)
	zulu := ds("zulu", 0, "b", "a", `q"u\ote`)
	alpha := ds("Alpha", 0, "b")
	alpha.Tables[0].Fields = []string{"text", "id"}
	var seen []extract.Progress
	got, err := b.Run(t.Context(), job(zulu, alpha), func(p extract.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Alpha":{"b":[{"text":"x","id":0},{"text":"x","id":1}]},` +
		`"zulu":{"a":[],"b":[{"id":0,"text":"x"},{"id":1,"text":"x"}],"q\"u\\ote":[{"id":0,"text":"y"}]}}`
	if diff := cmp.Diff(want, b.read(t, got.Facts)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	wantResult := extract.Result{
		Format: "json", Rows: 5, SizeBytes: int64(len(want)), Consistency: map[string]string{"Alpha": "snapshot", "zulu": "snapshot"},
		Tables: []extract.TableFacts{
			{Datasource: "Alpha", Table: "b", Rows: 2}, {Datasource: "zulu", Table: "a"}, {Datasource: "zulu", Table: "b", Rows: 2},
			{Datasource: "zulu", Table: `q"u\ote`, Rows: 1},
		},
	}
	if diff := cmp.Diff(wantResult, got, cmpopts.IgnoreFields(extract.Result{}, "Facts")); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	last := seen[len(seen)-1]
	if last.Rows != 5 || last.Bytes != int64(len(want))-2 || last.Table != `zulu.q"u\ote` {
		t.Errorf("last progress %+v", last)
	}
	if s.closed.Load() != 2 {
		t.Errorf("%d sessions closed", s.closed.Load())
	}
}

// Large tables of many datasources come out whole and in order, whatever the reading order was.
func TestOrderUnderReadAhead(t *testing.T) {
	t.Parallel()
	const rows = 6_000
	text := strings.Repeat("z", 100)
	s := &script{tables: map[string]table{"t": {rows: rows, text: func(int) string { return text }}, "u": {rows: 3}}}
	b := newBench(t, s)
	b.ReadAhead = 256 << 10
	sources := make([]extract.Datasource, 0, 9)
	for i := range 9 {
		sources = append(sources, ds(fmt.Sprint("d", 8-i), 0, "u", "t"))
	}
	got, err := b.run(t, job(sources...))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(b.read(t, got.Facts)))
	var doc map[string]map[string][]struct {
		ID   int    `json:"id"`
		Text string `json:"text"`
	}
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for name, tables := range doc {
		if len(tables["t"]) != rows || len(tables["u"]) != 3 {
			t.Fatalf("%s has %d and %d rows", name, len(tables["t"]), len(tables["u"]))
		}
		for i, r := range tables["t"] {
			if r.ID != i || r.Text != text {
				t.Fatalf("%s, row %d: %+v", name, i, r)
			}
		}
	}
	if len(doc) != 9 || got.Rows != 9*(rows+3) {
		t.Errorf("%d datasources, %d rows", len(doc), got.Rows)
	}
	if p := s.peak.Load(); p > 4 {
		t.Errorf("%d sessions at once", p)
	}
}

func TestParallel(t *testing.T) {
	t.Parallel()
	s := &script{tables: map[string]table{"t": {rows: 1}}, begun: make(chan struct{})}
	b := newBench(t, s)
	go func() { // takes nothing until four have come
		for s.opened.Load() < 4 {
			runtime.Gosched()
		}
		for range 4 {
			<-s.begun
		}
	}()
	if _, err := b.run(t, job(ds("a", 0, "t"), ds("b", 0, "t"), ds("c", 0, "t"), ds("d", 0, "t"))); err != nil {
		t.Fatal(err)
	}
}

// Rows of very different widths pass through the kept buffer and the small ones alike.
func TestWideRows(t *testing.T) {
	t.Parallel()
	width := func(i int) int { return []int{10, 3 << 20, 1 << 20, 200, 70 << 10, 5 << 20}[i%6] }
	s := &script{tables: map[string]table{"t": {rows: 12, text: func(i int) string { return strings.Repeat("w", width(i)) }}}}
	b := newBench(t, s)
	got, err := b.run(t, job(ds("d", 0, "t")))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]map[string][]struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal([]byte(b.read(t, got.Facts)), &doc); err != nil {
		t.Fatal(err)
	}
	for i, r := range doc["d"]["t"] {
		if len(r.Text) != width(i) || r.Text[0] != 'w' || r.Text[len(r.Text)-1] != 'w' {
			t.Errorf("row %d: %d bytes, want %d", i, len(r.Text), width(i))
		}
	}
	if len(doc["d"]["t"]) != 12 {
		t.Errorf("%d rows", len(doc["d"]["t"]))
	}
}

func srcErr(c source.Category, transient bool) error {
	return fmt.Errorf("wrapped: %w", &source.Error{Category: c, Transient: transient, Err: errors.New("server 10.1.2.3 says no")})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	good := table{rows: 5000}
	for _, tt := range []struct {
		name   string
		script *script
		change func(*extract.Job)
		want   extract.Failure
	}{
		{
			"unreachable", &script{openErr: srcErr(source.CategoryRefused, true)}, nil,
			extract.Failure{Code: problem.SourceUnreachable, Message: `the database can't be used (refused): datasource "d"`, Datasource: "d", Transient: true},
		},
		{
			"login", &script{openErr: srcErr(source.CategoryAuth, false)}, nil,
			extract.Failure{Code: problem.JobRefused, Message: `the database refused the login: datasource "d"`, Datasource: "d"},
		},
		{
			"host", &script{openErr: srcErr(source.CategoryNotAllowed, false)}, nil,
			extract.Failure{Code: problem.HostNotAllowed, Message: `the host may not be connected to: datasource "d"`, Datasource: "d"},
		},
		{
			"no driver", &script{}, func(j *extract.Job) { j.Datasources[0].Params.Kind = source.Oracle },
			extract.Failure{Code: problem.SourceUnreachable, Message: `the database can't be used (unsupported): datasource "d"`, Datasource: "d"},
		},
		{
			"snapshot", &script{tables: map[string]table{"t": good}, beginErr: srcErr(source.CategoryBroken, true)}, nil,
			extract.Failure{Code: problem.SourceUnreachable, Message: `the connection to the database was lost: datasource "d"`, Datasource: "d", Transient: true},
		},
		{
			"cursor's end", &script{tables: map[string]table{"t": {rows: 5000, err: srcErr(source.CategoryBroken, true)}}}, nil,
			extract.Failure{Code: problem.SourceUnreachable, Message: `the connection to the database was lost: datasource "d", table "t"`, Datasource: "d", Table: "t", Transient: true},
		},
		{
			"rights", &script{tables: map[string]table{"t": {err: srcErr(source.CategoryRights, false)}}}, nil,
			extract.Failure{Code: problem.JobRefused, Message: `the database refused the right to read: datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"no such table", &script{}, nil,
			extract.Failure{Code: problem.JobUnknownField, Message: `the table does not exist: datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"no such field", &script{tables: map[string]table{"t": good}},
			func(j *extract.Job) { j.Datasources[0].Tables[0].Fields = []string{"id", "no"} },
			extract.Failure{Code: problem.JobUnknownField, Message: `the field does not exist: field "no": datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"two spellings", &script{tables: map[string]table{"t": good}},
			func(j *extract.Job) { j.Datasources[0].Tables[0].Fields = []string{"id", "ID"} },
			extract.Failure{Code: problem.DataRequestInvalid, Message: `the field is requested under two names: field "ID": datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"filter's value", &script{tables: map[string]table{"t": good}}, func(j *extract.Job) { where(j, "t", "id", "eq", "1", `"hunter2"`) },
			extract.Failure{Code: problem.DataRequestInvalid, Message: `filter eq, value 2: does not fit an integer of the field's size: field "id": datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"filter's field", &script{tables: map[string]table{"t": good}}, func(j *extract.Job) { where(j, "t", "no", "eq", "1") },
			extract.Failure{Code: problem.JobUnknownField, Message: `filter eq: the field does not exist: field "no": datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"filter's table", &script{tables: map[string]table{"t": good, "u": good}}, func(j *extract.Job) { where(j, "u", "id", "eq", "1") },
			extract.Failure{Code: problem.DataRequestInvalid, Message: `the filter's table is not among the mapped ones: datasource "d", table "u"`, Datasource: "d", Table: "u"},
		},
		{
			"rows", &script{tables: map[string]table{"t": good}}, func(j *extract.Job) { j.MaxRows = 4999 },
			extract.Failure{Code: problem.JobLimit, Message: `the job has more rows than JOB_MAX_ROWS (4999) allows: datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"bytes", &script{tables: map[string]table{"t": good}}, func(j *extract.Job) { j.MaxBytes = 5000 },
			extract.Failure{Code: problem.JobLimit, Message: `the result is larger than JOB_MAX_RESULT_BYTES (5000) allows: datasource "d", table "t"`, Datasource: "d", Table: "t"},
		},
		{
			"format", &script{}, func(j *extract.Job) { j.Output.Format = "xml" },
			extract.Failure{Code: problem.DataRequestInvalid, Message: "the format is not supported"},
		},
		{
			"panic", &script{openPanic: "password"}, nil,
			extract.Failure{Code: problem.Internal, Message: "something unforeseen happened", Transient: true},
		},
		{
			"unforeseen", &script{tables: map[string]table{"t": {rows: 2, err: errors.New("host 10.1.2.3")}}}, nil,
			extract.Failure{Code: problem.Internal, Message: `something unforeseen happened: datasource "d", table "t"`, Datasource: "d", Table: "t", Transient: true},
		},
		{
			"storage", &script{tables: map[string]table{"t": good}}, func(j *extract.Job) { j.Key = "\xff" },
			extract.Failure{Code: problem.Unavailable, Message: "the results storage is unavailable", Transient: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.script)
			j := job(ds("d", 0, "t"))
			if tt.change != nil {
				tt.change(&j)
			}
			_, err := b.run(t, j)
			var got *extract.Failure
			if !errors.As(err, &got) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreFields(extract.Failure{}, "Err")); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			if left := b.files(t); len(left) > 0 {
				t.Errorf("left %v", left)
			}
			if n := tt.script.running.Load(); n != 0 {
				t.Errorf("%d sessions open", n)
			}
		})
	}
}

func where(j *extract.Job, table, field string, op source.Op, values ...string) {
	c := source.Condition{Field: field, Op: op}
	for _, v := range values {
		c.Values = append(c.Values, []byte(v))
	}
	j.Datasources[0].Where = map[string][]source.Condition{table: {c}}
}

// The failure of one datasource ends the others, and is the one that is told.
func TestOneFailureEndsAll(t *testing.T) {
	t.Parallel()
	stuck := &script{tables: map[string]table{"t": {rows: 2, block: make(chan struct{})}}}
	broken := &script{tables: map[string]table{"t": {rows: 2, err: srcErr(source.CategoryBroken, true)}}}
	b := newBench(t, stuck, broken)
	_, err := b.run(t, job(ds("a", 0, "t"), ds("b", 0, "t"), ds("c", 1, "t")))
	var got *extract.Failure
	if !errors.As(err, &got) || got.Datasource != "c" {
		t.Errorf("failure %v", err)
	}
	if stuck.running.Load() != 0 {
		t.Error("a session is still open")
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	s := &script{tables: map[string]table{"t": {rows: 2, block: make(chan struct{})}}}
	b := newBench(t, s)
	j := job(ds("d", 0, "t"))
	j.Deadline = time.Now().Add(50 * time.Millisecond)
	_, err := b.run(t, j)
	var got *extract.Failure
	if !errors.As(err, &got) || got.Code != problem.JobTimedOut || got.Transient {
		t.Errorf("failure %v", err)
	}
	if left := b.files(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestGivenUp(t *testing.T) {
	t.Parallel()
	s := &script{tables: map[string]table{"t": {rows: 2, block: make(chan struct{})}}}
	b := newBench(t, s)
	lost := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(lost)
	_, err := b.Run(ctx, job(ds("d", 0, "t")), func(extract.Progress) {})
	if !errors.Is(err, lost) {
		t.Errorf("error %v", err)
	}
	if left := b.files(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// What an attempt that died left behind is replaced by its successor, and only by one that owns the key.
func TestReplacesWhatADeadAttemptLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, &script{tables: map[string]table{"t": {rows: 1}, "u": {rows: 2}}})
	first, err := b.run(t, job(ds("d", 0, "u")))
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(filepath.Join(b.dir, "acme/job.json.18a.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := job(ds("d", 0, "t"))
	var f *extract.Failure
	if _, err = b.run(t, j); !errors.As(err, &f) || !f.Transient {
		t.Errorf("without clearing the key: %v", err)
	}
	lost := errors.New("lost")
	j.Retry, j.Owned = true, func(context.Context) error { return lost }
	if _, err = b.run(t, j); !errors.Is(err, lost) {
		t.Errorf("by another than the owner: %v", err)
	}
	if b.read(t, first.Facts) == "" {
		t.Error("the object is gone")
	}
	j.Owned = func(context.Context) error { return nil }
	second, err := b.run(t, j)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.read(t, second.Facts); got != `{"d":{"t":[{"id":0,"text":"x"}]}}` {
		t.Errorf("document %s", got)
	}
	if left := b.files(t); len(left) != 1 {
		t.Errorf("files %v", left)
	}
}

// Memory depends neither on the number of rows nor on how far the datasources could be ahead.
func TestMemory(t *testing.T) {
	text := strings.Repeat("m", 1000)
	s := &script{tables: map[string]table{"t": {rows: 60_000, text: func(int) string { return text }}}}
	b := newBench(t, s)
	var peak, base uint64
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	base = m.HeapInuse
	calls := 0
	_, err := b.Run(t.Context(), job(ds("a", 0, "t"), ds("b", 0, "t"), ds("c", 0, "t"), ds("d", 0, "t")), func(extract.Progress) {
		if calls++; calls%100 == 0 {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	grown := (peak - base) >> 20
	t.Logf("heap grew by %d MiB", grown)
	if grown > 64 {
		t.Errorf("heap grew by %d MiB", grown)
	}
}

func BenchmarkRows(b *testing.B) {
	text := strings.Repeat("m", 100)
	s := &script{tables: map[string]table{"t": {rows: 500_000, text: func(int) string { return text }}}}
	x := newBench(b, s)
	for b.Loop() {
		j := job(ds("a", 0, "t"))
		j.Key = uuid.NewString()
		r, err := x.Run(b.Context(), j, func(extract.Progress) {})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(r.Facts.SizeBytes)
	}
}
