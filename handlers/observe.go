package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
)

const (
	serviceName = "fetcher"

	// routeUnknown stands for every path that is no route: paths come from outside and would be labels without bound.
	routeUnknown = "unknown"
)

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
	ctx := c.Request.Context()
	at := e.metrics.at(method, route)
	at.inFlight.Add(1)
	cut := true // a panic that passes here cuts the connection
	defer func() {
		took := time.Since(start)
		at.inFlight.Add(-1)
		e.metrics.duration.Record(ctx, took.Seconds(), at.ended(c.Writer.Status())...)
		e.logRequest(ctx, c, route, took, cut)
	}()
	c.Next()
	cut = false
}

func (e *edge) logRequest(ctx context.Context, c *gin.Context, route string, took time.Duration, cut bool) {
	ex := exchangeOf(ctx)
	var room [8]slog.Attr
	attrs := append(room[:0],
		slog.String("method", methodLabel(c.Request.Method)),
		slog.String("route", route),
		slog.Int("status", c.Writer.Status()),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int("bytes", max(c.Writer.Size(), 0)),
	)
	if p := ex.principal; p != nil {
		attrs = append(attrs, slog.String("tenant", p.TenantID), slog.String("subject", p.Subject))
	}
	if cut {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	h := e.log.Handler() // not by the logger, which would look for the line of code
	if !h.Enabled(ctx, slog.LevelInfo) {
		return
	}
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0)
	line.AddAttrs(attrs...)
	_ = h.Handle(ctx, line)
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
