package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
)

// Build says what is running.
type Build struct {
	Version string
	Commit  string
}

// HealthOptions configure NewHealth. The zero value is usable.
type HealthOptions struct {
	Build          Build
	DeploymentMode string
	Checks         []Check
	Logger         *slog.Logger
	Meter          metric.Meter
}

// Health answers for the process: whether it lives, what it is, and whether it is ready for work. It is safe for
// concurrent use; manager and worker of one process may share it.
type Health struct {
	opts     HealthOptions
	draining atomic.Bool
	checks   *checkRunner
}

// NewHealth returns the health of a process whose dependencies are the given checks.
func NewHealth(opts HealthOptions) (*Health, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Meter == nil {
		opts.Meter = metricnoop.Meter{}
	}
	h := &Health{opts: opts, checks: newCheckRunner(opts.Checks, opts.Logger)}
	gauge, err := opts.Meter.Int64ObservableGauge("fetcher.readyz.check",
		metric.WithDescription("Last outcome of a readiness check: 0 when down, else 1."))
	if err != nil {
		return nil, err
	}
	_, err = opts.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, result := range h.checks.last() {
			var up int64
			if result.Status != StatusDown {
				up = 1
			}
			o.ObserveInt64(gauge, up, metric.WithAttributes(attribute.String("check", name)))
		}
		return nil
	}, gauge)
	return h, err
}

// Drain makes readiness answer 503 from now on. It can't be undone.
func (h *Health) Drain() { h.draining.Store(true) }

// Draining reports whether Drain was called.
func (h *Health) Draining() bool { return h.draining.Load() }

// Readiness is the body of the readiness answers.
type Readiness struct {
	Status         string         `json:"status"` // healthy or unhealthy
	TenantID       string         `json:"tenant_id,omitempty"`
	Checks         map[string]any `json:"checks"` // CheckResults
	Version        string         `json:"version"`
	DeploymentMode string         `json:"deployment_mode"`
}

// Ready runs the checks, or takes their outcome of less than a second ago, and reports whether the process is ready.
func (h *Health) Ready(ctx context.Context) (Readiness, bool) {
	results, ok := h.checks.results(ctx)
	checks := make(map[string]any, len(results)+1)
	for name, result := range results {
		checks[name] = result
	}
	if h.Draining() {
		checks["draining"] = CheckResult{Status: StatusDown, Reason: "the process is stopping"}
		ok = false
	}
	return h.readiness(checks, ok), ok
}

func (h *Health) readiness(checks map[string]any, ok bool) Readiness {
	status := "healthy"
	if !ok {
		status = "unhealthy"
	}
	return Readiness{Status: status, Checks: checks, Version: h.opts.Build.Version, DeploymentMode: h.opts.DeploymentMode}
}

// version is the body of /version.
type version struct {
	Version     string    `json:"version"`
	Commit      string    `json:"commit"`
	GoVersion   string    `json:"goVersion"`
	RequestDate time.Time `json:"requestDate"`
}

// mount adds the open endpoints. HEAD works where GET does, for load balancers that ask so.
func (h *Health) mount(router gin.IRoutes, metrics http.Handler) {
	both := []string{http.MethodGet, http.MethodHead}
	router.Match(both, "/health", func(c *gin.Context) {
		respond(c, http.StatusOK, map[string]string{"status": "healthy"})
	})
	router.Match(both, "/readyz", func(c *gin.Context) {
		body, ok := h.Ready(c.Request.Context())
		respond(c, readyStatus(ok), body)
	})
	router.Match(both, "/version", func(c *gin.Context) {
		respond(c, http.StatusOK, version{
			Version: h.opts.Build.Version, Commit: h.opts.Build.Commit,
			GoVersion: runtime.Version(), RequestDate: time.Now().UTC(),
		})
	})
	if metrics != nil {
		router.Match(both, "/metrics", gin.WrapH(metrics))
	}
}

func readyStatus(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// respond writes a JSON answer of an endpoint that is no operation.
func respond(c *gin.Context, status int, body any) {
	c.Header(headerType, mediaJSON)
	c.Status(status)
	if err := writeJSON(c.Writer, body); err != nil {
		panic(err)
	}
}
