package jobs_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// behind returns a proxy before the plant's control database, and a pool through it as a process has one.
func (p *plant) behind(t *testing.T) (*proxy, *pgxpool.Pool) {
	t.Helper()
	x, dsn := newProxy(t, p.pool.Config().ConnString())
	settings := must(pgxpool.ParseConfig(dsn))
	tenant.GuardControl(settings.ConnConfig, 5*time.Second, 2*time.Minute) // not what ends a wait here
	pool := must(pgxpool.NewWithConfig(t.Context(), settings))
	t.Cleanup(func() {
		x.speak()
		pool.Close()
	})
	return x, pool
}

// answered fails the test when fn takes longer than the limit.
func answered(t *testing.T, limit time.Duration, fn func() error) error {
	t.Helper()
	began := time.Now()
	err := fn()
	if took := time.Since(began); took > limit {
		t.Errorf("took %s, more than %s: %v", took, limit, err)
	}
	return err
}

// Nobody waits long for a control database that takes everything and answers nothing, also not for another who does.
func TestSilentControlDatabase(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	x, pool := p.behind(t)
	p.queue = must(jobs.NewQueue(pool, p.log))
	p.service = must(jobs.NewService(jobs.ServiceOptions{Queue: p.queue, Connections: p.conns, Keys: p.keys}))
	p.submit(request(t, "", "small"))
	sweeper := must(jobs.NewSweeper(jobs.SweeperOptions{Control: control.New(pool), Queue: p.queue}))
	x.hush()
	req := request(t, "", "small")
	submit := func() error {
		l := p.lease()
		defer l.Release()
		_, _, err := p.service.Submit(t.Context(), l, req)
		return err
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := answered(t, patient, submit); problem.CodeOf(err) != problem.Unavailable {
				t.Errorf("submit: %v", err)
			}
		})
	}
	wg.Go(func() {
		err := answered(t, patient, func() error { _, err := sweeper.Sweep(t.Context()); return err })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sweep: %v", err)
		}
	})
	wg.Wait()
	x.speak()
	if err := submit(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// hangs are leases whose first questions get no answer.
type hangs struct {
	*control.DB

	takes, renewals atomic.Int32
}

func (h *hangs) TakeLease(ctx context.Context, l control.Lease, ttl time.Duration) (bool, error) {
	if h.takes.Add(1) == 1 {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return h.DB.TakeLease(ctx, l, ttl)
}

func (h *hangs) RenewLease(ctx context.Context, token uuid.UUID, ttl time.Duration) (bool, error) {
	if h.renewals.Add(1) == 1 {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return h.DB.RenewLease(ctx, token, ttl)
}

// One question that hangs costs neither the worker its slot nor the job its lease.
func TestHangingQuestions(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	open := p.shut()
	h := &hangs{DB: p.control}
	p.worker(brief, func(o *jobs.WorkerOptions) { o.Concurrency, o.Leases = 1, h })
	id := p.submit(request(t, "", "slow"))
	p.reading(1)
	p.eventually(func() bool { return h.renewals.Load() >= 4 }, func() string { return "the lease is not renewed" })
	open()
	if job, got := p.completed(id); job.Attempt != 1 || got != doc(0) || h.takes.Load() != 2 {
		t.Errorf("attempt %d, document %s, lease taken %d times", job.Attempt, got, h.takes.Load())
	}
}

// away refuses every acquisition once it is set.
type away struct {
	*tenant.Router

	gone atomic.Bool
}

func (a *away) Acquire(ctx context.Context, id string) (*tenant.Lease, error) {
	if a.gone.Load() {
		return nil, problem.New(problem.TenantUnavailable, "away")
	}
	return a.Router.Acquire(ctx, id)
}

// A stopping worker does not wait for a tenant's database that may come back some day.
func TestStopWithoutTenantDatabase(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	p.shut()
	a := &away{Router: p.tenants}
	w := p.worker(func(o *jobs.WorkerOptions) {
		o.Tenants, o.Grace, o.Linger = a, 100*time.Millisecond, 500*time.Millisecond
	})
	id := p.submit(request(t, "", "slow"))
	p.reading(1)
	a.gone.Store(true)
	if err := answered(t, patient/2, func() error { return w.Stop(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	if job := p.job(id); job.Status != store.JobProcessing { // left to a successor
		t.Errorf("job is %s", job.Status)
	}
	p.exec(`UPDATE gate SET n = 1`)
	p.worker()
	if job, got := p.completed(id); job.Attempt != 2 || got != doc(1) {
		t.Errorf("attempt %d, document %s", job.Attempt, got)
	}
}

// Neither does it wait for a queue that does not answer.
func TestStopWithoutControlDatabase(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	open := p.shut()
	x, pool := p.behind(t)
	w := p.worker(func(o *jobs.WorkerOptions) {
		o.Pool, o.Grace, o.Linger = pool, 100*time.Millisecond, 100*time.Millisecond
	})
	p.submit(request(t, "", "slow"))
	p.reading(1)
	x.hush()
	err := answered(t, patient, func() error { return w.Stop(t.Context()) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v", err)
	}
	x.speak()
	open()
}

// What comes for a job that waits for its next attempt does not cut the wait short.
func TestRetryIsNotCutShort(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, `CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS
		$$ BEGIN RAISE serialization_failure; END $$`, `CREATE VIEW moody AS SELECT fails() AS id`)
	p.worker(func(o *jobs.WorkerOptions) { o.RetryUnit, o.MaxAttempts = 4*time.Second, 2 })
	id := p.submit(request(t, "", "moody"))
	job := p.await(id, func(j *store.Job) bool { return j.NextAttemptAt != nil })
	if err := p.queue.Enqueue(t.Context(), acme, id); err != nil {
		t.Fatal(err)
	}
	next := *job.NextAttemptAt
	if job = p.await(id, terminal); job.Attempt != 2 || job.StartedAt.Before(next) {
		t.Errorf("attempt %d at %s, not before %s", job.Attempt, job.StartedAt, next)
	}
}

// An entry that looks stray at one moment only is left alone: the outcome of its run was about to be written down.
func TestStrayAtSecondSight(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	p.submit(request(t, "", "small"))
	s := must(jobs.NewSweeper(jobs.SweeperOptions{Control: p.control, Queue: p.queue}))
	run := func(ago string) {
		must(p.pool.Exec(t.Context(), `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() - $1::interval`, ago))
	}
	sweep := func(what string, want int) {
		t.Helper()
		if n, err := s.Sweep(t.Context()); err != nil || n != want {
			t.Fatalf("%s: %d put back, %v; want %d", what, n, err, want)
		}
	}
	run("1 hour")
	sweep("first sight", 0)
	must(p.pool.Exec(t.Context(), `UPDATE river_job SET state = 'scheduled'`))
	sweep("finished", 0)
	run("1 hour")
	sweep("first sight again", 0)
	run("1 minute")
	sweep("another run", 0)
	sweep("second sight", 1)
	sweep("put back", 0)
}
