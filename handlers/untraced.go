package handlers

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// untraced opens spans for their ids alone, which the log names and other processes are told. What describes a span would
// cost more than most of what is done for a request here.
type untraced struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	headers    []string // by which a caller names its trace, in canonical form
}

func newUntraced(o Options) *untraced {
	u := &untraced{tracer: o.Tracer.Tracer(serviceName), propagator: o.Propagator}
	for _, name := range o.Propagator.Fields() {
		u.headers = append(u.headers, http.CanonicalHeaderKey(name))
	}
	return u
}

// context returns ctx in a span of the caller's trace, or of a new one.
func (u *untraced) context(ctx context.Context, header http.Header) context.Context {
	if slices.ContainsFunc(u.headers, func(name string) bool { return len(header[name]) > 0 }) {
		ctx = u.propagator.Extract(ctx, propagation.HeaderCarrier(header))
	}
	ctx, span := u.tracer.Start(ctx, serviceName)
	span.End() // nobody asks how long it was
	return ctx
}
