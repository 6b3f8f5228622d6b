package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

// cancelWithin is the contract's bound on a running statement, four times: other tests keep the machine busy.
const cancelWithin = 4 * 5 * time.Second

func (p *plant) tryCancel(id uuid.UUID) (*store.Job, error) {
	l := p.lease()
	defer l.Release()
	return p.service.Cancel(context.Background(), l, id)
}

// cancel cancels a job, which must work, and checks the status it has then.
func (p *plant) cancel(id uuid.UUID, want store.JobStatus) *store.Job {
	p.t.Helper()
	job, err := p.tryCancel(id)
	if err != nil || job.ID != id || job.Status != want {
		p.t.Fatalf("cancel: %+v, %v; want it %s", job, err, want)
	}
	return job
}

// isCanceled checks the end of a canceled job: its row, its event, and that nothing is left of it.
func (p *plant) isCanceled(id uuid.UUID, attempt int) {
	p.t.Helper()
	job := p.await(id, terminal)
	want := map[string]any{
		"status": store.JobFailed, "attempt": attempt, "code": string(problem.JobCanceled), "message": "the job was canceled",
	}
	if diff := cmp.Diff(want, outcome(job)); diff != "" {
		p.t.Errorf("job (-want +got):\n%s", diff)
	}
	events := p.events(id)
	if len(events) != 1 || events[0].ID != "fetcher.job.failed."+id.String() || !events[0].Time.Equal(*job.CompletedAt) {
		p.t.Fatalf("events %+v", events)
	}
	var data map[string]any
	if err := json.Unmarshal(events[0].Data, &data); err != nil {
		p.t.Fatal(err)
	}
	wantData := map[string]any{
		"jobId": id.String(), "status": "failed", "completedAt": job.CompletedAt.UTC().Format(time.RFC3339Nano),
		"error": map[string]any{"code": "FET-1025", "message": "the job was canceled"},
	}
	ignored := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "metadata" || k == "executionTimeMs" })
	if diff := cmp.Diff(wantData, data, ignored); diff != "" {
		p.t.Errorf("event (-want +got):\n%s", diff)
	}
	p.eventually(func() bool { return len(p.files()) == 0 }, func() string { return fmt.Sprint("objects ", p.files()) })
	if again, err := p.tryCancel(id); problem.CodeOf(err) != problem.JobTerminal {
		p.t.Errorf("canceled again: %+v, %v", again, err)
	}
}

// sleeping counts the statements of extractions that sleep at the source.
func (p *plant) sleeping() int {
	var n int
	row := p.sql.QueryRow(context.Background(),
		`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%sleepy%'`)
	if err := row.Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

const sleepy = `CREATE VIEW sleepy AS SELECT g AS id, pg_sleep(600)::text AS slept FROM generate_series(1, 3) g`

// The statement of a canceled job is gone from the server soon, also one that has sent no row.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	p := newPlant(t, sleepy)
	p.worker()
	id := p.submit(request(t, "", "sleepy"))
	p.eventually(func() bool { return p.sleeping() == 1 }, func() string { return "nothing sleeps" })
	begun := time.Now()
	marked := p.cancel(id, store.JobProcessing)
	p.cancel(id, store.JobProcessing)
	p.eventually(func() bool { return p.sleeping() == 0 }, func() string { return "the statement runs on" })
	took := time.Since(begun)
	t.Logf("the statement was gone after %s", took.Round(time.Millisecond))
	if took > cancelWithin {
		t.Errorf("the statement was gone after %s", took)
	}
	p.isCanceled(id, 1)
	if job := p.job(id); !job.CancelRequestedAt.Equal(*marked.CancelRequestedAt) || job.CompletedAt.Sub(begun) > cancelWithin {
		t.Errorf("asked at %s, then at %s, ended at %s", marked.CancelRequestedAt, job.CancelRequestedAt, job.CompletedAt)
	}
	p.eventually(func() bool { return p.entries()["completed"] == 1 }, func() string { return fmt.Sprint(p.entries()) })
}

// A pending job ends at once, and the worker that meets its entry later does nothing.
func TestCancelPending(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, "", "small"))
	p.cancel(id, store.JobFailed)
	p.isCanceled(id, 0)
	before := p.job(id)
	p.worker()
	p.eventually(func() bool { return p.entries()["completed"] == 1 }, func() string { return fmt.Sprint(p.entries()) })
	if diff := cmp.Diff(before, p.job(id)); diff != "" {
		t.Errorf("(-canceled +later):\n%s", diff)
	}
	if _, err := p.tryCancel(uuid.New()); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("unknown job: %v", err)
	}
}

// A job that waits for its next attempt is pending like any other.
func TestCancelBetweenAttempts(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, "", "small"))
	p.connectElsewhere("src", closedPort(t))
	p.worker(func(o *jobs.WorkerOptions) { o.RetryUnit = time.Hour })
	p.await(id, func(j *store.Job) bool { return j.Status == store.JobPending && j.Attempt == 1 })
	p.cancel(id, store.JobFailed)
	p.isCanceled(id, 1)
}

