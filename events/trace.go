package events

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// publishing begins the span of one delivery, in the trace of what wrote the event.
func (d *Dispatcher) publishing(ctx context.Context, transport string, m *Message) (context.Context, trace.Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{headerTrace: m.Trace})
	return d.tracer.Start(ctx, "publish event", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("messaging.system", transport), attribute.String("fetcher.tenant", m.TenantID), attribute.String("fetcher.event.type", m.Type)))
}
