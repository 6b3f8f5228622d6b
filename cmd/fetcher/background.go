package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/jobs"
)

// background runs what needs no request until ctx ends: the sweeper in every process, jobs in a worker.
func (a *app) background(ctx context.Context, role config.Role) (err error) {
	queue, err := jobs.NewQueue(a.pool, a.log)
	if err != nil {
		return fmt.Errorf("opening the queue: %w", err)
	}
	sweeper, err := jobs.NewSweeper(jobs.SweeperOptions{Control: a.control, Queue: queue, Logger: a.log, Meter: a.tel.Meter("jobs")})
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
	worker, err := jobs.NewWorker(a.workerOptions())
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

func (a *app) workerOptions() jobs.WorkerOptions {
	j := a.cfg.Jobs
	return jobs.WorkerOptions{
		Pool: a.pool, Leases: a.control, Tenants: a.router, Connections: a.conns,
		Runner:       &extract.Runner{Drivers: a.drivers, Dialer: a.guard, Store: a.objects},
		SingleTenant: !a.cfg.Tenants.Multi, Concurrency: j.Concurrency, Timeout: j.Timeout, MaxAttempts: j.MaxAttempts,
		MaxBytes: int64(j.MaxResultBytes), MaxRows: j.MaxRows, SafeCells: a.cfg.Results.SafeCells, ResultTTL: a.cfg.Results.TTL, Grace: a.cfg.Server.ShutdownGrace,
		Logger: a.log, Meter: a.tel.Meter("jobs"), Tracer: a.tel.TracerProvider(),
	}
}