// connectElsewhere changes the port of a connection.
func (p *plant) connectElsewhere(name string, port int) {
	p.t.Helper()
	l := p.lease()
	defer l.Release()
	if err := l.DB(context.Background()).Exec(`UPDATE connections SET port = ? WHERE config_name = ?`, port, name).Error; err != nil {
		p.t.Fatal(err)
	}
}

// A job whose worker died after the cancellation ends so when it is put back, also if that was its last attempt.
func TestCancelOfADeadWorkersJob(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]int{"with attempts left": 5, "with none left": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, smallTable)
			ctx := t.Context()
			id := p.submit(request(t, "", "small"))
			must(p.pool.Exec(ctx, `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() - interval '1 hour'`))
			if ok, err := p.control.TakeLease(ctx, control.Lease{TenantID: acme, JobID: id, Token: uuid.New(), QueueID: p.entry(id), WorkerID: "dead"}, -time.Second); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if err := p.rows(func(j store.Jobs) error {
				_, err := j.Claim(ctx, id, time.Now(), attempts)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			p.cancel(id, store.JobProcessing)
			p.sweeper()
			p.worker(func(o *jobs.WorkerOptions) { o.MaxAttempts = attempts })
			p.isCanceled(id, min(attempts, 2))
		})
	}
}

// A job that is asked to stop when its object is stored already, but not yet its row, does not complete.
func TestCancelBeforeCommit(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	stuck := &tenants{Router: p.tenants, hold: make(chan struct{}), holding: make(chan struct{}, 1)}
	p.worker(func(o *jobs.WorkerOptions) { o.Tenants = stuck })
	id := p.submit(request(t, "", "small"))
	<-stuck.holding
	if n := len(p.files()); n != 1 {
		t.Errorf("%d objects", n)
	}
	p.cancel(id, store.JobProcessing)
	close(stuck.hold)
	p.isCanceled(id, 1)
}

// A worker that stops does not put a job back that was asked to.
func TestCancelWhileStopping(t *testing.T) {
	t.Parallel()
	p := newPlant(t, sleepy)
	w := p.worker(func(o *jobs.WorkerOptions) { o.Grace = time.Millisecond })
	id := p.submit(request(t, "", "sleepy"))
	p.eventually(func() bool { return p.sleeping() == 1 }, func() string { return "nothing sleeps" })
	p.cancel(id, store.JobProcessing)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.isCanceled(id, 1)
}

// stored tells whether the job has an object, which is just before it completes.
func (p *plant) stored(id uuid.UUID) bool {
	_, err := os.Stat(filepath.Join(p.dir, acme, "external-data", id.String()+".json"))
	return err == nil
}

// Cancellations at any moment: each job ends once, as the one who asked was told.
func TestCancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	p.worker()
	p.worker()
	const n = 30
	ids := make([]uuid.UUID, n)
	answers := make([]error, n)
	var group errgroup.Group
	for i := range n {
		ids[i] = p.create(t.Context(), request(t, "", "small"))
		group.Go(func() error {
			switch i % 3 { // otherwise at once
			case 1:
				p.await(ids[i], func(j *store.Job) bool { return j.Status != store.JobPending })
			case 2:
				p.eventually(func() bool { return p.stored(ids[i]) }, func() string { return "no object" })
			}
			_, answers[i] = p.tryCancel(ids[i])
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	completed := 0
	for i, id := range ids {
		job := p.await(id, terminal)
		switch {
		case problem.CodeOf(answers[i]) == problem.JobTerminal && answers[i] != nil:
			if job.Status != store.JobCompleted {
				t.Errorf("job %d is %v, though it could not be canceled", i, outcome(job))
			}
			completed++
		case answers[i] != nil:
			t.Error(answers[i])
		case job.ErrorCode == nil || *job.ErrorCode != string(problem.JobCanceled):
			t.Errorf("job %d is %v, though it was canceled", i, outcome(job))
		}
		if events := p.events(id); len(events) != 1 {
			t.Errorf("job %d: events %+v", i, events)
		}
	}
	p.eventually(func() bool { return len(p.files()) == completed },
		func() string { return fmt.Sprintf("%d objects of %d completed jobs", len(p.files()), completed) })
	t.Logf("%d of %d completed", completed, n)
}

// A canceled job suppresses nothing: the same request makes a new one.
func TestCanceledIsNoDuplicate(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	req := request(t, "", "small")
	first := p.submit(req)
	p.cancel(first, store.JobFailed)
	second := p.submit(req)
	p.worker()
	if job, _ := p.completed(second); job.ID == first {
		t.Error("the canceled job came back")
	}
}
