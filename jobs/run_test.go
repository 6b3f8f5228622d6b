package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

const (
	smallTable = `CREATE TABLE small AS SELECT g AS id, 'n°' || g AS note FROM generate_series(1, 3) g`
	largeTable = `CREATE TABLE large AS SELECT g AS id, md5(g::text) AS digest FROM generate_series(1, 200000) g`
)

// The whole way: submitted, queued, run, stored, committed with its event, downloaded, and equal to what the source
// itself says.
func TestJob(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, largeTable, `CREATE TABLE "Mixed Case" (id int)`)
	p.worker()
	id := p.submit(request(t, `{"src": {"public.small": {"id": {"gte": [2]}}}}`, "small:note,id", "large", "Mixed Case"))
	job, doc := p.completed(id)

	var want string
	query := `SELECT '{"src":{"Mixed Case":[],"large":[' || (SELECT string_agg(format('{"id":%s,"digest":"%s"}', id, digest), ',') FROM large) ||
		'],"small":[{"note":"n°2","id":2},{"note":"n°3","id":3}]}}'`
	if err := p.sql.QueryRow(t.Context(), query).Scan(&want); err != nil {
		t.Fatal(err)
	}
	if doc != want {
		t.Errorf("the document differs: %.200s …", doc)
	}
	wantJob := &store.Job{
		ID: id, Status: store.JobCompleted, Attempt: 1, Source: product, ResultFormat: new("json"),
		ResultPath: new("acme/external-data/" + id.String() + ".json"), ResultSizeBytes: new(int64(len(want))), ResultRowCount: new(int64(200_002)),
		ResultKeyVersion: new(1),
		ResultTables:     []byte(`[{"datasource":"src","table":"Mixed Case","rows":0},{"datasource":"src","table":"large","rows":200000},{"datasource":"src","table":"small","rows":2}]`),
	}
	ignored := cmpopts.IgnoreFields(store.Job{}, "RequestHash", "Metadata", "MappedFields", "Filters", "FiltersKeyVersion", "CreatedAt", "StartedAt", "CompletedAt", "ResultHMAC", "ResultSHA256", "ResultExpiresAt")
	if diff := cmp.Diff(wantJob, job, ignored); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if ttl := job.ResultExpiresAt.Sub(*job.CompletedAt); ttl != 7*24*time.Hour {
		t.Errorf("result expires after %s", ttl)
	}
	checkEvent(t, p, job)
	if diff := cmp.Diff([]string{*job.ResultPath}, p.files()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	p.eventually(func() bool { return p.entries()["completed"] == 1 }, func() string { return fmt.Sprint(p.entries()) })
}

func checkEvent(t *testing.T, p *plant, job *store.Job) {
	t.Helper()
	events := p.events(job.ID)
	if len(events) != 1 || events[0].ID != "fetcher.job.completed."+job.ID.String() || events[0].Type != "fetcher.job.completed" || !events[0].Time.Equal(*job.CompletedAt) {
		t.Fatalf("events %+v", events)
	}
	var data map[string]any
	if err := json.Unmarshal(events[0].Data, &data); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"jobId": job.ID.String(), "status": "completed", "completedAt": job.CompletedAt.UTC().Format(time.RFC3339Nano),
		"executionTimeMs": float64(job.CompletedAt.Sub(*job.StartedAt).Milliseconds()),
		"result": map[string]any{
			"path": *job.ResultPath, "sizeBytes": float64(*job.ResultSizeBytes), "rowCount": float64(*job.ResultRowCount), "format": "json",
			"hmac": *job.ResultHMAC, "integrity": map[string]any{"algorithm": "HMAC-SHA256", "signature": *job.ResultHMAC},
			"protection": map[string]any{"encrypted": true, "mode": "age-v1"},
		},
	}
	if diff := cmp.Diff(want, data, cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "metadata" })); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	for _, sent := range []string{`"html":"<&>"`, `"big":1.00000000000000000001`} {
		if !strings.Contains(string(events[0].Data), sent) {
			t.Errorf("the event's metadata are not as sent: %s", events[0].Data)
		}
	}
}

func TestTamperedObject(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	p.worker()
	job, _ := p.completed(p.submit(request(t, "", "small")))
	path := filepath.Join(p.dir, *job.ResultPath)
	b := must(os.ReadFile(path))
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if doc, err := p.download(job); err == nil || doc != "" {
		t.Errorf("downloaded %q, %v", doc, err)
	}
}

