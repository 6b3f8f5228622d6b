package handlers

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	// recency is how long ago a sign-in may be where it must be recent, and clockSkew how far in the future.
	recency   = 15 * time.Minute
	clockSkew = 30 * time.Second

	// maxKataraBody is the largest body of the operations on web documents, in bytes.
	maxKataraBody = 16 << 10
)

// The names of path parameters.
const (
	paramOrg         = "org_id"
	paramEnvironment = "environment_id"
	paramID          = "id"
	paramFetch       = "fetch_id"
	paramVersion     = "version"
)

// kataraCall is what the stages of an operation on web documents found out.
type kataraCall struct {
	session bool                 // the caller came with a cookie
	ids     map[string]uuid.UUID // of the path, by parameter
	version int64                // of the path
}

// kataraStages are what every operation on web documents goes through, in this order.
func (e *edge) kataraStages(op kataraOperation) huma.Middlewares {
	checks := []func(context.Context, kataraOperation) error{e.kataraIdentify}
	if mutates(op.method) {
		checks = append(checks, e.checkForgery, checkAccount)
	}
	checks = append(checks, parsePath, e.checkOrg)
	stages := huma.Middlewares{e.kataraChecks(checks)}
	if op.tenantless {
		return append(stages, e.kataraChecks([]func(context.Context, kataraOperation) error{e.checkTenant}))
	}
	return append(stages, e.lease, e.kataraChecks([]func(context.Context, kataraOperation) error{
		e.kataraAuthorize, e.kataraRate, e.checkFeature,
	}), e.kataraBody)
}

// kataraChecks is a stage of several checks, each of which may end the request.
func (e *edge) kataraChecks(checks []func(context.Context, kataraOperation) error) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		op := kataraOperationOf(ctx)
		for _, check := range checks {
			if err := check(ctx.Context(), op); err != nil {
				e.refuse(humagin.Unwrap(ctx), err)
				return
			}
		}
		next(huma.WithContext(ctx, auth.NewContext(ctx.Context(), exchangeOf(ctx.Context()).principal)))
	}
}

// parsePath reads the ids of the path.
func parsePath(ctx context.Context, op kataraOperation) error {
	ex := exchangeOf(ctx)
	ex.katara.ids = map[string]uuid.UUID{}
	for _, name := range namesIn(op.path) {
		text := ex.params.ByName(name)
		if name == paramVersion {
			version, err := strconv.ParseInt(text, 10, 64)
			if err != nil || version < 1 || strconv.FormatInt(version, 10) != text {
				return documents.Invalid(name, "The version in the path is not a positive integer.")
			}
			ex.katara.version = version
			continue
		}
		id, ok := parseUUID(text)
		if !ok {
			return documents.Invalid(name, "An id in the path is not a UUID.")
		}
		ex.katara.ids[name] = id
	}
	return nil
}

// checkOrg knows no organisation but the caller's own: others may exist or not.
func (e *edge) checkOrg(ctx context.Context, _ kataraOperation) error {
	ex := exchangeOf(ctx)
	if org, named := ex.katara.ids[paramOrg]; named && org != tenant.OrgID(ex.principal.TenantID) {
		return documents.Fault(documents.NotFound)
	}
	return nil
}

// checkTenant stands in for a lease where there is nothing to be done in a database.
func (e *edge) checkTenant(ctx context.Context, _ kataraOperation) error {
	info, err := e.opts.Tenants.Info(ctx, exchangeOf(ctx).principal.TenantID)
	if err != nil {
		return err
	}
	if info.Suspended {
		return problem.New(problem.TenantSuspended, "")
	}
	return e.kataraRate(ctx, kataraOperation{})
}

// kataraAuthorize asks whether the caller may do what the operation's table row says. Whether it is a person comes
// first, since no permission would help a machine; how fresh its sign-in is comes last, since no sign-in would help a
// person who lacks a permission.
func (e *edge) kataraAuthorize(ctx context.Context, op kataraOperation) error {
	ex := exchangeOf(ctx)
	p := ex.principal
	if op.human && p.Kind == auth.KindMachine {
		return documents.Fault(documents.HumanSessionRequired)
	}
	place := auth.Place{}
	if id, ok := ex.katara.ids[paramEnvironment]; ok {
		place.Environment = id.String()
	}
	if id, ok := ex.katara.ids[paramID]; ok && strings.Contains(op.path, "/sources/{id}") {
		place.Source = id.String()
	}
	for _, g := range op.permissions {
		if err := e.opts.Auth.AuthorizeFor(ctx, p, g.permission(place)); err != nil {
			return err
		}
	}
	if op.recent && p.Kind == auth.KindUser && !recent(e.opts.Clock(), p.AuthenticatedAt) {
		return documents.Fault(documents.ReauthenticationRequired)
	}
	return nil
}

// recent reports whether somebody who signed in at the given time has done so recently. A time in the future is no
// sign-in that has happened.
func recent(now, at time.Time) bool {
	age := now.Sub(at)
	return age <= recency && age >= -clockSkew
}

func (e *edge) kataraRate(ctx context.Context, _ kataraOperation) error {
	return e.rates.spend(ctx, exchangeOf(ctx).principal.TenantID)
}

// checkFeature finds out whether there is a content store, for operations that need it.
func (e *edge) checkFeature(_ context.Context, op kataraOperation) error {
	if op.content {
		return e.opts.Documents.Ready()
	}
	return nil
}

// kataraBody takes in the whole body before anything else looks at it. Operations that take none have theirs read and
// dropped, so that the connection can serve on.
func (e *edge) kataraBody(ctx huma.Context, next func(huma.Context)) {
	c := humagin.Unwrap(ctx)
	takesBody := kataraOperationOf(ctx).body != nil
	if takesBody && !isJSON(c.Request.Header) {
		fault := documents.Invalid(headerType, "The content type must be application/json.")
		fault.Status = http.StatusUnsupportedMediaType
		e.refuse(c, fault)
		return
	}
	body, err := slurp(c, maxKataraBody)
	if err != nil {
		fault := &documents.Error{Code: documents.InvalidRequest, Param: atBody, Message: "The body ended early or took too long.", Err: err}
		if problem.CodeOf(err) == problem.BodyTooLarge {
			fault.Message, fault.Status = "The body is larger than 16384 bytes.", http.StatusRequestEntityTooLarge
		}
		e.refuse(c, fault)
		return
	}
	if takesBody {
		exchangeOf(ctx.Context()).body = body
	}
	next(ctx)
}
