package jobs_test

import (
	"context"
	"testing"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

// meanwhile is a driver that does something before it opens a session.
type meanwhile struct {
	source.Driver

	do func() error
}

func (d meanwhile) Open(ctx context.Context, p source.Params, dialer source.Dialer) (source.Session, error) {
	if err := d.do(); err != nil {
		return nil, err
	}
	return d.Driver.Open(ctx, p, dialer)
}

// A job is not stored when a connection was changed or deleted while the job was checked against it. Once a job is
// there, the connection can't be changed.
func TestSubmitBesideAChange(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	l := p.lease()
	defer l.Release()
	rows := store.NewConnections(l.DB(t.Context()))
	c := must(rows.ByNames(t.Context(), []string{"src"}))[0]
	change := func() error {
		_, err := p.conns.Update(t.Context(), rows, acme, c.ID, nil,
			connections.Patch{Port: connections.Member[int]{Given: true, Value: &c.Port}})
		return err
	}
	remove := func() error { return p.conns.Delete(t.Context(), rows, c.ID, nil) }
	submit := func(do func() error) problem.Code {
		p.drivers[source.PostgreSQL] = meanwhile{driver(p), do}
		defer func() { p.drivers[source.PostgreSQL] = driver(p) }()
		if err := p.trySubmit(`{"src": {"small": ["id"]}}`, ""); err != nil {
			return problem.CodeOf(err)
		}
		return ""
	}
	if code := submit(change); code != problem.Conflict {
		t.Errorf("changed meanwhile: %q", code)
	}
	if code := submit(func() error { return nil }); code != "" {
		t.Errorf("not changed: %q", code)
	}
	if code := problem.CodeOf(change()); code != problem.ConnectionInUse {
		t.Errorf("change while the job is there: %q", code)
	}
	if err := l.DB(t.Context()).Exec("DELETE FROM jobs").Error; err != nil {
		t.Fatal(err)
	}
	if code := submit(remove); code != problem.Conflict {
		t.Errorf("deleted meanwhile: %q", code)
	}
	if code := submit(remove); code != problem.DatasourceUnknown {
		t.Errorf("deleted before: %q", code)
	}
}

// driver is the plant's own, whatever wraps it.
func driver(p *plant) source.Driver {
	if wrapped, ok := p.drivers[source.PostgreSQL].(meanwhile); ok {
		return wrapped.Driver
	}
	return p.drivers[source.PostgreSQL]
}
