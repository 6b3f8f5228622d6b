package main

import (
	"context"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/handlers"
)

// health is the readiness of this process. Only one that serves the API has a gate.
func (a *app) health(role config.Role) (*handlers.Health, error) {
	checks := []handlers.Check{
		handlers.PingCheck("control_database", true, a.log, a.pool.Ping),
		handlers.PingCheck("queue", true, a.log, func(ctx context.Context) error {
			_, err := a.control.QueueDepth(ctx)
			return err
		}),
		handlers.PingCheck("results_storage", true, a.log, a.objects.Ping),
		a.eventsCheck(role),
	}
	if a.gate != nil {
		checks = append(checks, handlers.Check{Name: "identity_service", Required: true, Run: a.checkIdentity})
	}
	return handlers.NewHealth(handlers.HealthOptions{
		Build: build(), DeploymentMode: string(a.cfg.Server.DeploymentMode), Checks: checks,
		Logger: a.log, Meter: a.tel.Meter("health"),
	})
}

func (a *app) checkIdentity(ctx context.Context) handlers.CheckResult {
	status := a.gate.Status(ctx)
	result := handlers.CheckResult{Status: handlers.CheckStatus(status.State), Reason: status.Reason}
	if status.State != auth.StateNone {
		result.TLS = &status.TLS
	}
	return result
}

func build() handlers.Build { return handlers.Build{Version: version, Commit: commit} }
