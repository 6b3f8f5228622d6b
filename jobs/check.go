package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// checkOnce asks the sources of a request whether it can be served. Identical requests that come in meanwhile share
// the answer, so that a burst of them does not become a burst of connections.
func (s *Service) checkOnce(ctx context.Context, tenantID string, req Request, found map[string]*store.Connection) error {
	answer := s.checks.DoChan(tenantID+"/"+req.Hash, func() (any, error) {
		return nil, guard(func() error { return s.check(context.WithoutCancel(ctx), tenantID, req, found) }) // bounded by itself
	})
	select {
	case a := <-answer:
		return a.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// guard turns a panic, of a driver, into FET-0002: on a goroutine of our own it would end the process.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = problem.Wrap(fmt.Errorf("%w\n%s", problem.Panicked(v), debug.Stack()), problem.Internal, "")
		}
	}()
	return f()
}

// verdict is what the check of one datasource found.
type verdict struct {
	err     error           // can't be used at all
	missing []problem.Field // FET-1060
	invalid []problem.Field // FET-0401
}

// check looks at all datasources but internal ones at once and reports the gravest kind of fault, of all datasources
// that have it.
func (s *Service) check(ctx context.Context, tenantID string, req Request, found map[string]*store.Connection) error {
	verdicts := make([]verdict, len(req.Datasources))
	var wg sync.WaitGroup
	for i, d := range req.Datasources {
		if s.opts.Connections.IsInternal(tenantID, found[d.Name]) {
			continue // not for tenants to probe
		}
		wg.Go(func() { verdicts[i] = s.checkDatasource(ctx, tenantID, atMapped, d, found[d.Name]) })
	}
	wg.Wait()
	return weigh(verdicts, "the data request does not fit the schema")
}

// weigh returns the gravest kind of fault, of all datasources that have it.
func weigh(verdicts []verdict, mismatch string) error {
	var gravest error
	var missing, invalid []problem.Field
	for _, v := range verdicts {
		if v.err != nil && (gravest == nil || problem.CodeOf(v.err) < problem.CodeOf(gravest)) {
			gravest = v.err // FET-0414 before FET-1040, and anything unforeseen before both
		}
		missing, invalid = append(missing, v.missing...), append(invalid, v.invalid...)
	}
	switch {
	case gravest != nil:
		return gravest
	case len(missing) > 0:
		return problem.New(problem.SchemaMismatch, mismatch).With(missing...)
	case len(invalid) > 0:
		return problem.New(problem.DataRequestInvalid, "the data request is not valid").With(invalid...)
	}
	return nil
}

// checkDatasource reads the parts of the catalogue that a request needs over one connection. at is where the mapped
// fields are. It may run on a goroutine of its own: a panic of the driver is a verdict too.
func (s *Service) checkDatasource(
	ctx context.Context, tenantID, at string, d extract.Datasource, c *store.Connection,
) (v verdict) {
	err := guard(func() error {
		v = s.inspect(ctx, tenantID, at, d, c)
		return nil
	})
	if err != nil {
		return verdict{err: err}
	}
	return v
}

func (s *Service) inspect(ctx context.Context, tenantID, at string, d extract.Datasource, c *store.Connection) verdict {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CheckTimeout)
	defer cancel()
	session, err := s.opts.Connections.Session(ctx, tenantID, c)
	if err != nil {
		return verdict{err: named(err, join(at, d.Name))}
	}
	defer func() { _ = session.Close() }() // nothing was written
	schema := ""
	if c.Schema != nil {
		schema = *c.Schema
	}
	catalog, err := session.Catalog(ctx, d.Scope(schema))
	if err != nil {
		return verdict{err: named(connections.Unreachable(err), join(at, d.Name))}
	}
	var v verdict
	_, faults := extract.Plan(catalog, d)
	for _, f := range faults {
		if f.Missing() {
			v.missing = append(v.missing, missingField(d.Name, f))
		} else {
			v.invalid = append(v.invalid, invalidField(at, d.Name, f))
		}
	}
	return v
}

// named says where the datasource is that an error is about.
func named(err error, at string) error {
	var p *problem.Error
	if errors.As(err, &p) && len(p.Fields) == 0 {
		return p.With(problem.Field{Location: at, Message: p.Detail})
	}
	return err
}

// missingField describes a table or field that isn't there, as ValidateSchema does.
func missingField(datasource string, f extract.Fault) problem.Field {
	at, message := atSchema, "TABLE_NOT_FOUND"
	if f.Filter != nil {
		at = "body.filters"
	}
	names, value := []string{datasource, f.Table}, map[string]string{"dataSourceId": datasource, "table": f.Table}
	if f.Field != "" {
		names, value["field"], message = append(names, f.Field), f.Field, "FIELD_NOT_FOUND"
	}
	return problem.Field{Location: join(at, names...), Message: message, Value: value}
}

func invalidField(at, datasource string, f extract.Fault) problem.Field {
	if f.Filter != nil {
		at = atFilters
	}
	at = join(at, datasource, f.Table)
	if f.Field != "" {
		at = join(at, f.Field)
	}
	if f.Filter != nil && f.Filter.Op != "" {
		at = valueLocation(at, f.Filter)
	}
	return problem.Field{Location: at, Message: f.Reason()}
}
