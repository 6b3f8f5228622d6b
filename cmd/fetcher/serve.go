package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/jobs"
)

func newServe() *cobra.Command {
	return newService("serve", "Run manager and worker in one process", config.RoleManager|config.RoleWorker)
}

func newManager() *cobra.Command {
	return newService("manager", "Serve the API", config.RoleManager)
}

func newWorker() *cobra.Command {
	return newService("worker", "Run extraction jobs", config.RoleWorker)
}

func newService(use, short string, role config.Role) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(role)
			if err != nil {
				return err
			}
			return runService(cmd.Context(), cfg, role, nil, func(string) error { return nil })
		},
	}
}

// runService runs the roles until ctx ends, then drains them. ready is called once the address of the API, or of a
// worker's health endpoints, accepts connections. Logs go to standard error unless logs is given.
func runService(ctx context.Context, cfg *config.Config, role config.Role, logs io.Writer, ready func(address string) error) (err error) {
	a, err := newApp(ctx, cfg, logs)
	defer func() { err = errors.Join(err, a.close(ctx)) }()
	if err != nil {
		return err
	}
	a.checkKeys(ctx)
	if role&config.RoleManager != 0 {
		if err = a.openGate(ctx); err != nil {
			return err
		}
	}
	if role&config.RoleWorker != 0 {
		if err = a.openBrokers(); err != nil {
			return err
		}
	}
	health, err := a.health(role)
	if err != nil {
		return err
	}
	server, err := a.server(ctx, role, health)
	if err != nil {
		return err
	}
	if err := server.Listen(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { return a.background(ctx, role) })
	address := server.Addr().String()
	a.log.InfoContext(ctx, "started", "address", address, "version", version)
	if err := ready(address); err != nil {
		group.Go(func() error { return err })
	}
	return group.Wait()
}

// server is the API for a manager, and the health endpoints alone for a worker.
func (a *app) server(ctx context.Context, role config.Role, health *handlers.Health) (*handlers.Server, error) {
	s := a.cfg.Server
	opts := handlers.ServerOptions{Health: health, Grace: s.ShutdownGrace, Logger: a.log}
	var err error
	if role&config.RoleManager == 0 {
		opts.Address = s.HealthAddress
		opts.Handler, err = handlers.NewHealthHandler(health, a.tel.Handler()) //nolint:contextcheck // requests bring their own
	} else {
		opts.Address, opts.TLSCert, opts.TLSKey, opts.DrainDelay = s.Address, s.TLSCert, s.TLSKey, s.DrainDelay.Duration()
		opts.Handler, err = a.api(ctx, health)
	}
	if err != nil {
		return nil, fmt.Errorf("building the routes: %w", err)
	}
	server, err := handlers.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("building the server: %w", err)
	}
	return server, nil
}

func (a *app) api(ctx context.Context, health *handlers.Health) (http.Handler, error) {
	queue, err := jobs.NewQueue(a.pool, a.log)
	if err != nil {
		return nil, fmt.Errorf("opening the queue: %w", err)
	}
	service, err := jobs.NewService(jobs.ServiceOptions{Queue: queue, Connections: a.conns, Keys: a.keys, Meter: a.tel.Meter("jobs")}) //nolint:contextcheck // its instruments belong to no request
	if err != nil {
		return nil, fmt.Errorf("starting the job service: %w", err)
	}
	once, err := idempotency.New(a.keys)
	if err != nil {
		return nil, fmt.Errorf("starting the idempotency service: %w", err)
	}
	web, err := a.documents(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the service of web documents: %w", err)
	}
	s := a.cfg.Server
	return handlers.New(handlers.Options{ //nolint:contextcheck // requests bring their own
		Auth: a.gate, Tenants: a.router, Connections: a.conns, Jobs: service, Results: a.objects, Idempotency: once,
		Documents: web, SessionCookie: a.cfg.Documents.SessionCookie, AllowedOrigins: a.cfg.Documents.AllowedOrigins,
		Health: health, Metrics: a.tel.Handler(), Build: build(),
		MaxBodyBytes: int64(s.MaxBodyBytes), StrictJSON: s.StrictJSON, MaxPageLimit: s.MaxPageLimit, MaxMonths: s.MaxDateRangeMonths,
		JobLimits:      jobs.Limits{Datasources: a.cfg.Jobs.MaxDatasources, Tables: a.cfg.Jobs.MaxTables, Fields: a.cfg.Jobs.MaxFields, Conditions: a.cfg.Jobs.MaxConditions},
		ProblemBaseURI: s.ProblemBaseURI, EventsSource: a.cfg.Events.Source, Swagger: s.SwaggerEnabled, TrustedProxies: s.TrustedProxies,
		CORSOrigins: s.CORSOrigins, TenantRate: a.cfg.Tenants.RateLimit,
		Logger: a.log, Meter: a.tel.Meter("handlers"), Tracer: a.tel.TracerProvider(), Untraced: !a.cfg.Telemetry.Enabled, Propagator: a.tel.Propagator(),
	})
}
