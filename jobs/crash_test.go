package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// gated is a source whose reading waits for an advisory lock as long as the table gate says so in the snapshot.
var gated = []string{
	`CREATE TABLE gate (n int)`, `INSERT INTO gate VALUES (0)`,
	`CREATE FUNCTION waits(id int) RETURNS int LANGUAGE plpgsql AS
		$$ BEGIN IF (SELECT n FROM gate) = 0 THEN PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN id; END $$`,
	`CREATE VIEW slow AS SELECT waits(g) AS id, (SELECT n FROM gate) AS n FROM generate_series(1, 3) g`,
}

// shut closes the gate until open is called, or the test ends.
func (p *plant) shut() (open func()) {
	p.t.Helper()
	conn := must(p.sql.Acquire(context.Background()))
	must(conn.Exec(context.Background(), `SELECT pg_advisory_lock(7)`))
	open = sync.OnceFunc(func() {
		must(conn.Exec(context.Background(), `SELECT pg_advisory_unlock(7)`))
		conn.Release()
	})
	p.t.Cleanup(open)
	return open
}

// reading waits until n statements of extractions are running on the source.
func (p *plant) reading(n int) {
	p.t.Helper()
	var got int
	p.eventually(func() bool {
		err := p.sql.QueryRow(context.Background(),
			`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&got)
		return err == nil && got == n
	}, func() string { return fmt.Sprintf("%d statements wait", got) })
}

// leases are the real ones, but for what a test does to the renewals.
type leases struct {
	*control.DB

	renew func(ctx context.Context) (bool, error)
}

func (l leases) RenewLease(ctx context.Context, _ uuid.UUID, _ time.Duration) (bool, error) {
	return l.renew(ctx)
}

// brief is short, and longer than a busy machine leaves a worker without a turn.
func brief(o *jobs.WorkerOptions) { o.LeaseTTL, o.Heartbeat = 3*time.Second, 600*time.Millisecond }

func doc(n int) string {
	return fmt.Sprintf(`{"src":{"slow":[{"id":1,"n":%d},{"id":2,"n":%d},{"id":3,"n":%d}]}}`, n, n, n)
}

// A worker that is cut off from the queue, but thinks nothing of it, can't commit: neither its object nor its job.
func TestZombie(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	open := p.shut()
	p.worker(brief, func(o *jobs.WorkerOptions) {
		o.ID = "zombie"
		o.Concurrency = 1
		o.Leases = leases{p.control, func(context.Context) (bool, error) { return true, nil }}
	})
	id := p.submit(request(t, "", "slow"))
	p.reading(1)
	p.exec(`UPDATE gate SET n = 1`)
	p.sweeper()
	p.worker(brief, func(o *jobs.WorkerOptions) { o.ID = "rightful" })
	job, got := p.completed(id)
	if job.Attempt != 2 || got != doc(1) {
		t.Errorf("attempt %d, document %s", job.Attempt, got)
	}
	open()
	p.reading(0)
	other := p.submit(request(t, "", "slow")) // by the time the zombie may have taken this one it is done with the first
	p.completed(other)
	again, got := p.completed(id)
	if diff := cmp.Diff(job, again); diff != "" || got != doc(1) {
		t.Errorf("the job has changed:\n%s\ndocument %s", diff, got)
	}
	if events := p.events(id); len(events) != 1 {
		t.Errorf("events %+v", events)
	}
	if left := p.files(); len(left) != 2 {
		t.Errorf("objects %v", left)
	}
}

// A zombie that stored its object before it lost the job leaves it for its successor, which replaces it.
func TestZombieWithObject(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	p.exec(`UPDATE gate SET n = 1`)
	stuck := &tenants{Router: p.tenants, hold: make(chan struct{}), holding: make(chan struct{}, 1)}
	w := p.worker(brief, func(o *jobs.WorkerOptions) {
		o.Tenants = stuck
		o.Leases = leases{p.control, func(context.Context) (bool, error) { return true, nil }}
	})
	id := p.submit(request(t, "", "slow"))
	<-stuck.holding // its object is stored, its row isn't written
	if left := p.files(); len(left) != 1 {
		t.Errorf("objects %v", left)
	}
	p.exec(`UPDATE gate SET n = 2`)
	p.sweeper()
	p.worker(brief)
	job, got := p.completed(id)
	if job.Attempt != 2 || got != doc(2) {
		t.Errorf("attempt %d, document %s", job.Attempt, got)
	}
	close(stuck.hold)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, got = p.completed(id); got != doc(2) {
		t.Errorf("document %s", got)
	}
}

// tenants holds up the third acquisition of a worker, which is the commit's: after the claim's and the plan's.
type tenants struct {
	*tenant.Router

	n       atomic.Int32
	hold    chan struct{}
	holding chan struct{}
}

func (s *tenants) Acquire(ctx context.Context, id string) (*tenant.Lease, error) {
	if s.n.Add(1) == 3 {
		s.holding <- struct{}{}
		<-s.hold
	}
	return s.Router.Acquire(ctx, id)
}

// A worker that can't renew its lease gives the job up in time: its statement is cancelled at the source.
func TestLostLease(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(ctx context.Context) (bool, error){
		"gone":   func(context.Context) (bool, error) { return false, nil },
		"silent": func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() },
		"broken": func(context.Context) (bool, error) { return false, errors.New("connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, gated...)
			p.shut()
			var lost atomic.Bool // once the statement runs, however long that takes
			loser := p.worker(brief, func(o *jobs.WorkerOptions) {
				o.Concurrency = 1
				o.Leases = leases{p.control, func(ctx context.Context) (bool, error) {
					if !lost.Load() {
						return true, nil
					}
					return renew(ctx)
				}}
			})
			id := p.submit(request(t, "", "slow"))
			p.reading(1)
			lost.Store(true)
			p.exec(`UPDATE gate SET n = 1`)
			p.reading(0)
			if err := loser.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.sweeper()
			p.worker(brief)
			// The loser may have had another go itself, once the lease had expired.
			if job, got := p.completed(id); job.Attempt < 2 || got != doc(1) || len(p.events(id)) != 1 {
				t.Errorf("attempt %d, document %s, events %+v", job.Attempt, got, p.events(id))
			}
		})
	}
}

// A job whose attempts all ended without a word fails.
func TestExhausted(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, "", "small"))
	for range 5 {
		if err := p.rows(func(j store.Jobs) error {
			_, err := j.Claim(t.Context(), id, time.Now(), 5)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	p.worker()
	want := map[string]any{
		"status": store.JobFailed, "attempt": 5, "code": string(problem.JobAttemptsUsedUp),
		"message": "all 5 attempts are used up; the last one ended without a word",
	}
	if diff := cmp.Diff(want, outcome(p.await(id, terminal))); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if events := p.events(id); len(events) != 1 {
		t.Errorf("events %+v", events)
	}
}

// A stopping worker puts a job that does not end back without spending an attempt.
func TestStopPutsBack(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	p.shut()
	w := p.worker(func(o *jobs.WorkerOptions) { o.Grace = 100 * time.Millisecond })
	id := p.submit(request(t, "", "slow"))
	p.reading(1)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.reading(0)
	job := p.job(id)
	if job.Status != store.JobPending || job.Attempt != 1 || job.AttemptsReturned != 1 {
		t.Errorf("job is %s, attempt %d, %d returned", job.Status, job.Attempt, job.AttemptsReturned)
	}
	var leases int
	if err := p.pool.QueryRow(t.Context(), `SELECT count(*) FROM job_leases`).Scan(&leases); err != nil || leases != 0 {
		t.Errorf("%d leases, %v", leases, err)
	}
	if n := p.entries(); n["available"]+n["scheduled"] != 1 {
		t.Errorf("queue entries %v", n)
	}
	p.exec(`UPDATE gate SET n = 1`)
	p.worker(func(o *jobs.WorkerOptions) { o.MaxAttempts = 1 }) // none was spent
	if job, got := p.completed(id); job.Attempt != 2 || got != doc(1) {
		t.Errorf("attempt %d, document %s", job.Attempt, got)
	}
}

// A stopping worker lets a job end within the grace period.
func TestStopWaits(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	open := p.shut()
	w := p.worker(func(o *jobs.WorkerOptions) { o.Grace = patient })
	id := p.submit(request(t, "", "slow"))
	p.reading(1)
	stopped := make(chan error)
	go func() { stopped <- w.Stop(t.Context()) }()
	open()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if job := p.job(id); job.Status != store.JobCompleted || job.Attempt != 1 {
		t.Errorf("job is %s, attempt %d", job.Status, job.Attempt)
	}
}

// A job that was ended by somebody else stops at the source.
func TestEndedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	p.shut()
	p.worker()
	id := p.submit(request(t, "", "slow"))
	p.reading(1)
	if err := p.rows(func(j store.Jobs) error {
		ev := store.Event{ID: "canceled." + id.String(), Type: "t", Time: time.Now(), Data: []byte(`{}`)}
		return j.Fail(t.Context(), id, 1, store.Failure{Code: "FET-1025", Message: "canceled"}, ev)
	}); err != nil {
		t.Fatal(err)
	}
	p.reading(0)
	p.eventually(func() bool { return p.entries()["completed"] == 1 }, func() string { return fmt.Sprint(p.entries()) })
	if job := p.job(id); *job.ErrorCode != "FET-1025" || len(p.events(id)) != 1 || len(p.files()) != 0 {
		t.Errorf("job %+v, objects %v", outcome(job), p.files())
	}
}

// The tenant's database may be away while a job ends: its end is written when it is back.
func TestTenantDatabaseAway(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	away := &outage{Router: p.tenants}
	p.worker(func(o *jobs.WorkerOptions) { o.Tenants = away })
	id := p.submit(request(t, "", "small"))
	job, _ := p.completed(id)
	if job.Attempt != 1 || away.n.Load() < 5 {
		t.Errorf("attempt %d after %d acquisitions", job.Attempt, away.n.Load())
	}
}

// outage refuses the third and fourth acquisition.
type outage struct {
	*tenant.Router

	n atomic.Int32
}

func (s *outage) Acquire(ctx context.Context, id string) (*tenant.Lease, error) {
	if n := s.n.Add(1); n == 3 || n == 4 {
		return nil, problem.New(problem.TenantUnavailable, "away")
	}
	return s.Router.Acquire(ctx, id)
}

// Any number of sweepers put a job back once.
func TestSweepers(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	ctx := t.Context()
	expired, stray := p.submit(request(t, "", "small")), p.submit(request(t, "", "small:id"))
	must(p.pool.Exec(ctx, `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() - interval '1 hour'`))
	for _, id := range []uuid.UUID{expired, uuid.New()} { // the second one's entry is long gone
		if ok, err := p.control.TakeLease(ctx, control.Lease{TenantID: acme, JobID: id, Token: uuid.New(), QueueID: p.entry(id), WorkerID: "dead"}, -time.Second); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	var back atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		s := must(jobs.NewSweeper(jobs.SweeperOptions{Control: p.control, Queue: p.queue}))
		wg.Go(func() { // a stray is believed at the second sight
			for range 2 {
				back.Add(int32(must(s.Sweep(ctx))))
			}
		})
	}
	wg.Wait()
	if back.Load() != 3 {
		t.Errorf("%d jobs put back, want 3", back.Load())
	}
	if diff := cmp.Diff(map[string]int{"discarded": 2, "available": 3}, p.entries()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	p.worker()
	p.completed(expired)
	p.completed(stray)
}

// entry is the queue entry of a job, 0 when there is none.
func (p *plant) entry(job uuid.UUID) (id int64) {
	_ = p.pool.QueryRow(context.Background(), `SELECT id FROM river_job WHERE args ->> 'jobId' = $1 ORDER BY id DESC`, job.String()).Scan(&id)
	return id
}

// A driver that panics fails its job, not the worker, and only after all attempts.
func TestPanic(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, "", "small"))
	runner := *p.runner
	runner.Drivers = source.Drivers{source.PostgreSQL: panics{}}
	p.worker(func(o *jobs.WorkerOptions) { o.Runner = &runner })
	want := map[string]any{
		"status": store.JobFailed, "attempt": 5, "code": string(problem.JobAttemptsUsedUp),
		"message": "all 5 attempts failed; the last one: something unforeseen happened",
	}
	if diff := cmp.Diff(want, outcome(p.await(id, terminal))); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

// A driver that panics while a request is checked fails the request, not the process.
func TestPanicInCheck(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	guard := must(dial.NewGuard(dial.Policy{AllowPrivate: true}))
	conns := must(connections.New(connections.Options{Keys: p.keys, Guard: guard, Drivers: source.Drivers{source.PostgreSQL: panics{}}}))
	p.service = must(jobs.NewService(jobs.ServiceOptions{Queue: p.queue, Connections: conns, Keys: p.keys}))
	err := p.trySubmit(`{"src": {"small": ["id"]}}`, "")
	if problem.CodeOf(err) != problem.Internal || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "panic: string\n") || strings.Contains(fmt.Sprint(errors.Unwrap(err)), "driver's bug") {
		t.Errorf("submit: %v", err)
	}
}

// A connection stored before unencrypted ones were forbidden ends its job at once.
func TestUnencryptedConnection(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	guard := must(dial.NewGuard(dial.Policy{AllowPrivate: true}))
	strict := must(connections.New(connections.Options{Keys: p.keys, Guard: guard, Drivers: p.drivers, RequireTLS: true}))
	id := p.submit(request(t, "", "small"))
	p.worker(func(o *jobs.WorkerOptions) { o.Connections = strict })
	want := map[string]any{
		"status": store.JobFailed, "attempt": 1, "code": string(problem.SSLModeInvalid), "datasource": "src",
		"message": `the connection's TLS mode may leave it unencrypted, which is not allowed here: datasource "src"`,
	}
	if diff := cmp.Diff(want, outcome(p.await(id, terminal))); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

type panics struct{}

func (panics) Open(context.Context, source.Params, source.Dialer) (source.Session, error) {
	panic("driver's bug")
}

// A restart of the server that holds queue, leases and jobs costs no job, completes none twice and loses no event.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	p := newPlantOn(t, server.PG, append(gated, smallTable)...)
	open := p.shut()
	patient := func(o *jobs.WorkerOptions) { o.LeaseTTL, o.Heartbeat = 4*time.Second, time.Second }
	p.worker(patient)
	p.worker(patient)
	p.sweeper()
	ids := []uuid.UUID{p.submit(request(t, "", "slow")), p.submit(request(t, "", "slow:id"))}
	p.reading(2)
	for range 10 {
		ids = append(ids, p.create(t.Context(), request(t, "", "small")))
	}
	server.Restart()
	open()
	ended := func(id uuid.UUID) bool {
		l, err := p.tenants.Acquire(t.Context(), acme)
		if err != nil { // the database has just come back
			return false
		}
		defer l.Release()
		job, err := store.NewJobs(l.DB(t.Context())).Get(t.Context(), id)
		return err == nil && job.Status.Terminal()
	}
	for _, id := range ids {
		p.eventually(func() bool { return ended(id) }, func() string { return "a job has not ended" })
		if _, doc := p.completed(id); doc == "" || len(p.events(id)) != 1 {
			t.Errorf("document %q, events %+v", doc, p.events(id))
		}
	}
	if n := len(p.files()); n != len(ids) {
		t.Errorf("%d objects of %d jobs", n, len(ids))
	}
}
