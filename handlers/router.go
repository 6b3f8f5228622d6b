package handlers

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
)

const securityScheme = "bearer"

// The groups of operations in the document.
const (
	tagConnections = "connections"
	tagJobs        = "jobs"
)

// edge is what the parts of this package share.
type edge struct {
	opts    Options
	log     *slog.Logger
	metrics *httpMetrics
	pages   pageRules
	rates   *tenantLimiter
	api     huma.API

	untraced *untraced // nil while spans are seen

	bodyTimeout time.Duration
}

// New returns the handler of the whole API with its health endpoints.
func New(opts Options) (http.Handler, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("set up handlers: %w", err)
	}
	metrics, err := newHTTPMetrics(opts.Meter)
	if err != nil {
		return nil, fmt.Errorf("set up handlers: %w", err)
	}
	e := &edge{
		opts: opts, log: opts.Logger, metrics: metrics, bodyTimeout: bodyTimeout,
		pages: pageRules{maxLimit: opts.MaxPageLimit, months: opts.MaxMonths, now: opts.Clock},
	}
	if e.rates, err = newTenantLimiter(opts.Tenants, opts.TenantRate, opts.Clock); err != nil {
		return nil, fmt.Errorf("set up handlers: %w", err)
	}
	engine, err := e.newEngine()
	if err != nil {
		return nil, fmt.Errorf("set up handlers: %w", err)
	}
	e.api = humagin.NewWithGroup(engine, engine.Group(""), e.newConfig())
	e.mountConnections()
	e.mountConnectionChanges()
	e.mountAssignment()
	e.mountConnectionProbes()
	e.mountSchemaValidation()
	e.mountJobs()
	e.mountJobList()
	e.mountJobCancel()
	e.mountResults()
	e.mountEvents()
	if opts.Documents != nil {
		e.mountKatara()
	}
	opts.Health.mount(engine, opts.Metrics)
	if err := e.mountTenantReadiness(engine); err != nil {
		return nil, fmt.Errorf("set up handlers: %w", err)
	}
	if opts.Swagger {
		if err := e.mountDocs(engine); err != nil {
			return nil, fmt.Errorf("set up handlers: %w", err)
		}
	}
	return engine, nil
}

// NewHealthHandler returns the handler of a process that serves no API: /health, /readyz, /version and /metrics.
func NewHealthHandler(health *Health, metrics http.Handler) (http.Handler, error) {
	m, err := newHTTPMetrics(health.opts.Meter)
	if err != nil {
		return nil, fmt.Errorf("set up health: %w", err)
	}
	opts := Options{Health: health, Logger: health.opts.Logger}
	opts.fill()
	e := &edge{opts: opts, log: opts.Logger, metrics: m, bodyTimeout: bodyTimeout}
	engine, err := e.newEngine()
	if err != nil {
		return nil, fmt.Errorf("set up health: %w", err)
	}
	health.mount(engine, metrics)
	return engine, nil
}

// newEngine returns a router with the stages that every request goes through, unknown routes included.
func (e *edge) newEngine() (*gin.Engine, error) {
	processSetUp()
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.HandleMethodNotAllowed = true
	if err := engine.SetTrustedProxies(e.opts.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	// Recovery is the innermost, so that spans, metrics and the log see the status it answers with.
	if e.opts.Untraced {
		e.untraced = newUntraced(e.opts)
		engine.Use(e.begin, e.observe, secure())
	} else {
		engine.Use(e.begin, e.trace(), e.observe, secure())
	}
	if len(e.opts.CORSOrigins) > 0 {
		engine.Use(newCORS(e.opts.CORSOrigins).handle)
	}
	engine.Use(e.recover)
	engine.NoRoute(e.noRoute)
	engine.NoMethod(e.noMethod)
	return engine, nil
}

// processSetUp sets what the libraries keep in variables of their own, once per process.
var processSetUp = sync.OnceFunc(func() {
	gin.SetMode(gin.ReleaseMode)
	huma.DefaultArrayNullable = false
	useOurErrors()
})

func (e *edge) newConfig() huma.Config {
	format := jsonFormat()
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Fetcher",
				Version:     e.opts.Build.Version,
				Description: "Connects to the databases of many tenants and delivers extracts of them.",
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Tags: []*huma.Tag{
				{Name: tagConnections, Description: "The external databases a tenant has registered."},
				{Name: tagJobs, Description: "Extractions: asked for, followed, downloaded."},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					securityScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
				},
			},
		},
		Formats:       map[string]huma.Format{mediaJSON: format, "json": format},
		DefaultFormat: mediaJSON,
		CreateHooks:   nil, // the usual one adds $schema to answers
	}
	config.AllowAdditionalPropertiesByDefault = !e.opts.StrictJSON
	return config
}
