package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Gate decides who a caller is and what it may do: an auth.Authenticator, or auth.Disabled.
type Gate interface {
	Authenticate(ctx context.Context, authorization []string) (*auth.Principal, error)
	Authorize(ctx context.Context, p *auth.Principal, resource, action string) error
	Verify(ctx context.Context, token string) (*auth.Principal, error)
	AuthorizeFor(ctx context.Context, p *auth.Principal, ask auth.Permission) error
}

// Tenants hands out leases of tenant databases and reports on them.
type Tenants interface {
	Acquire(ctx context.Context, tenantID string) (*tenant.Lease, error)
	Readiness(ctx context.Context, tenantID string) (tenant.Readiness, error)
	Info(ctx context.Context, tenantID string) (tenant.Info, error)
}

// Connections is what can be done with a tenant's connections and the internal datasources it may read.
type Connections interface {
	Internal(tenantID string) []store.Connection
	Get(ctx context.Context, db store.Connections, tenantID string, id uuid.UUID) (*store.Connection, error)
	Create(ctx context.Context, db store.Connections, tenantID, product string, in connections.Input) (*store.Connection, error)
	Update(ctx context.Context, db store.Connections, tenantID string, id uuid.UUID, match connections.Condition, p connections.Patch) (*store.Connection, error)
	Delete(ctx context.Context, db store.Connections, id uuid.UUID, match connections.Condition) error
	TakeTest(ctx context.Context, db store.Connections, id uuid.UUID) error
	Test(ctx context.Context, tenantID string, c *store.Connection) (time.Duration, error)
	Schema(ctx context.Context, tenantID string, c *store.Connection) (*source.Catalog, error)
}

// Jobs takes in extraction jobs, stops them, and compares what one would ask for with the databases.
type Jobs interface {
	Submit(ctx context.Context, lease *tenant.Lease, req jobs.Request) (job *store.Job, duplicate bool, err error)
	Cancel(ctx context.Context, lease *tenant.Lease, id uuid.UUID) (*store.Job, error)
	ValidateSchema(ctx context.Context, lease *tenant.Lease, req jobs.SchemaRequest) error
	Filters(tenantID string, job *store.Job) ([]byte, error)
}

// Idempotency gives requests with a key their effect once.
type Idempotency interface {
	Begin(ctx context.Context, rows store.Idempotency, r idempotency.Request) (*idempotency.Claim, *store.Answer, error)
}

// Results opens stored results. The readers verify as they are read, the one of parts only what it reads; their errors
// are errors.Is one of package results'.
type Results interface {
	OpenReader(ctx context.Context, tenantID string, facts results.Facts) (*results.Reader, error)
	OpenReaderAt(ctx context.Context, tenantID string, facts results.Facts) (*results.ReaderAt, error)
}

// Options configure New. Auth, Tenants, Connections, Jobs, Results, Idempotency and Health are required; every other zero value is
// the default of the published configuration.
type Options struct {
	Auth        Gate
	Tenants     Tenants
	Connections Connections
	Jobs        Jobs
	Results     Results
	Idempotency Idempotency
	Documents   Documents // nil: no operations on web documents
	Health      *Health
	Metrics     http.Handler // nil: no /metrics

	Build          Build
	MaxBodyBytes   int64 // 0: 1 MiB
	StrictJSON     bool  // unknown members of a body are FET-0400
	MaxPageLimit   int   // 0: 100
	MaxMonths      int   // widest creation-date window of a list; 0: 1
	JobLimits      jobs.Limits
	ProblemBaseURI string // empty: /problems
	EventsSource   string // the source attribute of events; empty: /fetcher
	Swagger        bool   // serve the documentation, open to anybody
	TrustedProxies []string
	CORSOrigins    []string // whose pages may call the API from a browser; empty: none
	SessionCookie  string   // that holds the token of browsers, for operations on web documents; empty: __Host-session
	AllowedOrigins []string // whose pages may send mutations with it; empty: none
	TenantRate     float64  // requests per second of a tenant whose registry row has no limit; 0: no limit

	Logger       *slog.Logger
	Meter        metric.Meter
	Tracer       trace.TracerProvider
	Untraced     bool                          // nobody sees the spans: they only give requests ids, and need nothing else
	Propagator   propagation.TextMapPropagator // nil: W3C trace context
	Clock        func() time.Time
	NewRequestID func() string // nil: UUIDv7
}

// complete checks what is required and fills in the rest.
func (o *Options) complete() error {
	if o.Auth == nil || o.Tenants == nil || o.Connections == nil || o.Jobs == nil || o.Results == nil ||
		o.Idempotency == nil || o.Health == nil {
		return errors.New("auth, tenants, connections, jobs, results, idempotency and health are required")
	}
	o.fill()
	return nil
}

func (o *Options) fill() {
	setDefault(&o.Build.Version, "dev")
	setDefault(&o.MaxBodyBytes, 1<<20)
	setDefault(&o.MaxPageLimit, 100)
	setDefault(&o.MaxMonths, 1)
	setDefault(&o.ProblemBaseURI, "/problems")
	setDefault(&o.EventsSource, "/fetcher")
	setDefault(&o.SessionCookie, "__Host-session")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = metricnoop.Meter{}
	}
	if o.Tracer == nil {
		o.Tracer, o.Untraced = tracenoop.NewTracerProvider(), true
	}
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.NewRequestID == nil {
		o.NewRequestID = func() string { return uuid.Must(uuid.NewV7()).String() }
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
