package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/mongodb"
	"github.com/fetcherhq/fetcher/source/mysql"
	"github.com/fetcherhq/fetcher/source/oracle"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/source/sqlserver"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/telemetry"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	singleTenant  = "default"
	controlConns  = 12 // of a process to the control database: queue, registry, leases
	migrateLimit  = 5 * time.Minute
	shutdownLimit = 10 * time.Second // for what is left after requests and jobs have finished

	controlConnect = 5 * time.Second  // for a connection to the control database to come about
	controlSilence = 10 * time.Second // for the beginning of its answer, above the slowest of the queue's housekeeping
	controlClose   = 3 * time.Second  // for its connections to come back at the end
)

// errDatabaseURL stands in for the driver's error, which quotes the URL.
var errDatabaseURL = usageError{errors.New("DATABASE_URL can't be parsed")}

// app is the parts that manager and worker share.
type app struct {
	cfg     *config.Config
	tel     *telemetry.Telemetry
	log     *slog.Logger
	keys    *secret.Keyring
	pool    *pgxpool.Pool
	control *control.DB
	router  *tenant.Router
	guard   *dial.Guard
	drivers source.Drivers
	conns   *connections.Service
	objects *results.Store
	gate    auth.Gate
	brokers []events.Transport // of a process that sends events

	closers []func(context.Context) error // run in reverse
}

// newApp connects the shared parts. The caller closes the app, also after an error.
func newApp(ctx context.Context, cfg *config.Config, logs io.Writer) (*app, error) {
	a := &app{cfg: cfg, drivers: source.Drivers{source.PostgreSQL: postgres.New(), source.MySQL: mysql.New(), source.MongoDB: mongodb.New(), source.SQLServer: sqlserver.New(), source.Oracle: oracle.New()}}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return a.observe(ctx, logs) },
		a.openKeys, a.openControl, a.openRouter, a.openSources, a.openResults,
	} {
		if err := step(ctx); err != nil {
			return a, err
		}
	}
	return a, nil
}

// close ends everything in the reverse of the order it was opened in.
func (a *app) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer(ctx))
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *app) onClose(f func(context.Context) error) { a.closers = append(a.closers, f) }

func (a *app) observe(ctx context.Context, logs io.Writer) error {
	if logs == nil {
		logs = os.Stderr
	}
	tel, err := telemetry.Setup(ctx, telemetry.Options{
		Version: version, Enabled: a.cfg.Telemetry.Enabled, LogLevel: a.cfg.Telemetry.LogLevel,
		LogFormat: a.cfg.Telemetry.LogFormat, Writer: logs, Global: true,
	})
	if err != nil {
		return fmt.Errorf("setting up telemetry: %w", err)
	}
	a.tel, a.log = tel, tel.Logger()
	if a.drivers, err = source.Observed(a.drivers, tel.Meter("source")); err != nil {
		return err
	}
	slog.SetDefault(a.log) // for libraries that know no other place; ours are handed theirs
	a.onClose(func(ctx context.Context) error {
		// Traces that nobody takes are lost; the process ended well all the same.
		if err := tel.Shutdown(ctx); err != nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "traces were not delivered", slog.Any("error", err))
		}
		return nil
	})
	return nil
}

func (a *app) openKeys(context.Context) error {
	keys, err := newKeyring(a.cfg)
	a.keys = keys
	return err
}

func (a *app) openControl(ctx context.Context) error {
	settings, err := pgxpool.ParseConfig(a.cfg.Database.URL.Reveal())
	if err != nil {
		return errDatabaseURL
	}
	settings.MaxConns = controlConns
	settings.ConnConfig.RuntimeParams["application_name"] = "fetcher"
	settings.ConnConfig.Tracer = a.queryTracer()
	settings.ConnConfig.ConnectTimeout = controlConnect
	if err = prepareControl(ctx, settings.Copy(), a.cfg.Tenants.AutoMigrate); err != nil {
		return err
	}
	tenant.GuardControl(settings.ConnConfig, controlConnect, controlSilence)
	a.pool, err = pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return fmt.Errorf("opening the control database: %w", err)
	}
	a.onClose(func(ctx context.Context) error { return closePool(ctx, a.pool) })
	a.control = control.New(a.pool)
	return checkRing(ctx, a.pool, a.keys)
}

// prepareControl works on connections of its own: a migration, or the wait for another process's, may be silent for long.
func prepareControl(ctx context.Context, settings *pgxpool.Config, migrate bool) error {
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return fmt.Errorf("opening the control database: %w", err)
	}
	defer pool.Close()
	return migrateControl(ctx, pool, migrate)
}

// closePool closes the pool, but waits only so long for connections that are in use.
func closePool(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, controlClose)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the control database's connections: %w", ctx.Err())
	}
}

