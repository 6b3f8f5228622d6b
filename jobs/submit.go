package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// ServiceOptions are what a Service needs. Queue and Connections are required.
type ServiceOptions struct {
	Queue       *Queue
	Connections *connections.Service

	DedupWindow  time.Duration // 0: 5 min
	CheckTimeout time.Duration // of the checks of one datasource; 0: 10 s

	NewID func() (uuid.UUID, error) // nil: UUIDv7
}

// Service takes jobs in. It is safe for concurrent use.
type Service struct {
	opts   ServiceOptions
	checks singleflight.Group // identical requests at one instant ask the sources once
}

// NewService returns a service.
func NewService(o ServiceOptions) (*Service, error) {
	if o.Queue == nil || o.Connections == nil {
		return nil, errors.New("jobs: a queue and connections are needed")
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
	return &Service{opts: o}, nil
}

// Submit stores and queues a job for req, unless an identical one stands in its way, which it then returns with
// duplicate set. Otherwise, in this order: every datasource exists (FET-1020) and is of the request's product
// (FET-1014, FET-1016), its host is allowed (FET-0414), it can be reached (FET-1040), has the tables and fields
// (FET-1060), and the filters fit (FET-0401). The lease stays the caller's.
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
		ID: id, RequestHash: req.Hash, Metadata: req.Metadata, MappedFields: req.MappedFields, Filters: req.Filters,
		Output: req.Output, Source: req.Source,
	}
	latest := time.Now().Add(createTimeout)
	existing, err = rows.CreateOnce(ctx, job, s.opts.DedupWindow, func(ctx context.Context) error {
		ctx, cancel := context.WithDeadline(ctx, latest)
		defer cancel()
		return s.opts.Queue.Enqueue(ctx, lease.TenantID(), id, PriorityNormal)
	})
	if err != nil {
		return nil, false, err
	}
	if existing != nil {
		return existing, true, nil
	}
	return job, false, nil
}

// datasources finds the connections a request names, by name.
func (s *Service) datasources(ctx context.Context, lease *tenant.Lease, req Request) (map[string]*store.Connection, error) {
	names := make([]string, 0, len(req.Datasources))
	for _, d := range req.Datasources {
		names = append(names, d.Name)
	}
	rows, err := store.NewConnections(lease.DB(ctx)).ByNames(ctx, names)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*store.Connection, len(rows))
	for i := range rows {
		found[rows[i].ConfigName] = &rows[i]
	}
	var unknown, unassigned, foreign []problem.Field
	for _, name := range names {
		at := join(atMapped, name)
		switch c := found[name]; {
		case c == nil:
			unknown = append(unknown, problem.Field{Location: at, Message: "there is no such datasource"})
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
