package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
)

const (
	// persistFor is how long an attempt tries to write down its end while the tenant's database is unavailable. The
	// lease is kept meanwhile. An end that could not be written is forgotten, and the job runs again.
	persistFor = time.Minute
	persistMin = 500 * time.Millisecond // between two tries, doubled up to persistMax
	persistMax = 4 * time.Second

	maxDoublings = 3 // 1, 2, 4, 8
	jitter       = 0.2
)

// errForgotten says that an end could not be written.
var errForgotten = errors.New("jobs: the end of the attempt could not be written")

// persist runs fn on the tenant's jobs until it succeeds or fails for good, as long as the lease lasts. A stopping
// worker still gets to do it, within the time it lingers.
func (r *run) persist(ctx context.Context, fn func(context.Context, store.Jobs) error) error {
	try, cancel := context.WithTimeout(r.last, persistFor)
	defer cancel()
	for wait := persistMin; ; wait = min(2*wait, persistMax) {
		if errors.Is(context.Cause(r.held.ctx), errLeaseLost) {
			return errLeaseLost
		}
		err := r.rows(try, func(jobs store.Jobs) error { return fn(try, jobs) })
		if err == nil || !passing(err) {
			return err
		}
		r.log.LogAttrs(ctx, slog.LevelWarn, "end of attempt not written", slog.Any("error", err))
		timer := time.NewTimer(wait)
		select {
		case <-try.Done():
			timer.Stop()
			return errForgotten
		case <-timer.C:
		}
	}
}

// passing tells whether an error of a tenant's database may be gone soon.
func passing(err error) bool {
	code := problem.CodeOf(err)
	return code == problem.TenantUnavailable || code == problem.Unavailable
}

// complete ends the job with its result.
func (r *run) complete(ctx context.Context, result extract.Result) disposition {
	tables, err := json.Marshal(result.Tables)
	if err != nil {
		return r.afterFailure(ctx, asFailure(err))
	}
	at := r.now()
	expires := at.Add(r.opts.ResultTTL)
	facts := store.CompleteFacts{
		Path: result.Facts.Key, HMAC: result.Facts.HMAC, SHA256: result.Facts.SHA256, Format: result.Format,
		SizeBytes: result.SizeBytes, RowCount: result.Rows, KeyVersion: result.Facts.KeyVersion, Tables: tables,
		ExpiresAt: &expires,
	}
	if r.output().PerTable() {
		facts.ManifestBytes = &result.Facts.SizeBytes
	}
	event, err := completedEvent(ctx, r.job, at, facts)
	if err != nil {
		return r.afterFailure(ctx, asFailure(err))
	}
	err = r.persist(ctx, func(ctx context.Context, jobs store.Jobs) error {
		return jobs.Complete(ctx, r.id, r.job.Attempt, facts, event)
	})
	if errors.Is(err, store.ErrCancelRequested) {
		return r.cancel(ctx)
	}
	if errors.Is(err, store.ErrLostAttempt) && !r.isCompletedWith(ctx, facts) {
		return r.lost(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrLostAttempt) {
		return r.forgotten(ctx, err)
	}
	took := r.opts.Now().Sub(r.begun)
	r.metrics.completed(ctx, took, result.Rows, result.SizeBytes)
	r.log.LogAttrs(ctx, slog.LevelInfo, "job completed", slog.Int64("rows", result.Rows),
		slog.Int64("bytes", result.SizeBytes), slog.Duration("duration", took))
	return done()
}

// isCompletedWith tells whether the job has that very result: the answer to a commit can get lost.
func (r *run) isCompletedWith(ctx context.Context, facts store.CompleteFacts) bool {
	job, err := r.current(ctx)
	return err == nil && job.Status == store.JobCompleted && job.Attempt == r.job.Attempt &&
		job.ResultSHA256 != nil && *job.ResultSHA256 == facts.SHA256
}

// current reads the job as it is now.
func (r *run) current(ctx context.Context) (job *store.Job, err error) {
	err = r.persist(ctx, func(ctx context.Context, jobs store.Jobs) (err error) {
		job, err = jobs.Get(ctx, r.id)
		return err
	})
	return job, err
}

// lost ends an attempt that isn't the job's any more. Its object stays for the attempt that is, which clears the key
// or has done so; a job that failed has none.
func (r *run) lost(ctx context.Context) disposition {
	r.log.LogAttrs(ctx, slog.LevelWarn, "attempt lost")
	if job, err := r.current(ctx); err == nil && job.Status == store.JobFailed {
		r.discard(ctx)
	}
	return done()
}

// forgotten leaves the job as it is: processing, without a lease soon. The entry comes back and the job is claimed
// anew; should the lease be lost, then by whoever the sweeper gave the job to.
func (r *run) forgotten(ctx context.Context, err error) disposition {
	r.log.LogAttrs(ctx, slog.LevelError, "attempt forgotten", slog.Any("error", err))
	if errors.Is(err, errLeaseLost) {
		return later(r.opts.LeaseTTL)
	}
	return later(unavailableDelay)
}

// afterFailure decides what becomes of a job whose attempt failed.
func (r *run) afterFailure(ctx context.Context, f *extract.Failure) disposition {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errLeaseLost):
		r.log.LogAttrs(ctx, slog.LevelWarn, "lease lost")
		return later(r.opts.LeaseTTL)
	case errors.Is(f, store.ErrLostAttempt):
		return r.lost(ctx)
	case errors.Is(f, store.ErrCancelRequested):
		return r.cancel(ctx)
	case ctx.Err() != nil:
		return r.putBack(ctx)
	case f.Transient && r.spent() < r.opts.MaxAttempts:
		return r.retry(ctx, f)
	case f.Transient:
		used := *f
		used.Code = problem.JobAttemptsUsedUp
		used.Message = fmt.Sprintf("all %d attempts failed; the last one: %s", r.opts.MaxAttempts, f.Message)
		return r.fail(ctx, &used)
	}
	return r.fail(ctx, f)
}

