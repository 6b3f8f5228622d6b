package handlers_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
)

// file is one table of a result.
type file struct {
	table, name string
	content     io.Reader
}

// completeTables stores a result with an object per table and returns the job and the manifest.
func (s *service) completeTables(t *testing.T, format string, files ...file) (*store.Job, string) {
	t.Helper()
	job := s.addJob(t, "acme", `{"source":"ledger"}`)
	db := store.NewJobs(s.lease(t, "acme").DB(t.Context()))
	claimed, err := db.Claim(t.Context(), job.ID, time.Now(), 5)
	must(t, err)
	put := func(name string, content io.Reader) results.Facts {
		w, failed := s.results.Create(t.Context(), "acme", s.results.Key("acme", "external-data", job.ID.String(), name))
		must(t, failed)
		defer w.Abort()
		_, failed = io.Copy(w, content)
		must(t, failed)
		f, failed := w.Commit(t.Context())
		must(t, failed)
		return f
	}
	var tables []map[string]any
	var size int64
	for _, f := range files {
		facts := put(f.name, f.content)
		size += facts.SizeBytes
		tables = append(tables, map[string]any{
			"datasource": "orders", "table": f.table, "rows": 3, "path": facts.Key, "file": f.name, "sizeBytes": facts.SizeBytes,
			"sha256": facts.SHA256, "hmac": facts.HMAC, "crc32": facts.CRC32,
		})
	}
	text, err := json.Marshal(tables)
	must(t, err)
	manifest := `{"tables":` + string(text) + `}`
	f := put("manifest.json", strings.NewReader(manifest))
	expires := time.Now().Add(time.Hour)
	must(t, db.Complete(t.Context(), job.ID, claimed.Attempt, store.CompleteFacts{
		Path: f.Key, HMAC: f.HMAC, SHA256: f.SHA256, Format: format, SizeBytes: size, RowCount: int64(3 * len(files)),
		KeyVersion: f.KeyVersion, Tables: text, ExpiresAt: &expires, ManifestBytes: &f.SizeBytes,
	}, store.Event{
		ID: "fetcher.job.completed." + job.ID.String(), Type: "fetcher.job.completed", Time: time.Now(), Data: []byte(`{}`),
	}))
	done, err := db.Get(t.Context(), job.ID)
	must(t, err)
	return done, manifest
}

func tablePath(job *store.Job, table string) string {
	return "/v1/fetcher/" + job.ID.String() + "/result?" + url.Values{"datasource": {"orders"}, "table": {table}}.Encode()
}

