package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/embedded"
	"github.com/fetcherhq/fetcher/telemetry"
)

type devOptions struct {
	dataDir    string
	listen     string
	binDir     string
	worker     bool
	disposable bool      // the data are deleted at the stop
	logs       io.Writer // nil: discarded
}

// devGateway is a running development gateway.
type devGateway struct {
	info embedded.DevFile

	opts     devOptions
	dir      layout
	log      *slog.Logger
	postgres *embedded.Postgres
	issuer   *embedded.Issuer
	site     *embedded.Site
	cancel   context.CancelFunc
	done     chan error // one value when the service has ended
}

// startDev brings everything up and returns once the API answers. The caller stops it or waits for it.
func startDev(ctx context.Context, opts devOptions) (*devGateway, error) {
	if opts.logs == nil {
		opts.logs = io.Discard
	}
	log, err := telemetry.NewLogger(opts.logs, os.Getenv("LOG_LEVEL"), cmp.Or(os.Getenv("LOG_FORMAT"), devLogFormat))
	if err != nil {
		return nil, usageError{fmt.Errorf("LOG_LEVEL or LOG_FORMAT: %w", err)}
	}
	if err = probeListen(ctx, opts.listen); err != nil {
		return nil, err
	}
	g := &devGateway{opts: opts, dir: layout(opts.dataDir), log: log, done: make(chan error, 1)}
	if err := g.start(ctx); err != nil {
		err = errors.Join(err, g.stop(ctx))
		if ctx.Err() != nil {
			return nil, errors.New("stopped before it was ready")
		}
		return nil, err
	}
	return g, nil
}

// probeListen finds out whether the address is to be had before minutes of work depend on it.
func probeListen(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return usageError{fmt.Errorf("--listen %s: %w", address, err)}
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("closing the probed address: %w", err)
	}
	return nil
}

func (g *devGateway) start(ctx context.Context) error {
	if err := os.MkdirAll(string(g.dir), 0o755); err != nil { // #nosec G301 -- the server's user passes through; the secrets in it are 0600
		return fmt.Errorf("making the data directory: %w", err)
	}
	key, err := keepKey(g.dir.key())
	if err != nil {
		return err
	}
	g.postgres, err = embedded.StartPostgres(ctx, embedded.PostgresOptions{Dir: g.dir.postgres(), BinDir: g.opts.binDir, Logger: g.log})
	if errors.Is(err, embedded.ErrInUse) {
		return fmt.Errorf("a development gateway is running on %s already", g.dir)
	}
	if err != nil {
		return fmt.Errorf("starting Postgres: %w", err)
	}
	// The server has the directory to itself now. The file is of a run that was killed; whoever waits must not find it.
	if err = embedded.RemoveDevFile(string(g.dir)); err != nil {
		return err
	}
	if g.issuer, err = embedded.NewIssuer(g.dir.identity()); err != nil {
		return fmt.Errorf("opening the identity service: %w", err)
	}
	if err = g.issuer.Start(ctx, ""); err != nil {
		return fmt.Errorf("starting the identity service: %w", err)
	}
	if g.site, err = embedded.StartSite(ctx, g.dir.site()); err != nil {
		return fmt.Errorf("starting the sample pages: %w", err)
	}
	cfg, err := g.configure(ctx, key)
	if err != nil {
		return err
	}
	if err = g.populate(ctx, cfg); err != nil {
		return err
	}
	return g.serve(ctx, cfg)
}

// serve runs the service as the other commands would, and writes dev.json once it answers.
func (g *devGateway) serve(ctx context.Context, cfg *config.Config) error {
	role := config.RoleManager
	if g.opts.worker {
		role |= config.RoleWorker
	}
	// The service ends when stop says so, not when the caller's context does: stopping has an order.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancel = cancel
	ready := make(chan error, 1)
	go func() {
		g.done <- runService(running, cfg, role, g.opts.logs, func(address string) error {
			g.info.API = "http://" + address
			err := embedded.WriteDevFile(string(g.dir), g.info)
			ready <- err
			return err
		})
	}()
	select {
	case err := <-ready:
		return err
	case err := <-g.done:
		g.done <- nil // stop has nothing to add
		return fmt.Errorf("starting the service: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wait runs until ctx ends or something it needs does, and stops everything.
func (g *devGateway) wait(ctx context.Context) error {
	var ended error
	select {
	case <-ctx.Done():
	case <-g.postgres.Done():
		ended = fmt.Errorf("the embedded Postgres has ended; its log is below %s", g.dir.postgres())
	case err := <-g.done:
		g.done <- err
		ended = errors.New("the service has ended")
	}
	return errors.Join(ended, g.stop(ctx))
}

// stop ends the service, then what it needs, also after ctx has ended. It works on a gateway that started half way.
func (g *devGateway) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if g.cancel != nil {
		g.cancel()
		errs = append(errs, <-g.done)
	}
	if g.site != nil {
		errs = append(errs, g.site.Stop(ctx))
	}
	if g.issuer != nil {
		errs = append(errs, g.issuer.Stop(ctx))
	}
	if g.postgres != nil { // without it the directory may be somebody else's
		errs = append(errs, embedded.RemoveDevFile(string(g.dir)))
		errs = append(errs, g.postgres.Stop(ctx))
		if g.opts.disposable {
			errs = append(errs, embedded.RemovePostgres(ctx, g.dir.postgres()))
		}
	}
	return errors.Join(errs...)
}