// Of many identical requests at once one makes a job, and all name it.
func TestDedup(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	req := request(t, "", "small")
	const n = 200
	ids := make([]uuid.UUID, n)
	var created sync.Map
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l := must(p.tenants.Acquire(t.Context(), acme))
			defer l.Release()
			job, duplicate, err := p.service.Submit(t.Context(), l, req)
			if err != nil {
				t.Errorf("submit: %v", err)
				return
			}
			ids[i] = job.ID
			if !duplicate {
				created.Store(job.ID, true)
			}
		})
	}
	wg.Wait()
	distinct := map[uuid.UUID]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	if len(distinct) != 1 {
		t.Errorf("%d jobs", len(distinct))
	}
	if _, ok := created.Load(ids[0]); !ok {
		t.Error("nobody was told that the job is new")
	}
	p.worker()
	p.completed(ids[0])
	if n := p.entries(); n["completed"]+n["running"] != 1 {
		t.Errorf("queue entries %v", n)
	}
	// A completed job suppresses for a while, one that differs in a digit does not.
	l := p.lease()
	defer l.Release()
	if job, duplicate, err := p.service.Submit(t.Context(), l, req); err != nil || !duplicate || job.ID != ids[0] {
		t.Errorf("after completion: duplicate %t, %v", duplicate, err)
	}
}

// A source that breaks in the middle is tried again and never makes a result of what it had delivered.
func TestBrokenSourceNeverCompletes(t *testing.T) {
	t.Parallel()
	p := newPlant(t, largeTable, `CREATE FUNCTION fails(id int) RETURNS int LANGUAGE plpgsql AS
		$$ BEGIN IF id > 150000 THEN RAISE deadlock_detected; END IF; RETURN id; END $$`,
		`CREATE VIEW broken AS SELECT fails(id) AS id FROM large`)
	p.worker(func(o *jobs.WorkerOptions) { o.MaxAttempts = 3 })
	id := p.submit(request(t, "", "broken"))
	job := p.await(id, terminal)
	want := &store.Job{
		Status: store.JobFailed, Attempt: 3, ErrorCode: new(string(problem.JobAttemptsUsedUp)),
		ErrorMessage:    new(`all 3 attempts failed; the last one: the database failed: datasource "src", table "broken"`),
		ErrorDatasource: new("src"), ErrorTable: new("broken"),
	}
	if diff := cmp.Diff(outcome(want), outcome(job)); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if left := p.files(); len(left) > 0 {
		t.Errorf("objects %v", left)
	}
	events := p.events(id)
	if len(events) != 1 || events[0].ID != "fetcher.job.failed."+id.String() || !strings.Contains(string(events[0].Data), `"error":{"code":"FET-1030","message":"all 3`) {
		t.Errorf("events %+v", events)
	}
}

// outcome is what a failed job tells.
func outcome(j *store.Job) map[string]any {
	m := map[string]any{"status": j.Status, "attempt": j.Attempt}
	for name, v := range map[string]*string{"code": j.ErrorCode, "message": j.ErrorMessage, "datasource": j.ErrorDatasource, "table": j.ErrorTable} {
		if v != nil {
			m[name] = *v
		}
	}
	return m
}

// A failure that passes is followed by an attempt that succeeds.
func TestRetry(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, `CREATE TABLE luck (n int); INSERT INTO luck VALUES (0)`,
		`CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS
		$$ BEGIN IF (SELECT n FROM luck) = 0 THEN RAISE serialization_failure; END IF; RETURN 7; END $$`,
		`CREATE VIEW moody AS SELECT fails() AS id`)
	p.worker(func(o *jobs.WorkerOptions) { o.RetryUnit = 300 * time.Millisecond })
	id := p.submit(request(t, "", "moody"))
	job := p.await(id, func(j *store.Job) bool { return j.Attempt == 1 && j.Status == store.JobPending })
	if job.NextAttemptAt == nil || job.ErrorCode != nil {
		t.Errorf("waiting job %+v", job)
	}
	p.exec(`UPDATE luck SET n = 1`)
	job, doc := p.completed(id)
	if job.Attempt < 2 || doc != `{"src":{"moody":[{"id":7}]}}` {
		t.Errorf("attempt %d, document %s", job.Attempt, doc)
	}
}

func TestFinalFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		prepare func(p *plant) // between submit and run
		options func(o *jobs.WorkerOptions)
		want    map[string]any
	}{
		{
			name: "timeout", options: func(o *jobs.WorkerOptions) { o.Timeout = 200 * time.Millisecond },
			prepare: func(p *plant) {
				p.exec(`DROP TABLE small; CREATE VIEW small AS SELECT 1 AS id, pg_sleep(60)::text AS note`)
			},
			want: map[string]any{"code": "FET-1026", "message": "the job ran longer than JOB_TIMEOUT allows"},
		},
		{
			name: "rows", options: func(o *jobs.WorkerOptions) { o.MaxRows = 2 },
			want: map[string]any{"code": "FET-1027", "message": `the job has more rows than JOB_MAX_ROWS (2) allows: datasource "src", table "small"`, "datasource": "src", "table": "small"},
		},
		{
			name: "bytes", options: func(o *jobs.WorkerOptions) { o.MaxBytes = 10 },
			want: map[string]any{"code": "FET-1027", "message": `the result is larger than JOB_MAX_RESULT_BYTES (10) allows: datasource "src", table "small"`, "datasource": "src", "table": "small"},
		},
		{
			name: "table gone", prepare: func(p *plant) { p.exec(`DROP TABLE small`) },
			want: map[string]any{"code": "FET-1028", "message": `the table does not exist: datasource "src", table "small"`, "datasource": "src", "table": "small"},
		},
		{
			name: "password changed", prepare: func(p *plant) { p.exec(`ALTER ROLE ` + p.source.Owner + ` PASSWORD 'other'`) },
			want: map[string]any{"code": "FET-1029", "message": `the database refused the login: datasource "src"`, "datasource": "src"},
		},
		{
			name: "connection deleted", prepare: func(p *plant) {
				l := p.lease()
				defer l.Release()
				if err := l.DB(context.Background()).Exec(`UPDATE connections SET deleted_at = now()`).Error; err != nil {
					p.t.Fatal(err)
				}
			},
			want: map[string]any{"code": "FET-1020", "message": `the datasource does not exist any more: datasource "src"`, "datasource": "src"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, smallTable)
			id := p.submit(request(t, "", "small"))
			if tt.prepare != nil {
				tt.prepare(p)
			}
			p.worker(func(o *jobs.WorkerOptions) {
				if tt.options != nil {
					tt.options(o)
				}
			})
			tt.want["status"], tt.want["attempt"] = store.JobFailed, 1
			got := outcome(p.await(id, terminal))
			if tt.name == "timeout" { // it may strike anywhere
				delete(got, "datasource")
				delete(got, "table")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("job (-want +got):\n%s", diff)
			}
			if events := p.events(id); len(events) != 1 {
				t.Errorf("events %+v", events)
			}
			if left := p.files(); len(left) > 0 {
				t.Errorf("objects %v", left)
			}
		})
	}
}

// A queue entry whose row never comes is dropped, and one whose row comes late is run.
func TestEntryBeforeRow(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	orphan := uuid.New()
	if err := p.queue.Enqueue(t.Context(), acme, orphan); err != nil {
		t.Fatal(err)
	}
	if err := p.queue.Enqueue(t.Context(), "nobody", orphan); err != nil {
		t.Fatal(err)
	}
	late, req := uuid.New(), request(t, "", "small")
	if err := p.queue.Enqueue(t.Context(), acme, late); err != nil {
		t.Fatal(err)
	}
	p.worker(func(o *jobs.WorkerOptions) { o.RowPatience = 8 * time.Second }) // a loaded machine writes the row within it
	p.eventually(func() bool { return p.entries()["available"]+p.entries()["scheduled"] == 3 }, func() string { return fmt.Sprint(p.entries()) })
	row := &store.Job{ID: late, RequestHash: req.Hash, Metadata: req.Metadata, MappedFields: req.MappedFields, Source: req.Source}
	if err := p.rows(func(j store.Jobs) error {
		_, err := j.CreateOnce(t.Context(), row, time.Minute, func(context.Context) error { return nil })
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.completed(late)
	p.eventually(func() bool { return p.entries()["completed"] == 3 }, func() string { return fmt.Sprint(p.entries()) })
}
