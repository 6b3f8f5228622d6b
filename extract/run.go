package extract

import (
	"cmp"
	"context"
	"errors"
	"slices"

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
	if f := cmp.Or(job.Format, FormatJSON); f != FormatJSON {
		return Result{}, &Failure{Code: problem.DataRequestInvalid, Message: "the format is not supported"}
	}
	run, cancel := context.WithCancel(ctx)
	if !job.Deadline.IsZero() {
		cancel()
		run, cancel = context.WithDeadline(ctx, job.Deadline)
	}
	defer cancel()
	var result Result
	err := guard(func() (err error) {
		result, err = r.run(run, job, progress)
		return err
	})
	if err != nil {
		return Result{}, settle(run, ctx, job.Deadline, err)
	}
	return result, nil
}

func (r *Runner) run(ctx context.Context, job Job, progress func(Progress)) (Result, error) {
	readers, err := r.readers(job)
	if err != nil {
		return Result{}, err
	}
	if err = r.reclaim(ctx, job); err != nil {
		return Result{}, err
	}
	w, err := r.Store.Create(ctx, job.TenantID, job.Key)
	if err != nil {
		return Result{}, ofStorage(err)
	}
	defer w.Abort()
	out := &output{w: w, job: job, progress: progress}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.start(groupCtx, group, readers) })
	group.Go(func() error { return guard(func() error { return out.write(groupCtx, readers) }) })
	if err = group.Wait(); err != nil {
		return Result{}, err
	}
	facts, err := w.Commit(ctx)
	if err != nil {
		return Result{}, ofStorage(err)
	}
	return out.result(facts, readers), nil
}

// reclaim clears the job's key of what an earlier attempt left.
func (r *Runner) reclaim(ctx context.Context, job Job) error {
	if job.Owned == nil {
		return nil
	}
	var owned error
	err := r.Store.Reclaim(ctx, job.Key, func(ctx context.Context) error {
		owned = job.Owned(ctx)
		return owned
	})
	if err != nil {
		return ofReclaim(err, owned)
	}
	return nil
}

// readers prepares one reader per datasource, in the order of the output.
func (r *Runner) readers(job Job) ([]*reader, error) {
	var readers []*reader
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
			Datasource: d, driver: driver, dialer: dialer, deadline: job.Deadline, enc: &jsonEncoder{},
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
	w        *results.Writer
	job      Job
	progress func(Progress)
	rows     int64
	tables   []TableFacts
	frame    []byte
}

func (o *output) write(ctx context.Context, readers []*reader) error {
	for i, r := range readers {
		frame, err := document{}.open(o.frame[:0], r.Name, i == 0)
		if err != nil {
			return err
		}
		if err := o.put(place{datasource: r.Name}, frame); err != nil {
			return err
		}
		if err := o.drain(ctx, r); err != nil {
			return err
		}
		o.frame = document{}.close(frame[:0], i == len(readers)-1)
		if err := o.put(place{datasource: r.Name}, o.frame); err != nil {
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
		if err := o.put(at, b.data); err != nil {
			return err
		}
		if b.ends {
			o.tables, rows = append(o.tables, TableFacts{r.Name, b.table, rows}), 0
		}
		o.progress(Progress{Rows: o.rows, Bytes: o.w.Size(), Table: r.Name + "." + b.table})
		r.out.done(b)
	}
}

func (o *output) put(at place, p []byte) error {
	if limit := o.job.MaxBytes; limit > 0 && o.w.Size()+int64(len(p)) > limit {
		return at.failure(problem.JobLimit, nil, "the result is larger than JOB_MAX_RESULT_BYTES (%d) allows", limit)
	}
	if _, err := o.w.Write(p); err != nil {
		return ofStorage(err)
	}
	return nil
}

func (o *output) result(facts results.Facts, readers []*reader) Result {
	result := Result{Facts: facts, Format: FormatJSON, Rows: o.rows, Tables: o.tables, Consistency: map[string]string{}}
	for _, r := range readers {
		result.Consistency[r.Name] = r.consistency
	}
	return result
}
