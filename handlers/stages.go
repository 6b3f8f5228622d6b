package handlers

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenant"
)

// stages are what every operation goes through, in this order. Each either hands the request on or answers it.
func (e *edge) stages(op operation) huma.Middlewares {
	stages := huma.Middlewares{e.authenticate, e.readBody, e.authorize, e.limitRate, e.lease}
	if op.onceFor != nil {
		stages = append(stages, e.once)
	}
	return stages
}

// authenticate verifies the token and that it names a tenant.
func (e *edge) authenticate(ctx huma.Context, next func(huma.Context)) {
	c := humagin.Unwrap(ctx)
	if err := e.identify(ctx.Context(), c.Request.Header); err != nil {
		e.refuse(c, err)
		return
	}
	next(ctx)
}

// identify finds out who the caller is, whose tenant must be well-formed, and notes it in the exchange.
func (e *edge) identify(ctx context.Context, header http.Header) error {
	principal, err := e.opts.Auth.Authenticate(ctx, header.Values("Authorization"))
	if err != nil {
		return err
	}
	exchangeOf(ctx).principal = principal
	if principal.TenantID == "" {
		return problem.New(problem.TenantMissing, "the token names no valid tenant")
	}
	return nil
}

// authorize asks whether the caller may do what the operation's table row says.
func (e *edge) authorize(ctx huma.Context, next func(huma.Context)) {
	op := operationOf(ctx)
	err := e.opts.Auth.Authorize(ctx.Context(), exchangeOf(ctx.Context()).principal, op.resource, op.action)
	if err != nil {
		e.refuse(humagin.Unwrap(ctx), err)
		return
	}
	next(ctx)
}

// limitRate spends one request of the caller's tenant.
func (e *edge) limitRate(ctx huma.Context, next func(huma.Context)) {
	if err := e.rates.spend(ctx.Context(), exchangeOf(ctx.Context()).principal.TenantID); err != nil {
		e.refuse(humagin.Unwrap(ctx), err)
		return
	}
	next(ctx)
}

// lease takes a lease of the caller's tenant and returns it when the operation is over, streams included. The operation gets
// both by its context.
func (e *edge) lease(ctx huma.Context, next func(huma.Context)) {
	principal := exchangeOf(ctx.Context()).principal
	lease, err := e.opts.Tenants.Acquire(ctx.Context(), principal.TenantID)
	if err != nil {
		e.refuse(humagin.Unwrap(ctx), err)
		return
	}
	defer lease.Release()
	next(huma.WithContext(ctx, tenant.NewContext(auth.NewContext(ctx.Context(), principal), lease)))
}

// noRoute answers paths that are no route, without asking for a token.
func (e *edge) noRoute(c *gin.Context) {
	e.refuse(c, routeFault(c.Request.URL.Path, problem.NotFound, "there is no such route"))
}

// noMethod answers methods that a route does not have; on the routes of the API only to authenticated callers.
// The router has set Allow.
func (e *edge) noMethod(c *gin.Context) {
	if strings.HasPrefix(c.Request.URL.Path, apiPrefix) {
		if err := e.identify(c.Request.Context(), c.Request.Header); err != nil {
			c.Writer.Header().Del("Allow")
			e.refuse(c, err)
			return
		}
	}
	if allow := strings.Split(c.Writer.Header().Get("Allow"), ", "); len(allow) > 1 {
		slices.Sort(allow)
		c.Header("Allow", strings.Join(allow, ", "))
	}
	e.refuse(c, routeFault(c.Request.URL.Path, problem.MethodNotAllowed, "the route does not support this method"))
}
