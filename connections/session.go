package connections

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

// Test connects, authenticates and runs one trivial query, all within 10 s, and returns how long that took. Failures
// are FET-0414 when the host is not allowed, else FET-1040 whose detail names a category.
func (s *Service) Test(ctx context.Context, tenantID string, c *store.Connection) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.TestTimeout)
	defer cancel()
	start := s.opts.Now()
	session, err := s.Session(ctx, tenantID, c)
	if err != nil {
		return 0, err
	}
	defer func() { _ = session.Close() }() // nothing was written
	if err := session.Ping(ctx); err != nil {
		return 0, Unreachable(err)
	}
	return s.opts.Now().Sub(start), nil
}

// Schema reads the catalogue afresh, within 30 s: the connection's schema only, with bare names, if it names one.
// Failures are those of Test.
func (s *Service) Schema(ctx context.Context, tenantID string, c *store.Connection) (*source.Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.SchemaTimeout)
	defer cancel()
	session, err := s.Session(ctx, tenantID, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // nothing was written
	var limit source.Scope
	if c.Schema != nil {
		limit.Schema = *c.Schema
	}
	catalog, err := session.Catalog(ctx, limit)
	if err != nil {
		return nil, Unreachable(err)
	}
	return catalog, nil
}

// Session connects and authenticates within ctx; the caller closes the session. Failures are those of Test. Errors of
// the session itself are the source's; Unreachable turns them into FET-1040.
func (s *Service) Session(ctx context.Context, tenantID string, c *store.Connection) (source.Session, error) {
	if !s.IsInternal(tenantID, c) {
		if err := s.opts.Guard.CheckHost(c.Host); err != nil {
			return nil, hostNotAllowed(err)
		}
	}
	driver, ok := s.opts.Drivers[source.Kind(c.Kind)]
	if !ok {
		return nil, Unreachable(&source.Error{Category: source.CategoryUnsupported})
	}
	params, err := s.Params(tenantID, c)
	if err != nil {
		return nil, err
	}
	session, err := driver.Open(ctx, params, s.Dialer(tenantID, c))
	if err != nil {
		return nil, Unreachable(err)
	}
	return session, nil
}

// Unreachable turns an error of an external database, which must not be nil, into FET-1040 whose detail names one of
// the published categories, or into FET-0414 when the guard refused the address. A *problem.Error passes.
func Unreachable(err error) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	reason := category(err)
	if reason == source.CategoryNotAllowed {
		return hostNotAllowed(err)
	}
	return problem.Wrap(err, problem.SourceUnreachable, "the connection failed: "+string(reason))
}

// category reduces err to one of the categories that may be shown, or CategoryNotAllowed.
func category(err error) source.Category {
	failed, isSource := errors.AsType[*source.Error](err)
	network, isNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, dial.ErrNotAllowed):
		return source.CategoryNotAllowed
	case errors.Is(err, context.Canceled): // the caller gave up; nobody reads the answer
		return source.CategoryTimeout
	case isSource:
		return published(failed.Category)
	case errors.Is(err, dial.ErrNameNotFound):
		return source.CategoryDNS
	case errors.Is(err, context.DeadlineExceeded), isNetwork && network.Timeout():
		return source.CategoryTimeout
	default:
		return source.CategoryDatabase
	}
}

// published maps the categories that only jobs know to the nearest one that FET-1040 names.
func published(c source.Category) source.Category {
	switch c {
	case source.CategoryDNS, source.CategoryRefused, source.CategoryTimeout, source.CategoryTLS, source.CategoryAuth,
		source.CategoryDatabase, source.CategoryUnsupported, source.CategoryNotAllowed:
		return c
	case source.CategoryBroken:
		return source.CategoryRefused
	default:
		return source.CategoryDatabase
	}
}
