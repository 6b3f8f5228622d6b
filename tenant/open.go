package tenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// errOldSchema says that a database needs migrations that this process may not run.
var errOldSchema = errors.New("tenant: the database's schema is older than this release")

// open does a flight: it opens the pool of rec, looks at its schema and lands. It has deadlines of its own, so that
// no caller's leaving fails the others.
func (r *Router) open(f *flight, rec *record) {
	defer r.work.Done()
	began := time.Now()
	p, err := r.openPool(rec)
	r.work.Add(1) // for the pool, until it is closed
	owned := r.pools.land(f, p, err, func() bool { return r.resolver.current(rec.ID, rec.Revision) }, errMoved)
	if !owned {
		if p != nil {
			p.close()
		}
		r.work.Done()
	}
	r.metrics.poolOpened(time.Since(began), f.err)
	if f.err != nil && !errors.Is(f.err, errMoved) {
		r.opts.Logger.LogAttrs(r.life, slog.LevelWarn, "tenant database not opened",
			slog.String("tenant", rec.ID), slog.Any("error", f.err))
	}
}

// openPool returns an open pool, or errMoved, or a *problem.Error. While the breaker is closed the connections
// themselves report how they fare; otherwise this opening is its test.
func (r *Router) openPool(rec *record) (*pool, error) {
	done := func(error) {}
	if !rec.health.well() {
		var err error
		if done, err = rec.health.try(); err != nil {
			return nil, err
		}
	}
	p, err := r.connect(rec)
	switch {
	case err == nil:
		done(nil)
		return p, nil
	case store.Refused(err) && r.moved(rec):
		done(errNotCounted) // the refusal was meant for a password that is no longer ours
		return nil, errMoved
	case problem.CodeOf(err) == problem.Unavailable:
		done(errNotCounted) // a bound of ours
		return nil, err
	}
	done(err)
	return nil, tenantError("open tenant database", err)
}

// moved asks the registry once more for a record whose login was refused, and reports whether it has changed.
func (r *Router) moved(rec *record) bool {
	ctx, cancel := context.WithTimeout(r.life, registryTimeout)
	defer cancel()
	now, err := r.resolver.load(ctx, rec.ID)
	return err == nil && now.Revision != rec.Revision
}

func (r *Router) connect(rec *record) (*pool, error) {
	p, err := r.newPool(rec)
	if err != nil {
		return nil, unavailable(fmt.Errorf("open tenant database: %w", err), maxRetry)
	}
	if err := r.prepare(p, rec.ID); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (r *Router) newPool(rec *record) (*pool, error) {
	dsn, err := r.registry.dsn(rec.Tenant)
	if err != nil {
		return nil, err
	}
	conns := r.opts.MaxConns
	if rec.MaxConns > 0 {
		conns = min(conns, rec.MaxConns)
	}
	return newPool(poolConfig{
		dsn: dsn, maxConns: conns, health: rec.health, dial: r.dialer(), tracer: r.opts.QueryTracer,
		refused: func() { r.stale.Store(true) }, // the registry may have a newer password
	})
}

func (r *Router) dialer() dialer {
	return dialer{dial: r.opts.Dial, budget: r.budget, reclaim: r.reclaim}
}

// prepare makes the first connection, brings the schema up to date, and makes sure that the database is the tenant's.
func (r *Router) prepare(p *pool, tenantID string) error {
	ctx, cancel := context.WithTimeout(r.life, openTimeout)
	defer cancel()
	current, latest, err := store.Version(ctx, p.sql)
	switch {
	case err != nil:
		return err
	case current >= latest:
		return store.Own(ctx, p.sql, tenantID)
	case !r.opts.AutoMigrate:
		return unavailable(errOldSchema, maxRetry)
	}
	migrating, cancel := context.WithTimeout(r.life, r.opts.MigrateTimeout)
	defer cancel()
	return withConnections(p.config, r.dialer(), func(db *sql.DB) error { return migrate(migrating, db, tenantID) })
}

// migrate brings the schema up to date and makes the database the tenant's.
func migrate(ctx context.Context, db *sql.DB, tenantID string) error {
	if err := store.Migrate(ctx, db); err != nil {
		return err
	}
	return store.Own(ctx, db, tenantID)
}

// withConnections works on connections of its own: a migration may be silent for longer than a statement of a request.
func withConnections(c *pgx.ConnConfig, d dialer, work func(*sql.DB) error) (err error) {
	cfg := c.Copy()
	cfg.DialFunc = d.DialContext
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	db.SetMaxOpenConns(2) // one holds the lock
	defer func() { err = errors.Join(err, db.Close()) }()
	return work(db)
}

// reclaim closes an idle connection to the address, of the pool that was used least recently, so that a tenant that
// needs one is not refused for the sake of those that don't.
func (r *Router) reclaim(ctx context.Context, address string) bool {
	for _, e := range r.pools.entries() {
		if e.pool.uses(address) && e.pool.closeIdle(ctx, 1) > 0 {
			return true
		}
	}
	return false
}

// tenantError gives an error about a tenant's database its code, unless it has one.
func tenantError(op string, err error) error {
	if coded, ok := errors.AsType[*problem.Error](err); ok {
		return coded
	}
	return unavailable(store.Cause(op, err), time.Second)
}
