package jobs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/store"
)

// object puts a file where objects are, of the given age.
func (p *plant) object(age time.Duration, segments ...string) {
	p.t.Helper()
	path := filepath.Join(append([]string{p.dir}, segments...)...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("object"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.touch(path, age)
}

func (p *plant) touch(path string, age time.Duration) {
	p.t.Helper()
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
		p.t.Fatal(err)
	}
}

// Retention deletes results, jobs, events and orphans that are due, in batches, and nothing else.
func TestRetention(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	own := p.open(p.dsnOf(acme))
	ran := func(change string) uuid.UUID {
		t.Helper()
		id := p.submit(request(t, "", "small"))
		p.completed(id)
		if change != "" {
			must(own.Exec(t.Context(), `UPDATE jobs SET `+change+` WHERE id = $1`, id))
		}
		return id
	}
	w := p.worker()
	const day = "interval '1 day'"
	kept := ran("")
	const n = 5 // more than two batches
	var expired, old []uuid.UUID
	for range n {
		expired = append(expired, ran(`result_expires_at = now() - interval '1 second'`))
		old = append(old, ran(`completed_at = now() - 90 * `+day))
	}
	almost := ran(`completed_at = now() - 89 * ` + day)
	untold := ran(`completed_at = now() - 90 * ` + day) // its event is still on its way
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(own.Exec(t.Context(), `UPDATE outbox_events SET published_at = now() WHERE job_id <> $1`, untold))
	purged := expired[0]
	must(own.Exec(t.Context(), `UPDATE outbox_events SET published_at = now() - 7 * `+day+` WHERE job_id = $1`, purged))
	pending := p.pile(acme, 1, "small")[0]
	must(own.Exec(t.Context(), `UPDATE jobs SET created_at = now() - 400 * `+day+` WHERE id = $1`, pending))

	const long, short = 25 * time.Hour, 23 * time.Hour
	nobodys, young, foreign := uuid.NewString(), uuid.NewString(), uuid.NewString()
	p.object(long, acme, "external-data", nobodys+".json")
	p.object(long, acme, "external-data", nobodys+".json.gz")
	p.object(long, acme, "external-data", nobodys+".json.1882.tmp") // of a writer that was killed
	p.object(long, acme, "external-data", nobodys, "src", "small.csv")
	p.object(long, acme, "external-data", expired[0].String(), "src", "small.csv") // of a result with more than one object
	p.object(short, acme, "external-data", young+".json")
	p.object(short, acme, "external-data", young+".json.zst")
	p.object(long, acme, "external-data", pending.String()+".json")
	p.object(long, acme, "external-data", "notes.txt")
	p.object(long, acme, "documents", nobodys+".json")
	p.object(long, "globex", "external-data", foreign+".json")
	p.touch(filepath.Join(p.dir, acme, "external-data", kept.String()+".json"), 400*24*time.Hour)

	r := must(jobs.NewRetention(jobs.RetentionOptions{
		Control: p.control, Tenants: p.tenants, Store: p.runner.Store, Batch: 2, Logger: p.log,
		Active: func(context.Context) ([]string, error) { return []string{acme}, nil },
	}))
	if worked, err := r.Next(t.Context()); !worked || err != nil {
		t.Fatalf("worked %t, %v", worked, err)
	}
	if worked, err := r.Next(t.Context()); worked || err != nil {
		t.Errorf("worked again %t, %v", worked, err)
	}
	want := []string{
		filepath.Join(acme, "documents", nobodys+".json"), filepath.Join(acme, "external-data", "notes.txt"),
		filepath.Join("globex", "external-data", foreign+".json"),
	}
	for _, id := range []string{kept.String(), almost.String(), young, pending.String()} {
		want = append(want, filepath.Join(acme, "external-data", id+".json"))
	}
	want = append(want, filepath.Join(acme, "external-data", young+".json.zst"))
	slices.Sort(want)
	got := p.files()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(p.dir, acme, "external-data", expired[0].String())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of an expired result: %v", err)
	}
	for _, id := range expired {
		job := p.job(id)
		if job.Status != store.JobCompleted || job.ResultPath != nil || job.ResultSHA256 != nil || job.ResultHMAC != nil ||
			job.ResultSizeBytes != nil || job.ResultTables != nil || job.ResultExpiresAt == nil {
			t.Errorf("expired job %+v", job)
		}
	}
	for _, id := range old {
		if err := p.rows(func(j store.Jobs) error { _, err := j.Find(t.Context(), id); return err }); !errors.Is(err, store.ErrNoJob) {
			t.Errorf("old job: %v", err)
		}
		if ev := p.events(id); len(ev) != 0 {
			t.Errorf("events of an old job %+v", ev)
		}
	}
	for id, events := range map[uuid.UUID]int{kept: 1, almost: 1, purged: 0, expired[1]: 1, untold: 1, pending: 0} {
		if ev := p.events(id); len(ev) != events {
			t.Errorf("events of job %s: %+v, want %d", id, ev, events)
		}
	}
	if _, doc := p.completed(kept); doc == "" {
		t.Error("the kept result is empty")
	}
	if job := p.job(untold); job.ResultPath != nil {
		t.Errorf("job %+v", job)
	}
	var marks int
	if err := p.pool.QueryRow(t.Context(), `SELECT count(*) FROM event_marks WHERE tenant_id = $1`, acme).Scan(&marks); err != nil || marks != 1 {
		t.Errorf("%d marks, %v", marks, err)
	}
}
