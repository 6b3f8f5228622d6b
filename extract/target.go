package extract

import (
	"context"
	"io"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
)

// target is where the readers' pieces go, in order: every datasource is begun, given its pieces, and ended.
type target interface {
	begin(datasource string, first bool) error
	// write takes a piece of a table; rows says how many rows it ends.
	write(ctx context.Context, at place, p []byte) error
	// endTable is called behind the last piece of a table.
	endTable(ctx context.Context, at place, rows int64) error
	end(datasource string, last bool) error
	// size is the number of bytes there are so far, of what a download serves.
	size() int64
	// commit makes the result whole and visible.
	commit(ctx context.Context, consistency map[string]string) (Result, error)
	// abort drops what is not committed. It may be called after commit.
	abort()
	// partial reports whether a part of the result is visible, although the whole isn't.
	partial() bool
}

// object is one object being written: what goes in is compressed, counted against the job's limit, and stored.
type object struct {
	w        *results.Writer
	compress io.WriteCloser
	limit    *limit
	at       place // of the piece that is written
}

// limit is how many bytes the objects of a job may have, together.
type limit struct {
	most int64 // 0: any
	used int64
}

func (r *Runner) create(ctx context.Context, job Job, key, compression string, l *limit) (*object, error) {
	w, err := r.Store.Create(ctx, job.TenantID, key)
	if err != nil {
		return nil, ofStorage(err)
	}
	o := &object{w: w, limit: l}
	if o.compress, err = compressor(limited{o}, compression); err != nil {
		w.Abort()
		return nil, err
	}
	return o, nil
}

func (o *object) write(at place, p []byte) error {
	o.at = at
	_, err := o.compress.Write(p)
	return err
}

// finish commits the object.
func (o *object) finish(ctx context.Context) (results.Facts, error) {
	if err := o.compress.Close(); err != nil {
		return results.Facts{}, err
	}
	facts, err := o.w.Commit(ctx)
	if err != nil {
		return results.Facts{}, ofStorage(err)
	}
	return facts, nil
}

// limited is what an object's compressor writes to.
type limited struct{ *object }

func (l limited) Write(p []byte) (int, error) {
	l.limit.used += int64(len(p))
	if most := l.limit.most; most > 0 && l.limit.used > most {
		return 0, l.at.failure(problem.JobLimit, nil, "the result is larger than JOB_MAX_RESULT_BYTES (%d) allows", most)
	}
	n, err := l.w.Write(p)
	if err != nil {
		return n, ofStorage(err)
	}
	return n, nil
}

// documentTarget writes one document.
type documentTarget struct {
	job    Job
	object *object
	frame  []byte
	tables []TableFacts
}

func (r *Runner) newDocument(ctx context.Context, job Job) (target, error) {
	o, err := r.create(ctx, job, job.Key, job.Output.compression(), &limit{most: job.MaxBytes})
	if err != nil {
		return nil, err
	}
	return &documentTarget{job: job, object: o}, nil
}

func (t *documentTarget) begin(datasource string, first bool) error {
	frame, err := document{}.open(t.frame[:0], datasource, first)
	if err != nil {
		return err
	}
	t.frame = frame
	return t.object.write(place{datasource: datasource}, frame)
}

func (t *documentTarget) write(_ context.Context, at place, p []byte) error {
	return t.object.write(at, p)
}

func (t *documentTarget) endTable(_ context.Context, at place, rows int64) error {
	t.tables = append(t.tables, TableFacts{Datasource: at.datasource, Table: at.table, Rows: rows})
	return nil
}

func (t *documentTarget) end(datasource string, last bool) error {
	t.frame = document{}.close(t.frame[:0], last)
	return t.object.write(place{datasource: datasource}, t.frame)
}

func (t *documentTarget) size() int64 { return t.object.limit.used }

func (t *documentTarget) commit(ctx context.Context, consistency map[string]string) (Result, error) {
	facts, err := t.object.finish(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Facts: facts, Format: t.job.Output.format(), SizeBytes: facts.SizeBytes, Tables: t.tables, Consistency: consistency,
	}, nil
}

func (t *documentTarget) abort()        { t.object.w.Abort() }
func (t *documentTarget) partial() bool { return false }
