package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// Mode says who decides what a token may do.
type Mode string

// The modes.
const (
	ModeService Mode = "service" // the identity service, by POST /v1/authorize
	ModeClaims  Mode = "claims"  // the token's own permissions and scope
)

const (
	defaultApplication = "fetcher"
	defaultRefresh     = 5 * time.Minute
	defaultTimeout     = 3 * time.Second
	authorizePath      = "/v1/authorize"
)

// Options describe the identity service. Only Address is required.
type Options struct {
	Address     string // base URL of the identity service
	JWKSURL     string // where its keys are, if not where discovery says
	Issuer      string // the iss tokens must have, if not the one of discovery
	Audience    string // the aud tokens must have; empty: any
	TenantClaim string // the claim that names the tenant; empty: tenantId, or tenant_id where that is absent
	Mode        Mode   // empty: ModeService

	CacheTTL        time.Duration // how long a decision is kept; 0: not at all
	RefreshInterval time.Duration // how often keys are fetched anew; 0: 5 minutes
	Timeout         time.Duration // how long asking for a decision, or for all keys, may take; 0: 3 s
	Application     string        // in questions, answers and claims; empty: fetcher

	HTTP   *http.Client     // nil: one of our own; its redirect policy is replaced in a copy
	Clock  func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: silent
	Meter  metric.Meter     // nil: not measured
}

// Gate is what stands before every authenticated operation: an Authenticator, or Disabled.
type Gate interface {
	// Authenticate turns the lines of the Authorization header into a principal.
	Authenticate(ctx context.Context, authorization []string) (*Principal, error)
	// Verify turns a bare token, such as a session cookie holds, into a principal.
	Verify(ctx context.Context, token string) (*Principal, error)
	// Authorize returns nil if the principal may do the action to the resource of the gate's own application.
	Authorize(ctx context.Context, p *Principal, resource, action string) error
	// AuthorizeFor returns nil if the principal has the permission.
	AuthorizeFor(ctx context.Context, p *Principal, ask Permission) error
	// Status reports the identity service's health.
	Status(ctx context.Context) Status
}

var (
	_ Gate = (*Authenticator)(nil)
	_ Gate = Disabled{}
)

// Authenticator verifies tokens and has operations authorised. It is safe for concurrent use; Close ends it.
type Authenticator struct {
	application  string
	tenantClaim  string
	byClaims     bool
	decisionLife time.Duration
	timeout      time.Duration
	authorizeURL string

	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	life    *lifetime
	client  *client

	keys      *keyStore
	keyfunc   keyfunc.Keyfunc
	parser    *jwt.Parser
	tokens    *cache[digest, verified]
	decisions *cache[decisionKey, outcome]
	calls     singleflight.Group
}

// New returns an authenticator that is ready at once: keys are fetched in the background from now on until Close, and
// tokens that come before them wait for them. The identity service may be down. The end of ctx does not matter later.
// Errors are mistakes in the options.
func New(ctx context.Context, o Options) (*Authenticator, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	a := &Authenticator{
		application: o.Application, tenantClaim: o.TenantClaim, byClaims: o.Mode == ModeClaims,
		decisionLife: o.CacheTTL, timeout: o.Timeout, authorizeURL: o.Address + authorizePath,
		now: o.Clock, log: o.Logger, metrics: m, life: newLifetime(ctx), client: newClient(o.HTTP),
	}
	a.parser = a.newParser(o.Audience)
	if err = a.makeStores(o); err != nil {
		a.Close()
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	// Begun here, so that the first token already finds the fetch under way.
	first := a.keys.refreshNow()
	a.life.run(func(ctx context.Context) { a.keys.run(ctx, first) })
	return a, nil
}

func (a *Authenticator) makeStores(o Options) (err error) {
	a.keys = &keyStore{
		Storage: jwkset.NewMemoryStorage(),
		source:  &source{client: a.client, address: o.Address, jwksURL: o.JWKSURL, want: o.Issuer},
		limit:   rate.NewLimiter(rate.Every(unknownKeyInterval), 1), interval: o.RefreshInterval, timeout: o.Timeout,
		now: a.now, life: a.life, log: a.log, metrics: a.metrics,
	}
	if a.keyfunc, err = keyfunc.New(keyfunc.Options{Ctx: a.life.ctx, Storage: a.keys}); err != nil {
		return err
	}
	if a.tokens, err = newCache[digest, verified](maxTokens); err != nil {
		return err
	}
	a.decisions, err = newCache[decisionKey, outcome](maxDecisions)
	return err
}

// complete fills in defaults and finds mistakes.
func (o *Options) complete() error {
	o.Address = strings.TrimRight(o.Address, "/")
	if !absolute(o.Address) {
		return errors.New("the identity service's address is not an absolute http or https URL")
	}
	if o.JWKSURL != "" && !absolute(o.JWKSURL) {
		return errors.New("the key set's address is not an absolute http or https URL")
	}
	if o.Mode == "" {
		o.Mode = ModeService
	}
	if o.Mode != ModeService && o.Mode != ModeClaims {
		return errors.New("the mode of authorisation is neither service nor claims")
	}
	if o.CacheTTL < 0 || o.RefreshInterval < 0 || o.Timeout < 0 {
		return errors.New("a duration is negative")
	}
	if o.RefreshInterval == 0 {
		o.RefreshInterval = defaultRefresh
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Application == "" {
		o.Application = defaultApplication
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func absolute(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && (u.Scheme == schemePlain || u.Scheme == schemeTLS)
}

// Authenticate is ParseBearer and Verify in one.
func (a *Authenticator) Authenticate(ctx context.Context, authorization []string) (*Principal, error) {
	token, err := ParseBearer(authorization)
	if err != nil {
		return nil, err
	}
	return a.Verify(ctx, token)
}

// Close cancels what is under way, waits for it and releases connections. Calls after it may still be answered from the
// caches, else they are problem.Unavailable.
func (a *Authenticator) Close() {
	a.life.close()
	a.metrics.close()
	a.client.close()
}
