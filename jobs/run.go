package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	progressEvery = time.Second
	// aliveEvery is how often an attempt looks whether it is still the current one and nobody asked it to stop, also
	// without progress. With the tick of progressEvery this leaves 2 of the 5 s in which a canceled statement must be
	// gone.
	aliveEvery = 2 * time.Second
)

// run is one attempt at one job.
type run struct {
	*Worker

	tenant string
	id     uuid.UUID
	held   *held
	last   context.Context // for what must still be done after a stop; ends a little later than that
	log    *slog.Logger
	job    *store.Job // as claimed
	begun  time.Time
}

// lease returns a lease on the tenant's database. An attempt that was begun before the tenant was suspended runs to its
// end.
func (r *run) lease(ctx context.Context) (*tenant.Lease, error) {
	lease, err := r.opts.Tenants.Acquire(ctx, r.tenant)
	if problem.CodeOf(err) == problem.TenantSuspended && r.job != nil {
		return r.opts.Tenants.AcquireSuspended(ctx, r.tenant)
	}
	return lease, err
}

// rows runs fn on the tenant's jobs under a lease that is held no longer than that.
func (r *run) rows(ctx context.Context, fn func(store.Jobs) error) error {
	lease, err := r.lease(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	return fn(store.NewJobs(lease.DB(ctx)))
}

// claimAndRun makes an attempt. An error says why there was none; what becomes of an attempt is no error here.
func (r *run) claimAndRun(ctx context.Context) (disposition, error) {
	err := r.rows(ctx, func(jobs store.Jobs) (err error) {
		r.job, err = jobs.Claim(ctx, r.id, r.now(), r.opts.MaxAttempts)
		return err
	})
	r.begun = r.opts.Now()
	switch {
	case errors.Is(err, store.ErrTerminal):
		return done(), nil
	case r.job != nil && r.job.CancelRequestedAt != nil: // its last attempt ended before it could do so
		return r.cancel(ctx), nil
	case errors.Is(err, store.ErrTooEarly):
		return later(r.job.NextAttemptAt.Sub(r.now())), nil
	case errors.Is(err, store.ErrExhausted):
		return r.fail(ctx, &extract.Failure{
			Code:    problem.JobAttemptsUsedUp,
			Message: fmt.Sprintf("all %d attempts are used up; the last one ended without a word", r.opts.MaxAttempts),
		}), nil
	case err != nil:
		return disposition{}, err
	}
	r.log = r.log.With(slog.Int("attempt", r.job.Attempt))
	r.log.LogAttrs(ctx, slog.LevelInfo, "job started")
	r.metrics.started(ctx)
	defer r.metrics.ended(ctx)
	result, failure := r.extract(ctx)
	if failure != nil {
		return r.afterFailure(ctx, failure), nil
	}
	return r.complete(ctx, result), nil
}

// now has the precision the database keeps.
func (r *run) now() time.Time { return r.opts.Now().UTC().Truncate(time.Microsecond) }

// extract runs the extraction, saving its progress on the side.
func (r *run) extract(ctx context.Context) (extract.Result, *extract.Failure) {
	job, err := r.plan(ctx)
	if err != nil {
		return extract.Result{}, asFailure(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		latest atomic.Pointer[extract.Progress]
		wg     sync.WaitGroup
	)
	saving, stop := context.WithCancel(ctx)
	wg.Go(func() { r.saveProgress(saving, &latest, cancel) })
	result, err := r.opts.Runner.Run(ctx, job, func(p extract.Progress) { latest.Store(&p) })
	stop()
	wg.Wait()
	if err != nil {
		return extract.Result{}, asFailure(err)
	}
	return result, nil
}

const unforeseen = "something unforeseen happened"

// asFailure makes a failure of any error. What has no code of its own may have been bad luck.
func asFailure(err error) *extract.Failure {
	var f *extract.Failure
	if errors.As(err, &f) {
		return f
	}
	f = &extract.Failure{Code: problem.CodeOf(err), Message: unforeseen, Transient: true, Err: err}
	if f.Code == problem.TenantUnavailable || f.Code == problem.Unavailable {
		f.Message = "the tenant's database is unavailable"
	}
	return f
}

// plan resolves what the job names into what an extraction needs.
func (r *run) plan(ctx context.Context) (extract.Job, error) {
	filters, err := openFilters(r.opts.Keys, r.tenant, r.job)
	if err != nil {
		return extract.Job{}, fmt.Errorf("read job: %w", err)
	}
	sources, err := decodeDatasources(r.job.MappedFields, filters)
	if err != nil {
		return extract.Job{}, fmt.Errorf("read job: %w", err)
	}
	found, err := r.connections(ctx, sources)
	if err != nil {
		return extract.Job{}, err
	}
	for i := range sources {
		d := &sources[i]
		c := found[d.Name]
		if c == nil {
			return extract.Job{}, &extract.Failure{
				Code: problem.DatasourceUnknown, Message: fmt.Sprintf("the datasource does not exist any more: datasource %q", d.Name),
				Datasource: d.Name,
			}
		}
		if d.Params, err = r.opts.Connections.Params(r.tenant, c); err != nil {
			return extract.Job{}, unusable(d.Name, err)
		}
		d.Dialer = r.opts.Connections.Dialer(r.tenant, c)
	}
	job := extract.Job{
		ID: r.id, TenantID: r.tenant, Key: r.key(), Deadline: r.begun.Add(r.opts.Timeout), Datasources: sources,
		Output: r.output(), SafeCells: r.opts.SafeCells, MaxBytes: r.opts.MaxBytes, MaxRows: r.opts.MaxRows,
		Retry: r.job.Attempt > 1, Owned: r.owned,
	}
	return job, nil
}

// unusable is the failure of a connection whose parameters are not to be had: forbidden by now, or not to be read.
func unusable(datasource string, err error) *extract.Failure {
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Code == problem.SSLModeInvalid {
		return &extract.Failure{
			Code: p.Code, Message: fmt.Sprintf("%s: datasource %q", p.Detail, datasource), Datasource: datasource, Err: err,
		}
	}
	return &extract.Failure{
		Code: problem.Internal, Message: fmt.Sprintf("the connection's secrets can't be opened: datasource %q", datasource),
		Datasource: datasource, Transient: true, Err: err,
	}
}

func (r *run) connections(ctx context.Context, sources []extract.Datasource) (map[string]*store.Connection, error) {
	names := make([]string, 0, len(sources))
	for _, d := range sources {
		names = append(names, d.Name)
	}
	lease, err := r.lease(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	return r.opts.Connections.Resolve(ctx, store.NewConnections(lease.DB(ctx)), r.tenant, names)
}

// output is how the result is written. What is stored was checked.
func (r *run) output() extract.Output {
	o, err := decodeOutput(r.job.Output)
	if err != nil {
		return extract.Output{}
	}
	return o
}

// key is that of the job's document or manifest.
func (r *run) key() string {
	segment := r.tenant
	if r.opts.SingleTenant {
		segment = ""
	}
	return r.opts.Runner.Store.Key(segment, resultsDirectory, r.output().ObjectName(r.id.String()))
}

// owned tells whether this attempt still is the job's: asked while an object of an earlier one is looked at.
func (r *run) owned(ctx context.Context) error {
	return r.rows(ctx, func(jobs store.Jobs) error {
		return jobs.SaveProgress(ctx, r.id, r.job.Attempt, nil)
	})
}

// progressText is p as the job row keeps it; nil for none.
func progressText(p *extract.Progress) []byte {
	if p == nil {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil // its members always marshal
	}
	return text
}

// saveProgress writes down how far the extraction has come, at most every second, and ends it when the attempt is no
// longer the job's or was asked to stop.
func (r *run) saveProgress(ctx context.Context, latest *atomic.Pointer[extract.Progress], end context.CancelCauseFunc) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var saved *extract.Progress
	var at time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p := latest.Load()
		if p == saved && time.Since(at) < aliveEvery {
			continue
		}
		err := r.rows(ctx, func(jobs store.Jobs) error { return jobs.SaveProgress(ctx, r.id, r.job.Attempt, progressText(p)) })
		if errors.Is(err, store.ErrLostAttempt) || errors.Is(err, store.ErrCancelRequested) {
			end(err)
			return
		}
		if err == nil { // otherwise the next tick tries again
			saved, at = p, time.Now()
		}
	}
}
