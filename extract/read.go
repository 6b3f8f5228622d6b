package extract

import (
	"context"
	"errors"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

// reader reads one datasource into its queue.
type reader struct {
	Datasource

	driver   source.Driver
	dialer   source.Dialer
	deadline time.Time
	enc      encoder
	out      *queue

	consistency string // known once run has returned nil
}

// run reads all tables. It returns nil only if every cursor ended well.
func (r *reader) run(ctx context.Context) error {
	defer r.out.close()
	here := place{datasource: r.Name}
	session, err := r.driver.Open(ctx, r.Params, r.dialer)
	if err != nil {
		return asFailure(err, here)
	}
	defer func() { _ = session.Close() }() // nothing was written that a close could lose
	cat, err := session.Catalog(ctx, r.Scope(r.Params.Schema))
	if err != nil {
		return asFailure(err, here)
	}
	steps, faults := Plan(cat, r.Datasource)
	if len(faults) > 0 {
		return r.refuse(faults[0])
	}
	if r.consistency, err = session.Begin(ctx, r.deadline); err != nil {
		return asFailure(err, here)
	}
	for i, step := range steps {
		if err := r.table(ctx, session, step, i == 0); err != nil {
			return asFailure(err, place{r.Name, step.Name})
		}
	}
	return nil
}

// refuse says what a datasource lacks or what does not fit it.
func (r *reader) refuse(f Fault) *Failure {
	at := place{r.Name, f.Table}
	code := problem.DataRequestInvalid
	if f.Missing() {
		code = problem.JobUnknownField
	}
	switch {
	case f.Field == "":
		return at.failure(code, f.Err, "%s", f.Reason())
	case f.Filter == nil:
		return at.failure(code, f.Err, "%s: field %q", f.Reason(), f.Field)
	case f.Filter.Position < 0:
		return at.failure(code, f.Err, "filter %s: %s: field %q", f.Filter.Op, f.Reason(), f.Field)
	default:
		return at.failure(code, f.Err, "filter %s, value %d: %s: field %q", f.Filter.Op, f.Filter.Position+1, f.Reason(), f.Field)
	}
}

func (r *reader) table(ctx context.Context, session source.Session, step Step, first bool) error {
	b := r.out.get()
	b.table = step.Name
	pass := func(data []byte) ([]byte, error) {
		b.data = data
		next, err := r.out.put(ctx, b)
		if err != nil {
			return nil, err
		}
		b = next
		return b.data, nil
	}
	data, err := r.enc.table(b.data, head{name: step.Name, columns: step.Query.Columns, first: first, pass: pass})
	if err != nil {
		return r.refuseCell(err, step)
	}
	b.data = data
	err = session.Stream(ctx, step.Query, func(row source.Row) error {
		grown, failed := r.enc.row(b.data, row)
		if failed != nil {
			return r.refuseCell(failed, step)
		}
		b.data = grown
		b.rows++
		if len(grown) >= blockBytes {
			_, failed = pass(grown)
		}
		return failed
	})
	if err != nil {
		return err
	}
	if data, err = r.enc.end(b.data); err != nil {
		return r.refuseCell(err, step)
	}
	b.data, b.ends = data, true
	_, err = r.out.put(ctx, b)
	return err
}

// refuseCell gives the encoder's complaint about a value its place; other errors stay.
func (r *reader) refuseCell(err error, step Step) error {
	c, ok := errors.AsType[*cellError](err)
	if !ok {
		return err
	}
	at := place{r.Name, step.Name}
	if c.field == "" {
		return at.failure(problem.JobFormat, nil, "the format can't hold the table: %s", c.reason)
	}
	return at.failure(problem.JobFormat, nil, "the format can't hold a value: %s: field %q", c.reason, c.field)
}
