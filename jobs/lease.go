package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/fetcherhq/fetcher/store/control"
)

// errLeaseLost is the cause of a run's end when its job may be running elsewhere.
var errLeaseLost = errors.New("jobs: the lease is lost")

// held is the right to run one job, while it lasts.
type held struct {
	ctx  context.Context // ends when the lease is lost, with errLeaseLost, or the worker stops
	drop func()          // stops renewing and gives the lease back

	ended bool // the job has: its event is to be sent
}

// take takes the job's lease and keeps it, for a tenant that may run so many jobs. Nil without an error: somebody else
// has it.
func (w *Worker) take(ctx context.Context, entry *river.Job[entryArgs], maxRunning int) (*held, error) {
	token, asked := uuid.New(), time.Now()
	asking, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	taken, err := w.opts.Leases.TakeLease(asking, control.Lease{
		TenantID: entry.Args.TenantID, JobID: entry.Args.JobID, Token: token, QueueID: entry.ID, WorkerID: w.opts.ID,
		MaxRunning: maxRunning,
	}, w.opts.LeaseTTL)
	if err != nil || !taken {
		return nil, err
	}
	run, lose := context.WithCancelCause(ctx)
	// Renewing goes on while a stopping worker still writes down what became of the job.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { w.keep(keeping, token, asked.Add(w.opts.LeaseTTL), func() { lose(errLeaseLost) }) })
	h := &held{ctx: run}
	h.drop = func() {
		stop()
		wg.Wait()
		lost := errors.Is(context.Cause(run), errLeaseLost)
		lose(nil)
		if lost {
			return
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(w.opts.Heartbeat, controlTimeout))
		defer cancel()
		give := w.opts.Leases.DropLease
		if h.ended {
			give = w.opts.Leases.EndLease
		}
		_ = give(last, token) // it expires otherwise, and the sweeper notes the event
	}
	return h, nil
}

// keep renews the lease until ctx ends, and calls lose when that fails for good. expires is when the lease does at
// the earliest: it lasts from a moment after the question was sent.
func (w *Worker) keep(ctx context.Context, token uuid.UUID, expires time.Time, lose func()) {
	wait := w.opts.Heartbeat
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		asked := time.Now()
		// A question that hangs leaves time for another one.
		renewal, cancel := context.WithTimeout(ctx, min(w.opts.Heartbeat/2, time.Until(expires)))
		ok, err := w.opts.Leases.RenewLease(renewal, token, w.opts.LeaseTTL)
		cancel()
		retry := w.opts.Heartbeat / 5
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && ok:
			expires, wait = asked.Add(w.opts.LeaseTTL), w.opts.Heartbeat
		case err == nil, time.Until(expires) < retry:
			lose()
			return
		default:
			wait = retry
		}
	}
}
