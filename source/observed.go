package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Outcomes of an operation on an external database, besides the categories of its failures.
const (
	outcomeOK      = "ok"
	outcomeStopped = "stopped" // by us: the caller left, the process stops, or the rows did not fit
)

// Observed returns the drivers with a duration by kind, operation and outcome for everything they do, and a span where
// the caller is traced. Neither has names, statements or values of the database.
func Observed(drivers Drivers, meter metric.Meter) (Drivers, error) {
	duration, err := meter.Float64Histogram("fetcher.source.duration", metric.WithUnit("s"),
		metric.WithDescription("Operations on external databases: how long they took, by kind, operation, and outcome: ok, stopped, or why they failed."))
	if err != nil {
		return nil, fmt.Errorf("make the instrument of external databases: %w", err)
	}
	out := make(Drivers, len(drivers))
	for kind, driver := range drivers {
		out[kind] = observedDriver{driver, observer{kind, duration}}
	}
	return out, nil
}

// observer measures what is done to one kind of database.
type observer struct {
	kind     Kind
	duration metric.Float64Histogram
}

// begin begins an operation. The returned function ends it with its error.
func (o observer) begin(ctx context.Context, operation string) (context.Context, func(error)) {
	start := time.Now()
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/fetcherhq/fetcher/source")
	ctx, span := tracer.Start(ctx, "source "+operation, trace.WithSpanKind(trace.SpanKindClient), //nolint:spancheck // the caller ends it
		trace.WithAttributes(attribute.String("db.system.name", strings.ToLower(string(o.kind)))))
	return ctx, func(err error) { //nolint:spancheck // the caller ends it
		outcome := outcomeOf(ctx, err)
		if err != nil {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
		o.duration.Record(context.WithoutCancel(ctx), time.Since(start).Seconds(), metric.WithAttributes(
			attribute.String("kind", string(o.kind)), attribute.String("operation", operation), attribute.String("outcome", outcome)))
	}
}

func outcomeOf(ctx context.Context, err error) string {
	if err == nil {
		return outcomeOK
	}
	if failure, ok := errors.AsType[*Error](err); ok && ctx.Err() == nil {
		return string(failure.Category)
	}
	return outcomeStopped
}

type observedDriver struct {
	Driver

	observer observer
}

func (d observedDriver) Open(ctx context.Context, p Params, dialer Dialer) (Session, error) {
	opening, end := d.observer.begin(ctx, "open")
	session, err := d.Driver.Open(opening, p, dialer)
	end(err)
	if err != nil {
		return nil, err
	}
	return observedSession{session, d.observer}, nil
}

type observedSession struct {
	Session

	observer observer
}

func (s observedSession) Ping(ctx context.Context) error {
	ctx, end := s.observer.begin(ctx, "ping")
	err := s.Session.Ping(ctx)
	end(err)
	return err
}

func (s observedSession) Catalog(ctx context.Context, scope Scope) (*Catalog, error) {
	ctx, end := s.observer.begin(ctx, "catalog")
	catalog, err := s.Session.Catalog(ctx, scope)
	end(err)
	return catalog, err
}

func (s observedSession) Begin(ctx context.Context, deadline time.Time) (string, error) {
	ctx, end := s.observer.begin(ctx, "begin")
	consistency, err := s.Session.Begin(ctx, deadline)
	end(err)
	return consistency, err
}

func (s observedSession) Stream(ctx context.Context, q Query, visit func(Row) error) error {
	ctx, end := s.observer.begin(ctx, "stream")
	err := s.Session.Stream(ctx, q, visit)
	end(err)
	return err
}
