package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// canceled is why a job ends that somebody asked to stop.
func canceled() *extract.Failure {
	return &extract.Failure{Code: problem.JobCanceled, Message: "the job was canceled"}
}

// Cancel ends a job on request and returns it as it stands then: a pending one failed with FET-1025 and its event, a
// processing one still processing, for its worker to end it so within 5 s. A job of a worker that died ends so when it
// is claimed next. Once Cancel has returned a job it never completes. FET-1001: there is no such job; FET-1022: it has
// ended already. The lease stays the caller's.
func (s *Service) Cancel(ctx context.Context, lease *tenant.Lease, id uuid.UUID) (*store.Job, error) {
	f := canceled()
	var at time.Time // of the event, if the job was pending
	job, err := store.NewJobs(lease.DB(ctx)).Cancel(ctx, id, store.Failure{Code: string(f.Code), Message: f.Message},
		func(job *store.Job) (store.Event, error) {
			at = s.opts.Now().UTC().Truncate(time.Microsecond)
			return failedEvent(ctx, job, at, f)
		})
	if errors.Is(err, store.ErrTerminal) {
		return nil, problem.New(problem.JobTerminal, "the job has already ended")
	}
	if err != nil {
		return nil, err
	}
	if job.CompletedAt != nil && job.CompletedAt.Equal(at) { // not by its worker
		s.metrics.canceled(ctx)
		s.opts.Queue.ended(ctx, lease.TenantID())
	}
	return job, nil
}
