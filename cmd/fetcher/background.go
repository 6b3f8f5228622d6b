package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/jobs"
)

// background runs what needs no request until ctx ends: the sweeper in every process, jobs in a worker.
func (a *app) background(ctx context.Context, role config.Role) (err error) {
	queue, err := jobs.NewQueue(a.pool, a.log)
	if err != nil {
		return fmt.Errorf("opening the queue: %w", err)
	}
	sweeper, err := jobs.NewSweeper(jobs.SweeperOptions{ //nolint:contextcheck // its instruments belong to no request
		Control: a.control, Queue: queue, MaxRunning: a.cfg.Tenants.MaxRunningJobs, Logger: a.log, Meter: a.tel.Meter("jobs"),
	})
	if err != nil {
		return fmt.Errorf("building the sweeper: %w", err)
	}
	unobserve, err := jobs.ObserveQueue(a.tel.Meter("jobs"), a.control)
	if err != nil {
		return fmt.Errorf("measuring the queue: %w", err)
	}
	defer func() { err = errors.Join(err, unobserve()) }()
	sweeper.Start(ctx)
	defer sweeper.Stop()
	if role&config.RoleWorker == 0 {
		<-ctx.Done()
		return nil
	}
	stop, err := a.dispatch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	retention, err := a.retention() //nolint:contextcheck // its instruments belong to no request
	if err != nil {
		return err
	}
	retention.Start(ctx)
	defer retention.Stop()
	worker, err := jobs.NewWorker(a.workerOptions()) //nolint:contextcheck // its instruments belong to no request
	if err != nil {
		return fmt.Errorf("building the worker: %w", err)
	}
	if err := worker.Start(ctx); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	<-ctx.Done()
	if err := worker.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stopping the worker: %w", err)
	}
	return nil
}

// dispatch sends events until stop is called, which waits for what is under way.
func (a *app) dispatch(ctx context.Context) (stop func() error, err error) {
	dispatcher, err := a.dispatcher() //nolint:contextcheck // its instruments belong to no request
	if err != nil {
		return nil, err
	}
	unobserve, err := events.Observe(a.tel.Meter("events"), a.control)
	if err != nil {
		return nil, fmt.Errorf("measuring the outboxes: %w", err)
	}
	dispatcher.Start(ctx)
	return func() error { return errors.Join(dispatcher.Stop(context.WithoutCancel(ctx)), unobserve()) }, nil
}

// retention is what deletes results and jobs whose time is over.
func (a *app) retention() (*jobs.Retention, error) {
	r, err := jobs.NewRetention(jobs.RetentionOptions{
		Control: a.control, Tenants: a.router, Store: a.objects, Active: a.router.Tenants, SingleTenant: !a.cfg.Tenants.Multi,
		JobTTL: a.cfg.Jobs.TTL, Logger: a.log, Meter: a.tel.Meter("jobs"),
	})
	if err != nil {
		return nil, fmt.Errorf("building the retention: %w", err)
	}
	return r, nil
}

func (a *app) workerOptions() jobs.WorkerOptions {
	j := a.cfg.Jobs
	return jobs.WorkerOptions{
		Pool: a.pool, Leases: a.control, Tenants: a.router, Connections: a.conns, Keys: a.keys,
		Runner:       &extract.Runner{Drivers: a.drivers, Dialer: a.guard, Store: a.objects},
		SingleTenant: !a.cfg.Tenants.Multi, Concurrency: j.Concurrency, MaxRunning: a.cfg.Tenants.MaxRunningJobs, Timeout: j.Timeout, MaxAttempts: j.MaxAttempts,
		MaxBytes: int64(j.MaxResultBytes), MaxRows: j.MaxRows, SafeCells: a.cfg.Results.SafeCells, ResultTTL: a.cfg.Results.TTL, Grace: a.cfg.Server.ShutdownGrace,
		Logger: a.log, Meter: a.tel.Meter("jobs"), Tracer: a.tel.TracerProvider(),
	}
}