// spent is how many attempts the job has used, this one included.
func (r *run) spent() int { return r.job.Attempt - r.job.AttemptsReturned }

// putBack returns the job unharmed: the worker stops.
func (r *run) putBack(ctx context.Context) disposition {
	err := r.persist(ctx, func(ctx context.Context, jobs store.Jobs) error {
		return jobs.Release(ctx, r.id, r.job.Attempt, nil, true)
	})
	if errors.Is(err, store.ErrCancelRequested) {
		return r.cancel(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrLostAttempt) {
		return r.forgotten(ctx, err)
	}
	r.log.LogAttrs(ctx, slog.LevelInfo, "job put back")
	return later(0)
}

// retry lets the job wait for its next attempt.
func (r *run) retry(ctx context.Context, f *extract.Failure) disposition {
	delay := r.delay()
	next := r.now().Add(delay)
	err := r.persist(ctx, func(ctx context.Context, jobs store.Jobs) error {
		return jobs.Release(ctx, r.id, r.job.Attempt, &next, false)
	})
	switch {
	case errors.Is(err, store.ErrCancelRequested):
		return r.cancel(ctx)
	case errors.Is(err, store.ErrLostAttempt):
		return r.lost(ctx)
	case err != nil:
		return r.forgotten(ctx, err)
	}
	r.metrics.retried(ctx, f.Code)
	r.log.LogAttrs(ctx, slog.LevelWarn, "job will be retried", slog.Duration("delay", delay), slog.Any("error", f))
	return later(delay)
}

// delay doubles with every attempt, give or take a fifth.
func (r *run) delay() time.Duration {
	d := r.opts.RetryUnit << min(max(r.spent()-1, 0), maxDoublings)
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // spreads load, guards nothing
}

// cancel ends the job as somebody asked it to.
func (r *run) cancel(ctx context.Context) disposition { return r.fail(ctx, canceled()) }

// fail ends the job without a result.
func (r *run) fail(ctx context.Context, f *extract.Failure) disposition {
	event, err := failedEvent(ctx, r.job, r.now(), f)
	if err != nil {
		return r.forgotten(ctx, err)
	}
	err = r.persist(ctx, func(ctx context.Context, jobs store.Jobs) error {
		return jobs.Fail(ctx, r.id, r.job.Attempt, store.Failure{
			Code: string(f.Code), Message: f.Message, Datasource: f.Datasource, Table: f.Table,
		}, event)
	})
	switch {
	case errors.Is(err, store.ErrCancelRequested):
		return r.cancel(ctx)
	case errors.Is(err, store.ErrLostAttempt):
		return r.lost(ctx)
	case err != nil:
		return r.forgotten(ctx, err)
	}
	if r.job.Attempt > 1 || f.Code == problem.JobCanceled || r.output().PerTable() {
		r.discard(ctx) // what an earlier attempt may have left, or this one stored before it learned of its end
	}
	took := r.opts.Now().Sub(r.begun)
	r.metrics.failed(ctx, took, f.Code)
	level := slog.LevelWarn
	if f.Code == problem.JobCanceled { // as asked
		level = slog.LevelInfo
	}
	r.log.LogAttrs(ctx, level, "job failed", slog.String("code", string(f.Code)), slog.Duration("duration", took), slog.Any("error", f))
	return done()
}

// discard removes what lies under the keys of a job that failed. Nothing can ever refer to it.
func (r *run) discard(ctx context.Context) {
	last, cancel := context.WithTimeout(r.last, discardFor)
	defer cancel()
	err := r.output().Reclaim(last, r.opts.Runner.Store, r.key(), func(context.Context) error { return nil })
	if err != nil && !errors.Is(err, results.ErrGone) {
		r.log.LogAttrs(ctx, slog.LevelWarn, "object of a failed job not removed", slog.Any("error", err))
	}
}

const discardFor = 10 * time.Second
