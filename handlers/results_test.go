package handlers_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store"
)

// addJob stores a pending job of the tenant.
func (s *service) addJob(t *testing.T, tenantID, metadata string) *store.Job {
	t.Helper()
	job := &store.Job{
		ID: uuid.Must(uuid.NewV7()), RequestHash: uuid.NewString(), Metadata: []byte(metadata), Source: "ledger",
		MappedFields: []byte(`{"orders":{"b":["*"],"a":["\u0069d"]}}`),
	}
	existing, err := store.NewJobs(s.lease(t, tenantID).DB(t.Context())).
		CreateOnce(t.Context(), job, time.Minute, func(context.Context) error { return nil })
	must(t, err)
	if existing != nil {
		t.Fatal("the job is a duplicate")
	}
	return job
}

// complete stores content as the result of a new job and returns the job.
func (s *service) complete(t *testing.T, tenantID string, content []byte, expires time.Time) *store.Job {
	t.Helper()
	job := s.addJob(t, tenantID, `{"source":"ledger"}`)
	db := store.NewJobs(s.lease(t, tenantID).DB(t.Context()))
	claimed, err := db.Claim(t.Context(), job.ID, time.Now(), 5)
	must(t, err)
	w, err := s.results.Create(t.Context(), tenantID, s.results.Key(tenantID, "external-data", job.ID.String()+".json"))
	must(t, err)
	_, err = w.Write(content)
	must(t, err)
	f, err := w.Commit(t.Context())
	must(t, err)
	ended := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	must(t, db.Complete(t.Context(), job.ID, claimed.Attempt, store.CompleteFacts{
		Path: f.Key, HMAC: f.HMAC, SHA256: f.SHA256, Format: "json", SizeBytes: f.SizeBytes, RowCount: 3,
		KeyVersion: f.KeyVersion, Tables: []byte(`[{"datasource":"orders","table":"a","rows":3}]`), ExpiresAt: &expires,
	}, store.Event{
		ID: "fetcher.job.completed." + job.ID.String(), Type: "fetcher.job.completed", Time: ended, Data: []byte(`{"n": 1.10}`),
	}))
	done, err := db.Get(t.Context(), job.ID)
	must(t, err)
	return done
}

