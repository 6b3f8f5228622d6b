package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

const (
	queueName = "extract"

	// fetchCooldown is how long a worker collects announcements before it fetches, announceCooldown how long an enqueuer
	// leaves further entries unannounced. fetchPoll is for those that fall into that gap.
	fetchCooldown    = 2 * time.Millisecond
	announceCooldown = time.Millisecond
	fetchPoll        = 200 * time.Millisecond

	// entryAttempts is never used up: a run ends by finishing or snoozing its entry, which costs none.
	entryAttempts = 25
)

// entryArgs is what a queue entry says. The members tenantId and jobId are known to store/control.
type entryArgs struct {
	TenantID string    `json:"tenantId"`
	JobID    uuid.UUID `json:"jobId"`

	// Trace is the W3C trace context of the request, so that its trace goes on in the worker.
	Trace map[string]string `json:"trace,omitempty"`
}

// Kind names the entries to River.
func (entryArgs) Kind() string { return "extract" }

// Queue writes entries. It is safe for concurrent use.
type Queue struct {
	client  *river.Client[pgx.Tx]
	control *control.DB
}

// NewQueue returns the queue in the control database behind pool.
func NewQueue(pool *pgxpool.Pool, logger *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{FetchCooldown: announceCooldown, Logger: quiet(logger)})
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	return &Queue{client: client, control: control.New(pool)}, nil
}

// Enqueue writes the entry of a job, with the trace of ctx. It commits on its own. When the queue does not answer within
// 3 s, as at any other failure, the error is FET-0003.
//
// The tenant's entries take turns with those of other tenants: its first goes to the head of the queue's line, the rest
// behind (control.PriorityHead).
func (q *Queue) Enqueue(ctx context.Context, tenantID string, job uuid.UUID) error {
	args := entryArgs{TenantID: tenantID, JobID: job}
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer(instrumentation)
	ctx, span := tracer.Start(ctx, "enqueue job", trace.WithSpanKind(trace.SpanKindProducer))
	defer span.End()
	carrier := propagation.MapCarrier{}
	if (propagation.TraceContext{}).Inject(ctx, carrier); len(carrier) > 0 {
		args.Trace = carrier
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	priority := control.PriorityHead
	behind, err := q.control.HasHead(ctx, tenantID)
	if behind {
		priority = control.PriorityBehind
	}
	if err == nil {
		_, err = q.client.Insert(ctx, args, insertOptions(priority))
	}
	if err != nil {
		return problem.Wrap(store.Cause("enqueue job", err), problem.Unavailable, "the queue is unavailable").After(retryAfter)
	}
	return nil
}

// ended tells that a job ended without a worker. The event is sent sooner for it: the job's entry is still there, and
// whoever finds the job ended tells as well.
func (q *Queue) ended(ctx context.Context, tenantID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlTimeout)
	defer cancel()
	_ = q.control.MarkEvents(ctx, tenantID)
}

// retryAfter is what a caller is told when the queue can't be used at the moment.
const retryAfter = 2 * time.Second

func insertOptions(priority int) *river.InsertOpts {
	return &river.InsertOpts{Queue: queueName, Priority: priority, MaxAttempts: entryAttempts}
}

// again writes in tx another entry of the job, like the one with the id if that still is there.
func (q *Queue) again(ctx context.Context, tx pgx.Tx, id int64, tenantID string, job uuid.UUID) error {
	args, priority := entryArgs{TenantID: tenantID, JobID: job}, control.PriorityHead
	old, err := q.client.JobGetTx(ctx, tx, id)
	switch {
	case err == nil:
		priority = old.Priority
		if err = json.Unmarshal(old.EncodedArgs, &args); err != nil {
			return fmt.Errorf("read queue entry: %w", err)
		}
	case !errors.Is(err, river.ErrNotFound):
		return fmt.Errorf("read queue entry: %w", store.Cause("get", err))
	}
	if _, err := q.client.InsertTx(ctx, tx, args, insertOptions(priority)); err != nil {
		return fmt.Errorf("requeue: %w", store.Cause("insert", err))
	}
	return nil
}
