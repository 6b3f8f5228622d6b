package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/singleflight"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// ServiceOptions are what a Service needs. Queue, Connections and Keys are required.
type ServiceOptions struct {
	Queue       *Queue
	Connections *connections.Service
	Keys        *secret.Keyring // seals filters

	DedupWindow  time.Duration // 0: 5 min
	CheckTimeout time.Duration // of the checks of one datasource; 0: 10 s

	NewID func() (uuid.UUID, error) // nil: UUIDv7
	Now   func() time.Time          // nil: time.Now
	Meter metric.Meter              // nil: none
}

// Service takes jobs in. It is safe for concurrent use.
type Service struct {
	opts    ServiceOptions
	metrics *metrics
	checks  singleflight.Group // identical requests at one instant ask the sources once
}

// NewService returns a service.
func NewService(o ServiceOptions) (*Service, error) {
	if o.Queue == nil || o.Connections == nil || o.Keys == nil {
		return nil, errors.New("jobs: a queue, connections and a key ring are needed")
	}
	if o.DedupWindow == 0 {
		o.DedupWindow = dedupWindow
	}
	if o.CheckTimeout == 0 {
		o.CheckTimeout = checkTimeout
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Meter == nil {
		o.Meter = metricnoop.Meter{}
	}
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return &Service{opts: o, metrics: m}, nil
}

// Submit stores and queues a job for req, unless an identical one stands in its way, which it then returns with
// duplicate set. Otherwise, in this order: every datasource exists (FET-1020) and is of the request's product
// (FET-1014, FET-1016), its host is allowed (FET-0414), it can be reached (FET-1040), has the tables and fields
// (FET-1060), and the filters fit (FET-0401), and none was changed meanwhile (FET-0004). Of internal datasources only the first is asked; the worker finds out
// the rest. The lease stays the caller's.
func (s *Service) Submit(ctx context.Context, lease *tenant.Lease, req Request) (job *store.Job, duplicate bool, err error) {
	rows := store.NewJobs(lease.DB(ctx))
	existing, err := rows.FindDuplicate(ctx, req.Hash, s.opts.DedupWindow)
	if err != nil || existing != nil {
		return existing, existing != nil, err
	}
	found, err := s.datasources(ctx, lease, req)
	if err != nil {
		return nil, false, err
	}
	if err = s.checkOnce(ctx, lease.TenantID(), req, found); err != nil {
		return nil, false, err
	}
	id, err := s.opts.NewID()
	if err != nil {
		return nil, false, fmt.Errorf("submit job: make an id: %w", err)
	}
	job = &store.Job{
		ID: id, RequestHash: req.Hash, Metadata: req.Metadata, MappedFields: req.MappedFields,
		Output: req.Output, Source: req.Source,
	}
	if err = sealFilters(s.opts.Keys, lease.TenantID(), job, req.Filters); err != nil {
		return nil, false, fmt.Errorf("submit job: %w", err)
	}
	rows = rows.Holding(s.stored(lease.TenantID(), found))
	if req.Then != nil {
		rows = rows.Then(req.Then)
	}
	latest := time.Now().Add(createTimeout)
	existing, err = rows.CreateOnce(ctx, job, s.opts.DedupWindow, func(ctx context.Context) error {
		ctx, cancel := context.WithDeadline(ctx, latest)
		defer cancel()
		return s.opts.Queue.Enqueue(ctx, lease.TenantID(), id)
	})
	if err != nil {
		return nil, false, err
	}
	if existing != nil {
		return existing, true, nil
	}
	return job, false, nil
}

// Filters returns the filters of a tenant's job as they were sent, nil for none.
func (s *Service) Filters(tenantID string, job *store.Job) ([]byte, error) {
	return openFilters(s.opts.Keys, tenantID, job)
}

// stored lists the datasources that can be changed while a job is being created.
func (s *Service) stored(tenantID string, found map[string]*store.Connection) []store.ConnectionRef {
	refs := make([]store.ConnectionRef, 0, len(found))
	for _, c := range found {
		if !s.opts.Connections.IsInternal(tenantID, c) {
			refs = append(refs, store.ConnectionRef{ID: c.ID, Revision: c.Revision})
		}
	}
	return refs
}

// datasources finds the connections a request names, by name, all of them and of its product.
func (s *Service) datasources(ctx context.Context, lease *tenant.Lease, req Request) (map[string]*store.Connection, error) {
	found, err := s.connections(ctx, lease, req.Datasources)
	if err != nil {
		return nil, err
	}
	var unknown, unassigned, foreign []problem.Field
	for _, d := range req.Datasources {
		at := join(atMapped, d.Name)
		switch c := found[d.Name]; {
		case c == nil:
			unknown = append(unknown, problem.Field{Location: at, Message: "there is no such datasource"})
		case s.opts.Connections.IsInternal(lease.TenantID(), c): // of no product, and for all of them
		case c.ProductName == nil:
			unassigned = append(unassigned, problem.Field{Location: at, Message: "belongs to no product"})
		case *c.ProductName != req.Source:
			foreign = append(foreign, problem.Field{Location: at, Message: "does not belong to the product in metadata.source"})
		}
	}
	switch {
	case len(unknown) > 0:
		return nil, problem.New(problem.DatasourceUnknown, "a datasource does not exist").With(unknown...)
	case len(unassigned) > 0:
		return nil, problem.New(problem.ConnectionUnassigned, "a datasource belongs to no product").With(unassigned...)
	case len(foreign) > 0:
		return nil, problem.New(problem.ProductMismatch, "metadata.source is not the product of every datasource").With(foreign...)
	}
	return found, nil
}

// connections finds the connections that there are of the datasources, internal ones among them, by name.
func (s *Service) connections(
	ctx context.Context, lease *tenant.Lease, datasources []extract.Datasource,
) (map[string]*store.Connection, error) {
	names := make([]string, 0, len(datasources))
	for _, d := range datasources {
		names = append(names, d.Name)
	}
	return s.opts.Connections.Resolve(ctx, store.NewConnections(lease.DB(ctx)), lease.TenantID(), names)
}