func TestJobViews(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	db := store.NewJobs(s.lease(t, "acme").DB(t.Context()))
	read := func(job *store.Job) string {
		return s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+job.ID.String(), s.token("acme"), "").body
	}
	const metadata = `{"z":1.10,"source":"ledger","big":12345678901234567890}`
	job := s.addJob(t, "acme", metadata)
	head := fmt.Sprintf(`{"id":"%s","status":"pending","metadata":%s,"mappedFields":{"orders":{"b":["*"],"a":["\u0069d"]}}`, job.ID, metadata)
	if got := read(job); !strings.HasPrefix(got, head) || strings.Contains(got, "startedAt") || strings.Contains(got, "filters") {
		t.Errorf("pending: %s", got)
	}
	claimed, err := db.Claim(t.Context(), job.ID, time.Now(), 5)
	must(t, err)
	must(t, db.SaveProgress(t.Context(), job.ID, claimed.Attempt, []byte(`{"rows":5,"bytes":7,"table":"a"}`)))
	if got := read(job); !strings.Contains(got, `"attempt":1,"progress":{"rows":5,"bytes":7,"table":"a"}`) {
		t.Errorf("processing: %s", got)
	}
	must(t, db.Fail(t.Context(), job.ID, claimed.Attempt,
		store.Failure{Code: "FET-1028", Message: `no table "x"`, Datasource: "orders"},
		store.Event{ID: "e", Type: "fetcher.job.failed", Time: time.Now(), Data: []byte(`{}`)}))
	got := read(job)
	for _, part := range []string{
		`"metadata":{"z":1.10,"source":"ledger","big":12345678901234567890,"error":"no table \"x\""}`,
		`"error":{"code":"FET-1028","message":"no table \"x\"","datasource":"orders"}`, `"completedAt":"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("failed: %s is not in %s", part, got)
		}
	}
	for _, metadata := range []string{`{"source":"s","error":{"own":1}}`, `{"a":{"error":2},"error":null}`} {
		own := s.addJob(t, "acme", metadata)
		must(t, db.Fail(t.Context(), own.ID, 0, store.Failure{Code: "FET-1025", Message: "canceled"},
			store.Event{ID: own.ID.String(), Type: "fetcher.job.failed", Time: time.Now(), Data: []byte(`{}`)}))
		if got := read(own); !strings.Contains(got, `"metadata":`+metadata+`,`) {
			t.Errorf("a metadata member of the caller's was replaced: %s", got)
		}
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newService(t, func(o *handlers.Options) { o.Clock = func() time.Time { return now } })
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		content := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		job := s.complete(t, "acme", content, now.Add(time.Hour))
		path := "/v1/fetcher/" + job.ID.String() + "/result"
		got := s.expect(t, http.StatusOK, "", http.MethodGet, path, s.token("acme"), "")
		if got.body != string(content) {
			t.Fatalf("%d bytes came back as %d others", size, len(got.body))
		}
		sum, err := hex.DecodeString(*job.ResultSHA256)
		must(t, err)
		for name, want := range map[string]string{
			"Content-Length": fmt.Sprint(size), "Content-Type": "application/json", "ETag": `"` + *job.ResultSHA256 + `"`,
			"Repr-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":", "Cache-Control": "no-store",
		} {
			if diff := cmp.Diff(want, got.header.Get(name)); diff != "" {
				t.Error(name, diff)
			}
		}
		head := s.expect(t, http.StatusOK, "", http.MethodHead, path, s.token("acme"), "")
		for _, name := range []string{"Content-Length", "Content-Type", "ETag", "Repr-Digest"} {
			if diff := cmp.Diff(got.header.Get(name), head.header.Get(name)); diff != "" {
				t.Error("HEAD", name, diff)
			}
		}
		if head.body != "" {
			t.Error("HEAD has a body")
		}
		tag := got.header.Get("ETag")
		for condition, status := range map[string]int{
			tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, tag[:10] + `"`: 200, "": 200,
		} {
			conditional := s.do(t, http.MethodGet, path, s.token("acme"), "", "If-None-Match", condition)
			if conditional.status != status || conditional.header.Get("ETag") != tag {
				t.Errorf("If-None-Match %s: status %d, ETag %s", condition, conditional.status, conditional.header.Get("ETag"))
			}
			if status == 304 && conditional.body != "" {
				t.Error("304 has a body")
			}
		}
	}
}

func TestDownloadRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newService(t, func(o *handlers.Options) { o.Clock = func() time.Time { return now } })
	pending := s.addJob(t, "acme", `{"source":"x"}`)
	expired := s.complete(t, "acme", []byte("{}"), now)
	gone := s.complete(t, "acme", []byte("{}"), now.Add(time.Hour))
	must(t, s.results.Delete(t.Context(), *gone.ResultPath))
	for name, tc := range map[string]struct {
		job    *store.Job
		status int
		code   string
	}{
		"pending": {pending, 409, "FET-1023"}, "expired": {expired, 410, "FET-1024"}, "gone": {gone, 500, "FET-0002"},
	} {
		path := "/v1/fetcher/" + tc.job.ID.String() + "/result"
		s.expect(t, tc.status, tc.code, http.MethodGet, path, s.token("acme"), "")
		if got := s.do(t, http.MethodHead, path, s.token("acme"), ""); got.status != tc.status || got.body != "" {
			t.Errorf("HEAD %s: %d %q", name, got.status, got.body)
		}
	}
}

