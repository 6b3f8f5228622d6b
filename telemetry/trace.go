package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newTracers returns the source of tracers. Traces have ids even while none is exported: logs name them, and they are
// handed on to other processes. What is sampled is the parent's decision, else OTEL_TRACES_SAMPLER's, else everything.
func newTracers(ctx context.Context, res *resource.Resource, export bool) (*sdktrace.TracerProvider, error) {
	if !export {
		return sdktrace.NewTracerProvider(
			sdktrace.WithResource(res),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())),
		), nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make trace exporter: %w", safeError(err))
	}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter)), nil
}
