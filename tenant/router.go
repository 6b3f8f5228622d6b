package tenant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenantid"
)

// Router hands out leases on tenants' databases. It is safe for concurrent use.
type Router struct {
	opts     Options
	registry registry
	resolver *resolver
	pools    *table
	budget   *budget
	metrics  *metrics
	checks   *checks

	stale     atomic.Bool  // a refresh failed, the cache may lag behind
	refreshed atomic.Int64 // when the whole cache was compared last, in Unix nanoseconds

	stop context.CancelFunc
	life context.Context // the router's own, for work that belongs to no caller
	work sync.WaitGroup  // watchers, flights and closing pools
}

// NewRouter returns a router that runs until Close. It connects to nothing: a database that is down at the start is
// found out when it is needed. ctx only carries values.
func NewRouter(ctx context.Context, opts Options) (*Router, error) {
	o := opts.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	reg, err := registryOf(&o)
	if err != nil {
		return nil, err
	}
	r := &Router{opts: o, registry: reg, budget: newBudget(o.MaxConnsPerHost)}
	r.life, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	if r.resolver, err = newResolver(reg, o, func() { r.stale.Store(true) }); err != nil {
		return nil, err
	}
	r.pools = newTable(tableOptions{
		soft: o.MaxPools, hard: o.HardCap, now: o.Now,
		took: func() { r.work.Add(1) }, close: r.closePool,
	})
	if r.checks, err = newChecks(); err != nil {
		return nil, err
	}
	if r.metrics, err = newMetrics(o.Meter, o.LabelLimit, r); err != nil { //nolint:contextcheck // instruments belong to no request
		return nil, err
	}
	r.refreshed.Store(o.Now().UnixNano()) // there is nothing to refresh
	r.work.Go(func() { r.watch(r.life) })
	r.work.Go(func() { r.poll(r.life) })
	return r, nil
}

func registryOf(o *Options) (registry, error) {
	switch {
	case o.Manager != nil:
		return newManagedRegistry(*o.Manager, o.Keys, *o)
	case o.Control != nil:
		return controlRegistry{db: o.Control, keys: o.Keys}, nil
	}
	id := o.Single.ID
	if id == "" {
		id = "default"
	}
	canonical, ok := tenantid.Canonical(id)
	if !ok {
		return nil, errors.New("tenant router: the single tenant's id is malformed")
	}
	return singleRegistry{id: canonical, address: o.Single.DSN}, nil
}

// errMoved says that the registry's record changed while its pool was being opened.
var errMoved = errors.New("tenant: the registry record changed")

// Acquire returns a lease on the tenant's database, which the caller must release. With the pool open it does no I/O;
// otherwise it waits less than 5 s.
//
// Errors are ctx's own or *problem.Error: FET-1081 for an unknown or malformed id, FET-1083 for a suspended tenant,
// FET-1082 while the tenant's database, or the registry about a tenant not seen before, can't be used, and FET-0003
// when the pools or the connections to the host are used up. The last two tell when to retry.
func (r *Router) Acquire(ctx context.Context, tenantID string) (*Lease, error) {
	return r.acquireIf(ctx, tenantID, (*record).servable)
}

// AcquireSuspended is Acquire for a tenant that may be suspended: what was under way for it still has to end, and to be
// told of. It is for work in the background, never for requests.
func (r *Router) AcquireSuspended(ctx context.Context, tenantID string) (*Lease, error) {
	return r.acquireIf(ctx, tenantID, (*record).reachable)
}

func (r *Router) acquireIf(ctx context.Context, tenantID string, may func(*record) error) (*Lease, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return nil, unknown()
	}
	if lease := r.hit(id, may); lease != nil {
		return lease, nil
	}
	bounded, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	lease, err := r.acquire(bounded, id, may)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && problem.CodeOf(err) == problem.Internal {
		err = unavailable(errOpening, 2*time.Second)
	}
	return lease, err
}

// hit is acquire for a tenant that is known, well, and has its pool open, which is nearly always; else nil.
func (r *Router) hit(id string, may func(*record) error) *Lease {
	rec, _ := r.resolver.cached(id)
	if rec == nil || may(rec) != nil || !rec.health.well() {
		return nil
	}
	e := r.pools.take(flightKey{rec.ID, rec.Revision})
	if e == nil {
		return nil
	}
	return &Lease{router: r, entry: e}
}