// TestTamperedDownload changes stored objects. No download of one may look whole.
func TestTamperedDownload(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	content := bytes.Repeat([]byte("row "), 1<<18) // many blocks
	other := s.complete(t, "acme", bytes.Repeat([]byte("ROW "), 1<<18), time.Now().Add(time.Hour))
	swapped, err := os.ReadFile(filepath.Join(s.dir, *other.ResultPath))
	must(t, err)
	for name, change := range map[string]func([]byte) []byte{
		"last byte":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"middle":      func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"first block": func(b []byte) []byte { b[1000] ^= 1; return b },
		"cut":         func(b []byte) []byte { return b[:len(b)/2] },
		"grown":       func(b []byte) []byte { return append(b, 'x') },
		"swapped":     func([]byte) []byte { return swapped },
		"emptied":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := s.complete(t, "acme", content, time.Now().Add(time.Hour))
			file := filepath.Join(s.dir, *job.ResultPath)
			stored, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, change(stored), 0o600))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/fetcher/"+job.ID.String()+"/result", nil)
			must(t, err)
			req.Header.Set("Authorization", "Bearer "+s.token("acme"))
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode == http.StatusOK && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a changed result came whole: %d bytes, error %v", len(body), err)
			}
			if resp.StatusCode != http.StatusOK && (err != nil || resp.StatusCode != http.StatusInternalServerError ||
				!strings.Contains(string(body), "FET-0002")) {
				t.Errorf("status %d, error %v: %s", resp.StatusCode, err, body)
			}
			if resp.StatusCode == http.StatusOK && !strings.Contains(s.logs.String(), job.ID.String()) {
				t.Error("the log does not tell")
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) { o.EventsSource = "/the/source" })
	job := s.complete(t, "acme", []byte("{}"), time.Now().Add(time.Hour))
	id := job.ID.String()
	got := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+id+"/events", s.token("acme"), "")
	want := `{"items":[{"specversion":"1.0","id":"fetcher.job.completed.` + id + `","source":"/the/source",` +
		`"type":"fetcher.job.completed","subject":"` + id + `","time":"2024-05-06T07:08:09Z",` +
		`"datacontenttype":"application/json","tenantid":"acme","data":{"n":1.10}}]}` + "\n"
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Error(diff)
	}
	pending := s.addJob(t, "acme", `{"source":"x"}`)
	got = s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+pending.ID.String()+"/events", s.token("acme"), "")
	if diff := cmp.Diff(`{"items":[]}`+"\n", got.body); diff != "" {
		t.Error(diff)
	}
}

// TestOtherTenants asks with acme's token for what is globex's.
func TestOtherTenants(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	connection, _ := s.create(t, "globex", describe(t, external(t), "orders", nil))
	job := s.complete(t, "globex", []byte("{}"), time.Now().Add(time.Hour)).ID.String()
	for _, tc := range []struct{ method, path, id string }{
		{http.MethodGet, connectionsPath + "/%", connection},
		{http.MethodPost, connectionsPath + "/%/test", connection},
		{http.MethodGet, connectionsPath + "/%/schema", connection},
		{http.MethodGet, "/v1/fetcher/%", job},
		{http.MethodGet, "/v1/fetcher/%/result", job},
		{http.MethodGet, "/v1/fetcher/%/events", job},
	} {
		theirs := strings.Replace(tc.path, "%", tc.id, 1)
		s.expect(t, http.StatusOK, "", tc.method, theirs, s.token("globex"), "")
		bodies := make([]string, 0, 2)
		for _, path := range []string{theirs, strings.Replace(tc.path, "%", uuid.NewString(), 1)} {
			got := s.expect(t, http.StatusNotFound, "FET-1001", tc.method, path, s.token("acme"), "")
			bodies = append(bodies, strings.Replace(got.body, got.problem(t).Instance, "", 1))
		}
		if diff := cmp.Diff(bodies[1], bodies[0]); diff != "" {
			t.Errorf("%s %s: %s", tc.method, tc.path, diff)
		}
	}
	list := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath, s.token("acme"), "")
	if !strings.Contains(list.body, `"items":[]`) || !strings.Contains(list.body, `"total":0`) {
		t.Errorf("acme sees %s", list.body)
	}
}
