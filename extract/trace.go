package extract

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// startSpan begins a span in the caller's trace, if it has one.
func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/fetcherhq/fetcher/extract").Start(ctx, name) //nolint:spancheck // the caller ends it
}

// endSpan ends it with the code of the failure; words of a database stay out.
func endSpan(span trace.Span, err error) {
	if err != nil {
		code := ""
		if failure, ok := errors.AsType[*Failure](err); ok {
			code = string(failure.Code)
		}
		span.SetStatus(codes.Error, code)
	}
	span.End()
}