// migrateControl brings the control database up to date, or insists that it is.
func migrateControl(ctx context.Context, pool *pgxpool.Pool, migrate bool) error {
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	if migrate {
		if err := control.Migrate(ctx, pool); err != nil {
			return fmt.Errorf("migrating the control database: %w", err)
		}
		return nil
	}
	current, latest, err := control.Version(ctx, pool)
	if err != nil {
		return fmt.Errorf("reading the control database's version: %w", err)
	}
	if current < latest {
		return fmt.Errorf("the control database is at version %d, this program needs %d: run fetcher migrate", current, latest)
	}
	return nil
}

// queryTracer makes spans of statements, never with their arguments.
func (a *app) queryTracer() *otelpgx.Tracer {
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(a.tel.TracerProvider()), otelpgx.WithMeterProvider(a.tel.MeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(),
	)
}

func (a *app) openRouter(ctx context.Context) error {
	if err := checkRegistry(ctx, a.cfg, tenant.Admin{Control: a.control, Keys: a.keys}); err != nil {
		return err
	}
	opts := routerOptions(a.cfg, a.control, a.keys)
	opts.AutoMigrate, opts.LabelLimit = a.cfg.Tenants.AutoMigrate, a.cfg.Telemetry.TenantLabels
	opts.Logger, opts.Meter, opts.QueryTracer = a.log, a.tel.Meter("tenant"), a.queryTracer()
	router, err := tenant.NewRouter(ctx, opts)
	if err != nil {
		return fmt.Errorf("starting the tenant router: %w", err)
	}
	a.router = router
	a.onClose(router.Close)
	return nil
}

// routerOptions says where tenants are known, and the bounds of their pools.
func routerOptions(cfg *config.Config, db *control.DB, keys *secret.Keyring) tenant.Options {
	t := cfg.Tenants
	opts := tenant.Options{
		Keys: keys, MaxPools: t.MaxPools, HardCap: t.PoolHardCap, MaxConns: t.MaxOpenConns, MaxConnsPerHost: t.MaxConnsPerHost,
		IdleTimeout: t.IdleTimeout.Duration(), CacheTTL: t.CacheTTL.Duration(),
	}
	switch {
	case t.ManagerURL != "":
		manager := managerOf(cfg)
		opts.Manager = &manager
	case t.Multi:
		opts.Control = db
	default:
		opts.Single = &tenant.SingleTenant{ID: singleTenant, DSN: singleDSN(cfg)}
	}
	return opts
}

func singleDSN(cfg *config.Config) string {
	if cfg.Database.TenantURL.IsSet() {
		return cfg.Database.TenantURL.Reveal()
	}
	return cfg.Database.URL.Reveal()
}

// newGuard is the guard of whatever tenants name.
func newGuard(cfg *config.Config) (*dial.Guard, error) {
	guard, err := dial.NewGuard(dial.Policy{AllowPrivate: !cfg.Tenants.Multi, Allow: cfg.Sources.AllowPrivateHosts})
	if err != nil {
		return nil, fmt.Errorf("ALLOW_PRIVATE_HOSTS: %w", err)
	}
	return guard, nil
}

func (a *app) openSources(context.Context) error {
	guard, err := newGuard(a.cfg)
	if err != nil {
		return err
	}
	a.guard = guard
	internal, err := internals(a.cfg)
	if err != nil {
		return err
	}
	a.conns, err = connections.New(connections.Options{
		Keys: a.keys, Guard: guard, Drivers: a.drivers, RequireTLS: a.cfg.Sources.RequireTLS,
		Internal: internal, Reserved: internal.Reserved,
	})
	if err != nil {
		return fmt.Errorf("starting the connections service: %w", err)
	}
	return nil
}

func (a *app) openResults(ctx context.Context) error {
	objects, err := results.Open(ctx, a.cfg.Results.URL.Reveal(), a.keys, results.Options{KeyPrefix: a.cfg.Results.KeyPrefix})
	if err != nil {
		return fmt.Errorf("opening RESULTS_URL: %w", err)
	}
	a.objects = objects
	a.onClose(func(context.Context) error { return objects.Close() })
	return nil
}

func (a *app) openGate(ctx context.Context) error {
	c := a.cfg.Auth
	if !c.Enabled {
		a.log.WarnContext(ctx, "authentication is off: every request runs as the anonymous principal", "tenant", singleTenant)
		a.gate = auth.Disabled{TenantID: singleTenant}
		return nil
	}
	authenticator, err := auth.New(ctx, auth.Options{
		Address: c.Address, JWKSURL: c.JWKSURL, Issuer: c.Issuer, Audience: c.Audience, TenantClaim: c.TenantClaim,
		Mode: auth.Mode(c.Authorization), CacheTTL: c.CacheTTL, Logger: a.log, Meter: a.tel.Meter("auth"),
	})
	if err != nil {
		return fmt.Errorf("starting authentication: %w", err)
	}
	a.gate = authenticator
	a.onClose(func(context.Context) error { authenticator.Close(); return nil })
	return nil
}
