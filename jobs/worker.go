package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// Leases is who may run a job: a control.DB.
type Leases interface {
	TakeLease(ctx context.Context, l control.Lease, ttl time.Duration) (bool, error)
	RenewLease(ctx context.Context, token uuid.UUID, ttl time.Duration) (bool, error)
	DropLease(ctx context.Context, token uuid.UUID) error
	EndLease(ctx context.Context, token uuid.UUID) error // and notes that the tenant has an event to send
}

// Turns keep tenants from running more than their share: a control.DB.
type Turns interface {
	PromoteNext(ctx context.Context, tenantID string) error
	HoldEntries(ctx context.Context, tenantID string) error
	ReleaseEntries(ctx context.Context, tenantID string, maxRunning int) error
}

// Tenants gives access to tenants' databases: a tenant.Router.
type Tenants interface {
	Acquire(ctx context.Context, tenantID string) (*tenant.Lease, error)
	AcquireSuspended(ctx context.Context, tenantID string) (*tenant.Lease, error)
	Info(ctx context.Context, tenantID string) (tenant.Info, error)
}

// WorkerOptions configure a Worker. The first group is required; every other zero member takes the default named
// beside it.
type WorkerOptions struct {
	Pool        *pgxpool.Pool // of the control database, for the queue
	Leases      Leases
	Tenants     Tenants
	Connections *connections.Service
	Runner      *extract.Runner
	Keys        *secret.Keyring // opens filters

	ID           string        // of this worker, unlike any other's; random
	SingleTenant bool          // object keys without the tenant
	Concurrency  int           // jobs at once; 5
	MaxRunning   int           // jobs of a tenant at once, over all workers, unless its record says otherwise; no limit
	Timeout      time.Duration // of one attempt; 30 min
	MaxAttempts  int           // 5
	MaxBytes     int64         // of a result; 10 GiB
	MaxRows      int64         // of a job; no limit
	SafeCells    bool          // CSV_SAFE_CELLS
	ResultTTL    time.Duration // 7 days
	Grace        time.Duration // for running jobs when stopping; 30 s
	Linger       time.Duration // after that, to put back those that have not ended; 8 s

	LeaseTTL    time.Duration // 15 s
	Heartbeat   time.Duration // between renewals; 5 s
	RetryUnit   time.Duration // delay before the second attempt, doubled before each further one; 1 s
	RowPatience time.Duration // for the row of an entry to appear; 1 min

	Logger *slog.Logger
	Meter  metric.Meter
	Tracer trace.TracerProvider
	Now    func() time.Time
}

func (o WorkerOptions) validate() error {
	if o.Pool == nil || o.Leases == nil || o.Tenants == nil || o.Connections == nil || o.Runner == nil || o.Keys == nil {
		return errors.New("worker: pool, leases, tenants, connections, runner and keys are required")
	}
	return nil
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	orElse(&o.ID, "worker-"+uuid.NewString())
	orElse(&o.Concurrency, 5)
	orElse(&o.Timeout, 30*time.Minute)
	orElse(&o.MaxAttempts, 5)
	orElse(&o.MaxBytes, 10<<30)
	orElse(&o.ResultTTL, 7*24*time.Hour)
	orElse(&o.Grace, 30*time.Second)
	orElse(&o.Linger, 8*time.Second)
	orElse(&o.LeaseTTL, leaseTTL)
	orElse(&o.Heartbeat, heartbeat)
	orElse(&o.RetryUnit, time.Second)
	orElse(&o.RowPatience, rowPatience)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = metricnoop.Meter{}
	}
	if o.Tracer == nil {
		o.Tracer = tracenoop.NewTracerProvider()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func orElse[T comparable](member *T, value T) {
	var zero T
	if *member == zero {
		*member = value
	}
}

// Worker takes jobs from the queue and runs them.
type Worker struct {
	opts    WorkerOptions
	turns   Turns
	client  *river.Client[pgx.Tx]
	metrics *metrics
	tracer  trace.Tracer
}

// The queue's own housekeeping. Runs that hang are the sweeper's business, long before the rescue of the library.
const (
	rescueAfter     = 7 * 24 * time.Hour
	keepFinished    = time.Hour
	keepDiscarded   = 24 * time.Hour
	stopMargin      = 2 * time.Second // for the queue to take note
	instrumentation = "github.com/fetcherhq/fetcher/jobs"
)

// NewWorker returns a worker that has not been started.
func NewWorker(o WorkerOptions) (*Worker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	w := &Worker{opts: o, turns: control.New(o.Pool), tracer: o.Tracer.Tracer(instrumentation)}
	var err error
	if w.metrics, err = newMetrics(o.Meter); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	workers := river.NewWorkers()
	if err = river.AddWorkerSafely(workers, &entryWorker{worker: w}); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w.client, err = river.NewClient(riverpgxv5.New(o.Pool), &river.Config{
		ID:                          o.ID,
		Queues:                      map[string]river.QueueConfig{queueName: {MaxWorkers: o.Concurrency}},
		Workers:                     workers,
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           fetchPoll,
		JobTimeout:                  -1, // ours
		RescueStuckJobsAfter:        rescueAfter,
		CompletedJobRetentionPeriod: keepFinished,
		CancelledJobRetentionPeriod: keepFinished,
		DiscardedJobRetentionPeriod: keepDiscarded,
		SoftStopTimeout:             o.Grace,
		Logger:                      quiet(o.Logger),
	})
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return w, nil
}

// Start begins to take jobs. It returns when the queue is connected. ctx bounds only that; Stop ends the work.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	return nil
}

// Stop takes no more jobs, lets those that run finish for the grace period, puts the rest back without spending an
// attempt, and returns when all is done. When ctx ends the grace period does too. What can't be put back in time, or
// told to the queue, is left to the sweeper: Stop takes no longer than grace and linger and a moment, and fails then.
func (w *Worker) Stop(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, w.opts.Grace+w.opts.Linger+stopMargin)
	defer cancel()
	err := w.client.Stop(patient)
	if err == nil {
		return nil
	}
	rest := w.opts.Linger + stopMargin
	if ctx.Err() == nil {
		rest = 0 // all of it has passed
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest)
	defer cancel()
	if err := w.client.StopAndCancel(last); err != nil {
		return fmt.Errorf("stop worker: %w", err)
	}
	return nil
}

// entryWorker is the worker as the queue's library wants it.
type entryWorker struct {
	river.WorkerDefaults[entryArgs]

	worker *Worker
}

// Timeout turns the library's own off.
func (e *entryWorker) Timeout(*river.Job[entryArgs]) time.Duration { return -1 }

// Work handles one entry. It never returns an error but a wish to see the entry again.
func (e *entryWorker) Work(ctx context.Context, entry *river.Job[entryArgs]) error {
	return e.worker.work(ctx, entry)
}