func TestDownloadTables(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	wide := bytes.Repeat([]byte("a,b\r\n"), 40_000)
	job, manifest := s.completeTables(t, "csv",
		file{"a/b c", "orders/a%2Fb%20c.csv", bytes.NewReader(wide)}, file{"none", "orders/none.csv", strings.NewReader("")})
	for name, media := range map[string]string{
		"x.ndjson": "application/x-ndjson", "x.csv": "text/csv", "x.parquet": "application/vnd.apache.parquet",
		"x.csv.gz": "application/gzip", "x.ndjson.zst": "application/zstd",
	} {
		other, _ := s.completeTables(t, "x", file{"t", name, strings.NewReader("content")})
		got := s.expect(t, http.StatusOK, "", http.MethodGet, tablePath(other, "t"), s.token("acme"), "")
		if got.header.Get("Content-Type") != media || got.header.Get("Content-Encoding") != "" || got.body != "content" {
			t.Errorf("%s: %v %q", name, got.header, got.body)
		}
	}

	one := s.expect(t, http.StatusOK, "", http.MethodGet, tablePath(job, "a/b c"), s.token("acme"), "")
	sum := sha256.Sum256(wide)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	if one.body != string(wide) || one.header.Get("ETag") != tag || one.header.Get("Content-Length") != fmt.Sprint(len(wide)) ||
		one.header.Get("Repr-Digest") == "" || one.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("%d bytes, %v", len(one.body), one.header)
	}
	if empty := s.expect(t, http.StatusOK, "", http.MethodGet, tablePath(job, "none"), s.token("acme"), ""); empty.body != "" {
		t.Errorf("empty table: %q", empty.body)
	}
	part := s.expect(t, http.StatusPartialContent, "", http.MethodGet, tablePath(job, "a/b c"), s.token("acme"), "", "Range", "bytes=-7", "If-Range", tag)
	if part.body != string(wide[len(wide)-7:]) || part.header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", len(wide)-7, len(wide)-1, len(wide)) {
		t.Errorf("part %q, %v", part.body, part.header)
	}
	s.expect(t, http.StatusNotModified, "", http.MethodGet, tablePath(job, "a/b c"), s.token("acme"), "", "If-None-Match", tag)

	checkArchive(t, s, job, map[string]string{"manifest.json": manifest, "orders/a%2Fb%20c.csv": string(wide), "orders/none.csv": ""})

	base := "/v1/fetcher/" + job.ID.String() + "/result"
	s.expect(t, http.StatusBadRequest, "FET-0405", http.MethodGet, base+"?table=none", s.token("acme"), "")
	s.expect(t, http.StatusBadRequest, "FET-0405", http.MethodGet, base+"?datasource=orders", s.token("acme"), "")
	s.expect(t, http.StatusNotFound, "FET-0005", http.MethodGet, base+"?datasource=orders&table=manifest.json", s.token("acme"), "")
	s.expect(t, http.StatusNotFound, "FET-0005", http.MethodGet, base+"?datasource=x&table=none", s.token("acme"), "")
	document := s.complete(t, "acme", []byte("{}"), time.Now().Add(time.Hour))
	s.expect(t, http.StatusBadRequest, "FET-0405", http.MethodGet, tablePath(document, "a"), s.token("acme"), "")

	var view struct {
		Result struct {
			SizeBytes int64            `json:"sizeBytes"`
			Tables    []map[string]any `json:"tables"`
		} `json:"result"`
	}
	s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+job.ID.String(), s.token("acme"), "").decode(t, &view)
	sumOfNothing := sha256.Sum256(nil)
	if len(view.Result.Tables) != 2 || view.Result.SizeBytes != int64(len(wide)) {
		t.Fatalf("view %+v", view)
	}
	delete(view.Result.Tables[1], "hmac")
	want := map[string]any{
		"datasource": "orders", "table": "none", "rows": 3., "sizeBytes": 0., "sha256": hex.EncodeToString(sumOfNothing[:]),
		"path": filepath.Dir(*job.ResultPath) + "/orders/none.csv",
	}
	if diff := cmp.Diff(want, view.Result.Tables[1]); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func checkArchive(t *testing.T, s *service, job *store.Job, want map[string]string) {
	t.Helper()
	path := "/v1/fetcher/" + job.ID.String() + "/result"
	all := s.expect(t, http.StatusOK, "", http.MethodGet, path, s.token("acme"), "", "Range", "bytes=0-9")
	tag := all.header.Get("ETag")
	if all.header.Get("Content-Type") != "application/zip" || all.header.Get("Content-Length") != fmt.Sprint(len(all.body)) ||
		all.header.Get("Accept-Ranges") != "none" || all.header.Get("Repr-Digest") != "" || tag != `"zip-`+*job.ResultSHA256+`"` {
		t.Errorf("archive: %v", all.header)
	}
	z, err := zip.NewReader(strings.NewReader(all.body), int64(len(all.body)))
	must(t, err)
	got := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		got[f.Name] = string(content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%.1000s", diff)
	}
	if again := s.expect(t, http.StatusOK, "", http.MethodGet, path, s.token("acme"), ""); again.body != all.body {
		t.Error("the archive is another the second time")
	}
	head := s.expect(t, http.StatusOK, "", http.MethodHead, path, s.token("acme"), "")
	if head.body != "" || head.header.Get("Content-Length") != all.header.Get("Content-Length") {
		t.Errorf("HEAD: %v", head.header)
	}
	s.expect(t, http.StatusNotModified, "", http.MethodGet, path, s.token("acme"), "", "If-None-Match", tag)
}

// A changed table comes whole neither alone nor in the archive.
func TestTamperedTables(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	content := bytes.Repeat([]byte("row\r\n"), 1<<17)
	job, _ := s.completeTables(t, "csv", file{"a", "orders/a.csv", bytes.NewReader(content)}, file{"b", "orders/b.csv", bytes.NewReader(content)})
	path := filepath.Join(s.dir, filepath.Dir(*job.ResultPath), "orders/b.csv")
	stored, err := os.ReadFile(path)
	must(t, err)
	stored[len(stored)-10] ^= 1
	must(t, os.WriteFile(path, stored, 0o600))
	s.expect(t, http.StatusOK, "", http.MethodGet, tablePath(job, "a"), s.token("acme"), "")
	for _, path := range []string{tablePath(job, "b"), "/v1/fetcher/" + job.ID.String() + "/result"} {
		if _, err := s.get(t, path, io.Discard, func() {}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// get downloads into a writer, calling progress now and then.
func (s *service) get(t *testing.T, path string, into io.Writer, progress func()) (int64, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, s.url+path, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token("acme"))
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	var total int64
	for {
		n, err := io.CopyN(into, resp.Body, 8<<20)
		total += n
		progress()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// A large download, alone and in an archive, holds memory flat.
func TestLargeDownload(t *testing.T) { //nolint:paralleltest // measures the heap
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	s := newService(t, nil)
	job, _ := s.completeTables(t, "ndjson", file{"a", "orders/a.ndjson", io.LimitReader(rand.NewChaCha8([32]byte{1}), size)})
	var m runtime.MemStats
	for name, path := range map[string]string{"table": tablePath(job, "a"), "archive": "/v1/fetcher/" + job.ID.String() + "/result"} {
		runtime.GC()
		runtime.ReadMemStats(&m)
		base, peak := m.HeapInuse, m.HeapInuse
		n, err := s.get(t, path, io.Discard, func() {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		})
		if err != nil || n < size { // whose digest the server has compared
			t.Fatalf("%s: %d bytes, %v", name, n, err)
		}
		t.Logf("%s: %d bytes, heap grew by %d KiB", name, n, (peak-base)>>10)
		if peak-base > 16<<20 {
			t.Errorf("%s: heap grew by %d MiB", name, (peak-base)>>20)
		}
	}
}
