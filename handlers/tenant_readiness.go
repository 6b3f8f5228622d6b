package handlers

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenant"
)

// poolCheck is the state of this process's pool for a tenant.
type poolCheck struct {
	CheckResult

	Open  int   `json:"open"`
	InUse int   `json:"in_use"`
	Idle  int   `json:"idle"`
	Waits int64 `json:"waits"`
}

// mountTenantReadiness adds the readiness of one tenant, open to anybody and limited per client address, so that
// asking for many is slow. The router shares one look at a tenant among everybody for a second.
func (e *edge) mountTenantReadiness(router gin.IRoutes) error {
	limiter, err := newClientLimiter()
	if err != nil {
		return err
	}
	router.Match([]string{http.MethodGet, http.MethodHead}, "/readyz/tenant/:id", func(c *gin.Context) {
		if !limiter.allow(c.ClientIP()) {
			e.refuse(c, problem.New(problem.RateLimited, "too many readiness requests from this address"))
			return
		}
		state, err := e.opts.Tenants.Readiness(c.Request.Context(), c.Param("id"))
		if err != nil {
			e.refuse(c, err)
			return
		}
		body := e.opts.Health.readiness(tenantChecks(state), state.Ready())
		body.TenantID = state.TenantID
		respond(c, readyStatus(state.Ready()), body)
	})
	return nil
}

// tenantChecks says of a tenant what its router found. What could not be looked at is skipped.
func tenantChecks(s tenant.Readiness) map[string]any {
	skipped := CheckResult{Status: StatusSkipped}
	checks := map[string]any{"tenant_database": skipped, "migrations": skipped, "pool": skipped}
	if s.Suspended {
		checks["tenant_database"] = CheckResult{Status: StatusDown, Reason: "suspended"}
		return checks
	}
	database := CheckResult{Status: StatusUp, BreakerState: s.Breaker}
	if s.Err != nil {
		database.Status, database.Error = StatusDown, unreadyReason(s.Err)
	} else {
		took := s.Latency.Milliseconds()
		database.LatencyMS = &took
		migrations := CheckResult{Status: StatusUp, Reason: fmt.Sprintf("version %d of %d", s.Current, s.Latest)}
		if s.Current < s.Latest {
			migrations.Status = StatusDown
		}
		checks["migrations"] = migrations
	}
	checks["tenant_database"] = database
	if s.PoolOpen {
		checks["pool"] = poolCheck{
			CheckResult: CheckResult{Status: StatusUp}, Open: s.Open, InUse: s.InUse, Idle: s.Idle, Waits: s.Waits,
		}
	} else {
		checks["pool"] = poolCheck{CheckResult: CheckResult{Status: StatusNA, Reason: "not open in this process"}}
	}
	return checks
}

// unreadyReason is the safe part of an error: its code's meaning.
func unreadyReason(err error) string {
	if fault, ok := errors.AsType[*problem.Error](err); ok {
		return fault.Code.Info().Meaning
	}
	return "unavailable"
}
