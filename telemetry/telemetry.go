// Package telemetry owns how the process is seen from outside: its logger, its traces and its metrics.
//
// It touches the writer it is given, the trace collector when traces are enabled, and, only when asked to, the global
// hooks of OpenTelemetry. It promises that what it writes has no value of an attribute that looks secret, no
// credentials in URLs, no tokens and no private keys, and that neither a slow collector nor a broken one holds up
// requests. Which labels a metric has, and that there are few, is for those who record it.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout bounds Shutdown, so that a collector that hangs does not hold up the end of the process.
const flushTimeout = 5 * time.Second

// Options describe the process and where its telemetry goes. The zero value logs JSON at info to standard error, keeps
// metrics and exports no traces.
type Options struct {
	Service   string    // name of the process; empty: fetcher. OTEL_SERVICE_NAME overrides
	Version   string    // of the build
	Enabled   bool      // export traces by OTLP over HTTP; the standard OTEL_* variables say where to
	LogLevel  string    // debug, info, warn or error; empty: info
	LogFormat string    // json or text; empty: json
	Writer    io.Writer // where logs go; nil: standard error
	Global    bool      // also set OpenTelemetry's global providers, propagator and error handler
}

// Telemetry is what a process is seen by. It is safe for concurrent use; Shutdown ends it.
type Telemetry struct {
	logger   *slog.Logger
	tracers  *sdktrace.TracerProvider
	meters   *sdkmetric.MeterProvider
	registry *prometheus.Registry

	once sync.Once
	err  error
}

// Setup makes the logger and the providers. Nothing is dialled: a collector that is down delays nothing.
func Setup(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Service == "" {
		o.Service = "fetcher"
	}
	if o.Writer == nil {
		o.Writer = os.Stderr
	}
	logger, err := NewLogger(o.Writer, o.LogLevel, o.LogFormat)
	if err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)),
		resource.WithFromEnv(), // last, so that the operator decides
	)
	if err != nil {
		return nil, fmt.Errorf("set up telemetry: describe process: %w", err)
	}
	registry, meters, err := newMeters(res)
	if err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}
	tracers, err := newTracers(ctx, res, o.Enabled)
	if err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}
	t := &Telemetry{logger: logger, tracers: tracers, meters: meters, registry: registry}
	if o.Global {
		otel.SetErrorHandler(&errorLog{log: logger, now: time.Now})
		otel.SetTracerProvider(tracers)
		otel.SetMeterProvider(meters)
		otel.SetTextMapPropagator(t.Propagator())
	}
	return t, nil
}

// Logger returns the process's logger.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// TracerProvider returns the source of tracers.
func (t *Telemetry) TracerProvider() trace.TracerProvider { return t.tracers }

// MeterProvider returns the source of meters.
func (t *Telemetry) MeterProvider() metric.MeterProvider { return t.meters }

// Meter returns a meter for a package's instruments.
func (t *Telemetry) Meter(name string) metric.Meter { return t.meters.Meter(name) }

// Propagator carries traces and baggage between processes in the W3C formats.
func (t *Telemetry) Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// Handler serves the metrics to Prometheus.
func (t *Telemetry) Handler() http.Handler { return metricsHandler(t.registry, t.logger) }

// Shutdown exports what is still held back and ends the exporters, within ctx and within five seconds. Metrics can
// still be read after it, but record nothing more. Calling it again returns the same error.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	t.once.Do(func() {
		bounded, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := errors.Join(t.tracers.Shutdown(bounded), t.meters.Shutdown(bounded)); err != nil {
			t.err = fmt.Errorf("flush telemetry: %w", safeError(err))
		}
	})
	return t.err
}