// acquire starts over as long as the registry's record changes while its pool is being opened, and ctx lasts.
func (r *Router) acquire(ctx context.Context, id string, may func(*record) error) (*Lease, error) {
	for {
		rec, err := r.resolver.get(ctx, id)
		if err != nil {
			return nil, err
		}
		if err = may(rec); err != nil {
			return nil, err
		}
		lease, err := r.lease(ctx, rec)
		switch {
		case !errors.Is(err, errMoved):
			return lease, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

func (r *Router) lease(ctx context.Context, rec *record) (*Lease, error) {
	e, f, first, err := r.pools.acquire(flightKey{rec.ID, rec.Revision}, rec.health.mayDial)
	switch {
	case errors.Is(err, errFull), errors.Is(err, errClosed):
		return nil, busy(err)
	case err != nil:
		return nil, err
	case e != nil:
		return r.leaseOpen(ctx, rec, e)
	}
	if first {
		go r.open(f, rec) //nolint:contextcheck // the opening outlives this caller
	}
	return r.await(ctx, f)
}

// leaseOpen makes a lease of a reference to an open pool. While the tenant's breaker is not closed one caller at a
// time may test the database, the others are refused.
func (r *Router) leaseOpen(ctx context.Context, rec *record, e *entry) (*Lease, error) {
	if !rec.health.well() {
		if err := r.test(ctx, rec, e); err != nil {
			r.pools.release(e)
			return nil, err
		}
	}
	return &Lease{router: r, entry: e}, nil
}

func (r *Router) test(ctx context.Context, rec *record, e *entry) error {
	if err := rec.health.mayDial(); err != nil {
		return err
	}
	done, err := rec.health.try()
	if err != nil {
		return err
	}
	// Connections from before are likely to be as silent as they were.
	e.pool.pgx.Reset()
	trial, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	err = e.pool.sql.PingContext(trial)
	if problem.CodeOf(err) == problem.Unavailable {
		done(errNotCounted) // a bound of ours
	} else {
		done(err)
	}
	if err != nil {
		return tenantError("test tenant database", err)
	}
	return nil
}

// await waits for a flight's outcome.
func (r *Router) await(ctx context.Context, f *flight) (*Lease, error) {
	select {
	case <-f.done:
		switch {
		case errors.Is(f.err, errClosed):
			return nil, busy(f.err)
		case f.err != nil:
			return nil, f.err
		}
		return &Lease{router: r, entry: f.entry}, nil
	case <-ctx.Done():
		r.pools.leave(f)
		return nil, ctx.Err()
	}
}

// errOpening says that a pool is not open yet, which takes long while migrations run.
var errOpening = errors.New("tenant: the database is still being opened")

func (r *Router) giveBack(e *entry) { r.pools.release(e) }

// closePool closes an unlinked pool without making anybody wait for it.
func (r *Router) closePool(e *entry) {
	r.metrics.poolClosed(e)
	go func() {
		defer r.work.Done()
		e.pool.close()
	}()
}

// Info is what the registry knows of a tenant.
type Info struct {
	ID             string
	Name           string
	Suspended      bool
	Revision       int64
	MaxRunningJobs int     // over all workers; 0: the deployment's default
	RateLimit      float64 // requests per second; 0: the deployment's default
}

// Info returns the registry's record of the tenant without touching its database. A suspended tenant is no error
// here. Errors are ctx's own, FET-1081, or FET-1082 while the registry can't be asked about an id not seen before.
func (r *Router) Info(ctx context.Context, tenantID string) (Info, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return Info{}, unknown()
	}
	rec, err := r.resolver.get(ctx, id)
	if err != nil {
		return Info{}, err
	}
	if err := rec.servable(); err != nil && problem.CodeOf(err) != problem.TenantSuspended {
		return Info{}, err
	}
	return Info{
		ID: rec.ID, Name: rec.Name, Suspended: rec.servable() != nil, Revision: rec.Revision,
		MaxRunningJobs: rec.MaxRunningJobs, RateLimit: rec.RateLimit,
	}, nil
}

// Tenants returns the ids of the active tenants as the registry has them now.
func (r *Router) Tenants(ctx context.Context) ([]string, error) {
	ids, err := r.registry.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	return ids, nil
}

// Close refuses new leases, closes every pool as its last lease returns, and waits for that until ctx ends.
// It must be called once.
func (r *Router) Close(ctx context.Context) error {
	r.stop()
	r.pools.close()
	closed := make(chan struct{})
	go func() {
		r.work.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		return r.metrics.close()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("close tenant router: %w", ctx.Err()), r.metrics.close())
	}
}
