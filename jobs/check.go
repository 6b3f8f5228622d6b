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
	"github.com/fetcherhq/fetcher/source"
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

// check looks at all datasources at once and reports the gravest kind of fault, of all datasources that have it.
func (s *Service) check(ctx context.Context, tenantID string, req Request, found map[string]*store.Connection) error {
	verdicts := make([]verdict, len(req.Datasources))
	var wg sync.WaitGroup
	for i, d := range req.Datasources {
		wg.Go(func() {
			if err := guard(func() error {
				verdicts[i] = s.checkDatasource(ctx, tenantID, d, found[d.Name])
				return nil
			}); err != nil {
				verdicts[i].err = err
			}
		})
	}
	wg.Wait()
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
		return problem.New(problem.SchemaMismatch, "the data request does not fit the schema").With(missing...)
	case len(invalid) > 0:
		return problem.New(problem.DataRequestInvalid, "the data request is not valid").With(invalid...)
	}
	return nil
}

// checkDatasource reads the parts of the catalogue that a job needs over one connection.
func (s *Service) checkDatasource(ctx context.Context, tenantID string, d extract.Datasource, c *store.Connection) verdict {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CheckTimeout)
	defer cancel()
	session, err := s.opts.Connections.Session(ctx, tenantID, c)
	if err != nil {
		return verdict{err: named(err, d.Name)}
	}
	defer func() { _ = session.Close() }() // nothing was written
	scope := source.Scope{Tables: d.Names()}
	if c.Schema != nil {
		scope.Schema = *c.Schema
	}
	catalog, err := session.Catalog(ctx, scope)
	if err != nil {
		return verdict{err: named(connections.Unreachable(err), d.Name)}
	}
	var v verdict
	_, faults := extract.Plan(catalog, d)
	for _, f := range faults {
		if f.Missing() {
			v.missing = append(v.missing, missingField(d.Name, f))
		} else {
			v.invalid = append(v.invalid, invalidField(d.Name, f))
		}
	}
	return v
}

// named says which datasource an error is about.
func named(err error, datasource string) error {
	var p *problem.Error
	if errors.As(err, &p) && len(p.Fields) == 0 {
		return p.With(problem.Field{Location: join(atMapped, datasource), Message: p.Detail})
	}
	return err
}

// missingField describes a table or field that isn't there, as validate-schema does.
func missingField(datasource string, f extract.Fault) problem.Field {
	at, message := "body.mappedFields", "TABLE_NOT_FOUND"
	if f.Filter != nil {
		at = "body.filters"
	}
	names, value := []string{datasource, f.Table}, map[string]string{"dataSourceId": datasource, "table": f.Table}
	if f.Field != "" {
		names, value["field"], message = append(names, f.Field), f.Field, "FIELD_NOT_FOUND"
	}
	return problem.Field{Location: join(at, names...), Message: message, Value: value}
}

func invalidField(datasource string, f extract.Fault) problem.Field {
	at := atMapped
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
