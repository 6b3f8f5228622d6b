package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxDecisions bounds the decisions that are kept.
const maxDecisions = 32768

// outcome is what an authorisation came to.
type outcome int

const (
	outcomeUnavailable outcome = iota // not decided; the zero value, so that nothing is allowed by omission
	outcomeAllow
	outcomeDeny
	outcomeRefuse // the identity service does not accept the token
)

// outcomeNames names the outcomes in metrics.
func outcomeNames() map[outcome]string {
	return map[outcome]string{
		outcomeUnavailable: "unavailable", outcomeAllow: "allow", outcomeDeny: "deny", outcomeRefuse: "refuse",
	}
}

// err returns what the caller of an operation gets to see; cause is that of an unavailable one.
func (o outcome) err(cause error) error {
	switch o {
	case outcomeAllow:
		return nil
	case outcomeDeny:
		return forbidden()
	case outcomeRefuse:
		return invalid(errByService)
	default:
		return unavailable(cause)
	}
}

// decisionKey is what a decision belongs to.
type decisionKey struct {
	permission

	token digest
}

func (k decisionKey) shard() int { return k.token.shard() }

// String is unique for each key: NUL is in no name of an application, resource or action.
func (k decisionKey) String() string {
	return strings.Join([]string{string(k.token[:]), k.application, k.resource, k.action}, "\x00")
}

// Authorize returns nil if the principal may do the action (a lower-case HTTP method) to the resource.
//
// Errors are problem.Forbidden, problem.Unauthenticated (the token ended meanwhile, the identity service does not accept
// it, or the principal is anonymous), or problem.Unavailable with RetryAfter when nobody can decide. An answer of the
// identity service holds for the configured time at most, and never past the token's exp. Concurrent calls for the same
// question share one, which no caller's leaving ends.
func (a *Authenticator) Authorize(ctx context.Context, p *Principal, resource, action string) error {
	return a.authorize(ctx, p, permission{application: a.application, resource: resource, action: action}, Place{})
}

// AuthorizeFor is Authorize for a permission of any application. The identity service is not told the place: only grants
// in the token itself can be limited to one.
func (a *Authenticator) AuthorizeFor(ctx context.Context, p *Principal, ask Permission) error {
	return a.authorize(ctx, p, permission{application: ask.Application, resource: ask.Resource, action: ask.Action}, ask.Place)
}

func (a *Authenticator) authorize(ctx context.Context, p *Principal, ask permission, at Place) error {
	now := a.now()
	switch {
	case p == nil, p.Kind == KindAnon, p.Token == "":
		return missing()
	case !now.Before(p.ExpiresAt.Add(leeway)):
		return invalid(errExpired)
	case a.byClaims:
		return a.fromClaims(p, ask, at)
	}
	key := decisionKey{token: digestFor(p), permission: ask}
	if o, ok := a.decisions.get(key, now); ok {
		a.metrics.decided(fromCache, o)
		return o.err(nil)
	}
	o, err := a.share(ctx, p, key)
	a.metrics.decided(fromService, o)
	return o.err(err)
}

// share asks the identity service, together with everybody else who asks the same at this moment.
func (a *Authenticator) share(ctx context.Context, p *Principal, key decisionKey) (outcome, error) {
	answer := a.calls.DoChan(key.String(), func() (any, error) { return a.decide(ctx, p, key) })
	select {
	case r := <-answer:
		o, _ := r.Val.(outcome)
		return o, r.Err
	case <-ctx.Done():
		return outcomeUnavailable, ctx.Err()
	}
}

// decide makes the call and keeps a clear answer. It runs detached from the caller that came first.
func (a *Authenticator) decide(ctx context.Context, p *Principal, key decisionKey) (outcome, error) {
	asked := a.now()
	// A call that ended between the caller's look and now has already answered.
	if o, ok := a.decisions.get(key, asked); ok {
		return o, nil
	}
	if !a.life.begin() {
		return outcomeUnavailable, ErrClosed
	}
	defer a.life.work.Done()
	ctx, cancel := a.life.detach(ctx, a.timeout)
	defer cancel()
	o, err := a.ask(ctx, p, key.permission)
	if err != nil {
		return outcomeUnavailable, err
	}
	if until := earlier(asked.Add(a.decisionLife), p.ExpiresAt); until.After(asked) {
		a.decisions.put(key, o, until)
	}
	return o, nil
}

// ask makes the call, measured and traced. The span belongs to the trace of the caller that came first, if it has one.
func (a *Authenticator) ask(ctx context.Context, p *Principal, perm permission) (outcome, error) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/fetcherhq/fetcher/auth")
	ctx, span := tracer.Start(ctx, "authorize", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("auth.resource", perm.resource), attribute.String("auth.action", perm.action)))
	defer span.End()
	started := time.Now()
	o, err := a.client.ask(ctx, a.authorizeURL, p.Token, questionFor(p, perm))
	a.metrics.asked(ctx, time.Since(started), o)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return o, err
}

// questionFor tells the identity service who asks: people by their account, machines by the role that all of them have.
func questionFor(p *Principal, ask permission) question {
	q := question{Sub: p.Account, Resource: ask.resource, Action: ask.action, Product: ask.application}
	if p.Kind != KindUser {
		q.Sub, q.Product = "admin/"+ask.application+"-editor-role", ""
	}
	return q
}

// fromClaims decides by what the token itself grants.
func (a *Authenticator) fromClaims(p *Principal, ask permission, at Place) error {
	o := outcomeDeny
	if slices.ContainsFunc(p.Permissions, func(granted string) bool { return ask.granted(granted, at) }) {
		o = outcomeAllow
	}
	a.metrics.decided(fromToken, o)
	return o.err(nil)
}
