package tenant

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/singleflight"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenantid"
)

// Readiness is how a tenant's database stands.
type Readiness struct {
	TenantID  string
	Suspended bool // then nothing else was looked at

	// The database: nil Err when it answered, within Latency.
	Err     error // *problem.Error, safe to log
	Latency time.Duration
	Breaker string // closed, half-open or open

	// Its schema, when it answered: Current below Latest needs migrations.
	Current, Latest int64

	// The pool of this process.
	PoolOpen                 bool
	Generation               uint64
	Open, InUse, Idle, Limit int   // connections
	Waits                    int64 // acquisitions that had to wait for a connection, since the pool was opened
}

// Ready reports whether the tenant can be served.
func (s Readiness) Ready() bool { return !s.Suspended && s.Err == nil && s.Current >= s.Latest }

const (
	checkTTL     = time.Second     // for which an outcome is shared
	checkTimeout = 2 * time.Second // for one look
	maxChecks    = 4096            // outcomes kept
)

// checks shares outcomes between those who ask about the same tenant at about the same time.
type checks struct {
	flights singleflight.Group
	mu      sync.Mutex
	recent  *simplelru.LRU[string, check]
}

type check struct {
	outcome Readiness
	until   time.Time
}

func newChecks() (*checks, error) {
	recent, err := simplelru.NewLRU[string, check](maxChecks, nil)
	if err != nil {
		return nil, err
	}
	return &checks{recent: recent}, nil
}

// Readiness looks at the tenant's database: it answers, its schema, the pool. It uses at most one connection, keeps
// no pool open and evicts none; an outcome is shared for a second by everybody who asks. It takes 2 s at most.
// Errors are ctx's own and those of Info; a database that is down is an outcome.
func (r *Router) Readiness(ctx context.Context, tenantID string) (Readiness, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return Readiness{}, unknown()
	}
	rec, err := r.resolver.get(ctx, id)
	if err != nil {
		return Readiness{}, err
	}
	if err := rec.servable(); err != nil {
		if problem.CodeOf(err) == problem.TenantSuspended {
			return Readiness{TenantID: id, Suspended: true}, nil
		}
		return Readiness{}, err
	}
	if outcome, ok := r.checks.get(id, r.opts.Now()); ok {
		return outcome, nil
	}
	return r.check(ctx, rec)
}

func (c *checks) get(id string, now time.Time) (Readiness, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, ok := c.recent.Get(id)
	return got.outcome, ok && now.Before(got.until)
}

func (c *checks) put(id string, outcome Readiness, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Add(id, check{outcome, until})
}

func (r *Router) check(ctx context.Context, rec *record) (Readiness, error) {
	outcome := r.checks.flights.DoChan(rec.ID, func() (any, error) {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		s := r.look(look, rec)
		r.checks.put(rec.ID, s, r.opts.Now().Add(checkTTL))
		return s, nil
	})
	select {
	case got := <-outcome:
		s, _ := got.Val.(Readiness)
		return s, got.Err
	case <-ctx.Done():
		return Readiness{}, ctx.Err()
	}
}

func (r *Router) look(ctx context.Context, rec *record) Readiness {
	s := Readiness{TenantID: rec.ID}
	began := time.Now()
	e := r.pools.peek(rec.ID)
	if e != nil {
		defer r.pools.unpeek(e)
		s.Current, s.Latest, s.Err = r.lookThrough(ctx, rec, e.pool)
		st := e.pool.pgx.Stat()
		s.PoolOpen, s.Generation = true, e.generation
		s.Open, s.InUse, s.Idle = int(st.TotalConns()), int(st.AcquiredConns()), int(st.IdleConns())
		s.Limit, s.Waits = int(st.MaxConns()), st.EmptyAcquireCount()
	} else {
		s.Current, s.Latest, s.Err = r.lookOutside(ctx, rec)
	}
	s.Latency, s.Breaker = time.Since(began), rec.health.state()
	if s.Err != nil {
		s.Err = tenantError("check tenant database", s.Err)
	}
	return s
}

// lookThrough uses the open pool.
func (r *Router) lookThrough(ctx context.Context, rec *record, p *pool) (current, latest int64, err error) {
	if !rec.health.well() {
		return 0, 0, unavailable(errBreaker, rec.health.reopens())
	}
	return store.Version(ctx, p.sql)
}

// errBreaker says that a tenant's breaker is not closed.
var errBreaker = errors.New("tenant: the breaker is not closed")

// lookOutside uses one connection that is closed again. It heeds and feeds the tenant's health, so that probes with a
// wrong password lock no account.
func (r *Router) lookOutside(ctx context.Context, rec *record) (current, latest int64, err error) {
	if !rec.health.well() {
		return 0, 0, unavailable(errBreaker, rec.health.reopens())
	}
	if err = rec.health.mayDial(); err != nil {
		return 0, 0, err
	}
	dsn, err := r.registry.dsn(rec.Tenant)
	if err != nil {
		return 0, 0, err
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return 0, 0, errDSN
	}
	tune(cfg, r.opts.QueryTracer)
	cfg.DialFunc = r.dialer().DialContext
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	current, latest, err = store.Version(ctx, db)
	if errors.Is(err, errHostSpent) {
		return 0, 0, busy(errHostSpent)
	}
	rec.health.report(err)
	if err == nil && current >= latest { // an open pool was looked at when it was opened
		err = store.Belongs(ctx, db, rec.ID)
	}
	return current, latest, err
}
