package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
)

const (
	serviceName = "fetcher"

	// routeUnknown stands for every path that is no route: paths come from outside and would be labels without bound.
	routeUnknown = "unknown"
)

// httpMetrics are the instruments of the API, by method, route and status.
type httpMetrics struct {
	duration metric.Float64Histogram
	inFlight metric.Int64UpDownCounter
	fetches  metric.Int64Counter
}

func newHTTPMetrics(meter metric.Meter) (*httpMetrics, error) {
	duration, err := meter.Float64Histogram("http.server.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP requests by route and status."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30))
	if err != nil {
		return nil, err
	}
	inFlight, err := meter.Int64UpDownCounter("http.server.active_requests",
		metric.WithDescription("HTTP requests being served, by route."))
	if err != nil {
		return nil, err
	}
	fetches, err := meter.Int64Counter("fetcher.document.fetches",
		metric.WithDescription("Requests to fetch a web document, by the code they ended with, ok if they held."))
	if err != nil {
		return nil, err
	}
	return &httpMetrics{duration: duration, inFlight: inFlight, fetches: fetches}, nil
}

// outcomeOK is the code of requests that held.
const outcomeOK = "ok"

// fetched counts a request to fetch a web document.
func (m *httpMetrics) fetched(ctx context.Context, code string) {
	m.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("code", code)))
}

// trace opens the request's span, a child of the caller's traceparent. The library's own metrics are off: they label
// by parts of the Host header, which a caller chooses.
func (e *edge) trace() gin.HandlerFunc {
	return otelgin.Middleware(serviceName,
		otelgin.WithTracerProvider(e.opts.Tracer),
		otelgin.WithPropagators(e.opts.Propagator),
		otelgin.WithMeterProvider(metricnoop.NewMeterProvider()))
}

// observe counts the request and writes its line in the log, whatever becomes of it.
func (e *edge) observe(c *gin.Context) {
	start := time.Now()
	route := routeOf(c)
	method := methodLabel(c.Request.Method)
	active := metric.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route))
	ctx := c.Request.Context()
	e.metrics.inFlight.Add(ctx, 1, active)
	cut := true // a panic that passes here cuts the connection
	defer func() {
		took := time.Since(start)
		e.metrics.inFlight.Add(ctx, -1, active)
		e.metrics.duration.Record(ctx, took.Seconds(), metric.WithAttributes(
			attribute.String("http.request.method", method), attribute.String("http.route", route),
			attribute.Int("http.response.status_code", c.Writer.Status())))
		e.logRequest(ctx, c, route, took, cut)
	}()
	c.Next()
	cut = false
}

func (e *edge) logRequest(ctx context.Context, c *gin.Context, route string, took time.Duration, cut bool) {
	ex := exchangeOf(ctx)
	attrs := []slog.Attr{
		slog.String("method", methodLabel(c.Request.Method)),
		slog.String("route", route),
		slog.Int("status", c.Writer.Status()),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int("bytes", max(c.Writer.Size(), 0)),
	}
	if p := ex.principal; p != nil {
		attrs = append(attrs, slog.String("tenant", p.TenantID), slog.String("subject", p.Subject))
	}
	if cut {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	e.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

func routeOf(c *gin.Context) string {
	if route := c.FullPath(); route != "" {
		return route
	}
	return routeUnknown
}

// methodLabel keeps methods that callers invent out of labels and logs.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return method
	default:
		return "_OTHER"
	}
}
