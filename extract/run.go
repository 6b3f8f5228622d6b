package extract

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/source"
)

// errNoDriver says that a job names a kind of database this process can't read.
var errNoDriver = errors.New("no driver for the kind")

// Run extracts job and commits its object. progress is called often, by one goroutine at a time; it must not block.
// Every error is a *Failure; there is no object then.
func (r *Runner) Run(ctx context.Context, job Job, progress func(Progress)) (Result, error) {
	if !job.Output.valid() {
		return Result{}, &Failure{Code: problem.DataRequestInvalid, Message: "the format is not supported"}
	}
	run, cancel := context.WithCancel(ctx)
	if !job.Deadline.IsZero() {
		cancel()
		run, cancel = context.WithDeadline(ctx, job.Deadline)
	}
	defer cancel()
	run, span := startSpan(run, "extract")
	var result Result
	err := guard(func() (err error) {
		result, err = r.run(run, job, progress)
		return err
	})
	if err != nil {
		err = settle(run, ctx, job.Deadline, err)
	}
	endSpan(span, err)
	if err != nil {
		return Result{}, err
	}
	return result, nil
}

func (r *Runner) run(ctx context.Context, job Job, progress func(Progress)) (_ Result, err error) {
	readers, err := r.readers(job)
	if err != nil {
		return Result{}, err
	}
	if job.Retry {
		if err = r.reclaim(ctx, job); err != nil {
			return Result{}, err
		}
	}
	// The result grows while the rows are read: its span stands beside theirs, and ends with the commit.
	uploading, upload := startSpan(ctx, "upload result")
	defer func() { endSpan(upload, err) }()
	to, err := r.target(uploading, job)
	if err != nil {
		return Result{}, err
	}
	whole := false
	defer func() { // also after a panic
		to.abort()
		if !whole && to.partial() {
			r.withdraw(ctx, job)
		}
	}()
	out := &output{to: to, job: job, progress: progress}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.start(groupCtx, group, readers) })
	group.Go(func() error {
		return guard(func() error { return out.write(trace.ContextWithSpan(groupCtx, upload), readers) })
	})
	if err = group.Wait(); err != nil {
		return Result{}, err
	}
	consistency := map[string]string{}
	for _, reader := range readers {
		consistency[reader.Name] = reader.consistency
	}
	result, err := to.commit(uploading, consistency)
	if err != nil {
		return Result{}, err
	}
	whole, result.Rows = true, out.rows
	upload.SetAttributes(attribute.Int64("fetcher.result.rows", result.Rows), attribute.Int64("fetcher.result.bytes", result.SizeBytes))
	return result, nil
}

func (r *Runner) target(ctx context.Context, job Job) (target, error) {
	if job.Output.PerTable() {
		return r.newTables(job), nil
	}
	return r.newDocument(ctx, job)
}

// reclaim clears the job's keys of what an earlier attempt left.
func (r *Runner) reclaim(ctx context.Context, job Job) error {
	var owned error
	err := job.Output.Reclaim(ctx, r.Store, job.Key, func(ctx context.Context) error {
		if job.Owned != nil {
			owned = job.Owned(ctx)
		}
		return owned
	})
	if err != nil {
		return ofReclaim(err, owned)
	}
	return nil
}

// Reclaim removes the objects of a result whose document or manifest has the key, and unfinished ones, by the rule of
// results.Store.Reclaim.
func (o Output) Reclaim(ctx context.Context, store *results.Store, key string, owned func(context.Context) error) error {
	if o.PerTable() {
		return store.ReclaimAll(ctx, directory(key), owned)
	}
	return store.Reclaim(ctx, key, owned)
}

const withdrawFor = 10 * time.Second

// withdraw removes the objects of tables that were finished before the run failed. What it can't remove is left to the
// next attempt, or to whoever ends the job.
func (r *Runner) withdraw(ctx context.Context, job Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawFor)
	defer cancel()
	_ = r.reclaim(ctx, job)
}

// readers prepares one reader per datasource, in the order of the output.
func (r *Runner) readers(job Job) ([]*reader, error) {
	var readers []*reader
	groups := cmp.Or(r.RowGroups, defaultRowGroups) / max(1, min(cmp.Or(r.Parallel, defaultParallel), len(job.Datasources)))
	for _, d := range job.Datasources {
		driver, ok := r.Drivers[d.Params.Kind]
		if !ok {
			return nil, asFailure(&source.Error{Category: source.CategoryUnsupported, Err: errNoDriver}, place{datasource: d.Name})
		}
		dialer := d.Dialer
		if dialer == nil {
			dialer = r.Dialer
		}
		readers = append(readers, &reader{
			Datasource: d, driver: driver, dialer: dialer, deadline: job.Deadline, enc: newEncoder(job, groups),
			out: newQueue(cmp.Or(r.ReadAhead, defaultReadAhead)),
		})
	}
	slices.SortFunc(readers, func(a, b *reader) int { return cmp.Compare(a.Name, b.Name) })
	return readers, nil
}

// start runs the readers, a few at a time and the first ones first: the writer waits for them in that order, so
// that one of those that run is always the one it waits for.
func (r *Runner) start(ctx context.Context, group *errgroup.Group, readers []*reader) error {
	slots := make(chan struct{}, cmp.Or(r.Parallel, defaultParallel))
	for _, reader := range readers {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		group.Go(func() error {
			defer func() { <-slots }()
			defer reader.out.release()
			return guard(func() error { return reader.run(ctx) })
		})
	}
	return nil
}

// output puts the pieces of all readers together.
type output struct {
	to       target
	job      Job
	progress func(Progress)
	rows     int64
}

func (o *output) write(ctx context.Context, readers []*reader) error {
	for i, r := range readers {
		if err := o.to.begin(r.Name, i == 0); err != nil {
			return err
		}
		if err := o.drain(ctx, r); err != nil {
			return err
		}
		if err := o.to.end(r.Name, i == len(readers)-1); err != nil {
			return err
		}
	}
	return nil
}

// drain writes what one reader delivers.
func (o *output) drain(ctx context.Context, r *reader) error {
	var rows int64 // of the table
	for {
		b, ok, err := r.out.next(ctx)
		if err != nil || !ok {
			return err
		}
		at := place{r.Name, b.table}
		rows, o.rows = rows+b.rows, o.rows+b.rows
		if limit := o.job.MaxRows; limit > 0 && o.rows > limit {
			return at.failure(problem.JobLimit, nil, "the job has more rows than JOB_MAX_ROWS (%d) allows", limit)
		}
		if err := o.to.write(ctx, at, b.data); err != nil {
			return err
		}
		if b.ends {
			if err := o.to.endTable(ctx, at, rows); err != nil {
				return err
			}
			rows = 0
		}
		o.progress(Progress{Rows: o.rows, Bytes: o.to.size(), Table: r.Name + "." + b.table})
		r.out.done(b)
	}
}
