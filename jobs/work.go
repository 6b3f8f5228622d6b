package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// What becomes of a queue entry after one look at it.
type disposition struct {
	again bool
	after time.Duration
}

func done() disposition { return disposition{} }

func later(d time.Duration) disposition { return disposition{again: true, after: max(d, 0)} }

// Delays before an entry is looked at again although nothing is wrong with its job.
const (
	rowDelay         = time.Second // its row is not there yet, at most
	rowDelayMin      = 10 * time.Millisecond
	unavailableDelay = 2 * time.Second  // a database of ours can't be used
	deletedDelay     = 30 * time.Second // its tenant is marked deleted, and may come back
)

// work handles one queue entry.
func (w *Worker) work(ctx context.Context, entry *river.Job[entryArgs]) error {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(entry.Args.Trace))
	ctx, span := w.tracer.Start(ctx, "run job", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("fetcher.tenant", entry.Args.TenantID), attribute.String("fetcher.job", entry.Args.JobID.String())))
	defer span.End()
	log := w.opts.Logger.With(slog.String("tenant", entry.Args.TenantID), slog.String("job", entry.Args.JobID.String()))
	d, err := w.handle(ctx, entry, log)
	if err != nil {
		span.SetStatus(codes.Error, string(problem.CodeOf(err)))
		log.LogAttrs(ctx, slog.LevelWarn, "job not run", slog.Any("error", err), slog.Bool("again", d.again))
	}
	if d.again {
		return river.JobSnooze(d.after)
	}
	return nil
}

// handle runs the job of an entry under its lease. An error says why it did not run.
func (w *Worker) handle(ctx context.Context, entry *river.Job[entryArgs], log *slog.Logger) (disposition, error) {
	maxRunning := w.maxRunning(ctx, entry.Args.TenantID)
	held, err := w.take(ctx, entry, maxRunning)
	w.nextTurn(ctx, entry)
	if errors.Is(err, control.ErrTenantFull) {
		return w.hold(ctx, entry), nil
	}
	if err != nil {
		return later(unavailableDelay), err
	}
	if held == nil {
		return done(), nil // somebody else runs it, under an entry of their own
	}
	defer w.release(ctx, entry, maxRunning)
	defer held.drop()
	last, release := lingering(ctx, w.opts.Linger)
	defer release()
	r := &run{Worker: w, tenant: entry.Args.TenantID, id: entry.Args.JobID, held: held, last: last, log: log}
	d, err := r.claimAndRun(held.ctx)
	if problem.CodeOf(err) == problem.TenantSuspended {
		d, err = r.refuse(held.ctx)
	}
	if err == nil {
		held.ended = !d.again
		return d, nil
	}
	if errors.Is(err, tenant.ErrDeleted) {
		return later(deletedDelay), nil
	}
	if unseen(err) {
		return w.unseen(entry, err)
	}
	if ctx.Err() != nil {
		return later(0), nil // stopping, before anything was begun
	}
	return later(unavailableDelay), err
}

// lingering returns a context that ends the given time after ctx has, or when it is released.
func lingering(ctx context.Context, d time.Duration) (last context.Context, release func()) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return last, func() {
		stop()
		cancel()
	}
}

// unseen tells whether there is no sign of the job: no row, or not even a tenant.
func unseen(err error) bool {
	return errors.Is(err, store.ErrNoJob) || problem.CodeOf(err) == problem.TenantUnknown
}

// unseen waits for the row of an entry, which is written after it, and drops the entry when it never comes. Both
// instants are the queue's.
func (w *Worker) unseen(entry *river.Job[entryArgs], err error) (disposition, error) {
	if seen := entry.AttemptedAt; seen != nil && seen.Sub(entry.CreatedAt) < w.opts.RowPatience {
		// Most often the row is about to be committed: a quick worker is here before it.
		wait := max(seen.Sub(entry.CreatedAt), rowDelayMin)
		return later(min(wait, rowDelay, w.opts.RowPatience)), nil
	}
	return done(), fmt.Errorf("queue entry dropped: %w", err)
}
