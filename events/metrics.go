package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fetcherhq/fetcher/store/control"
)

type metrics struct{ deliveries metric.Int64Counter }

func newMetrics(meter metric.Meter) (*metrics, error) {
	deliveries, err := meter.Int64Counter("fetcher.events.deliveries",
		metric.WithDescription("Attempts to deliver events, by transport and outcome: delivered, failed, parked, or unrouted beside delivered."))
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	m := &metrics{deliveries}
	// So that the first one is an increase, for the alert.
	m.deliveries.Add(context.Background(), 0, metric.WithAttributes(attribute.String("transport", schemeRabbit), attribute.String("outcome", "unrouted")))
	return m, nil
}

func (m *metrics) count(ctx context.Context, transport, outcome string, n int64) {
	if n > 0 {
		m.deliveries.Add(ctx, n, metric.WithAttributes(attribute.String("transport", transport), attribute.String("outcome", outcome)))
	}
}

func (m *metrics) delivered(ctx context.Context, transport string, n int) {
	m.count(ctx, transport, "delivered", int64(n))
}

func (m *metrics) failed(ctx context.Context, transport string, parked bool) {
	m.count(ctx, transport, "failed", 1)
	if parked {
		m.count(ctx, transport, "parked", 1)
	}
}

func (m *metrics) parkedMore(ctx context.Context, transport string, n int64) {
	m.count(ctx, transport, "parked", n)
}

func (m *metrics) unrouted(ctx context.Context) { m.count(ctx, schemeRabbit, "unrouted", 1) }

// Backlogs tells how much all outboxes hold: a control.DB.
type Backlogs interface {
	EventBacklog(ctx context.Context) (control.Backlog, error)
}

// observeTimeout bounds what a scrape of the backlog may take.
const observeTimeout = 2 * time.Second

// Observe makes the age of the oldest event that waits, and the numbers of those that wait and are parked, observable.
// stop ends that.
func Observe(m metric.Meter, db Backlogs) (stop func() error, err error) {
	lag, err1 := m.Float64ObservableGauge("fetcher.outbox.lag", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest event that a transport has not taken yet."))
	pending, err2 := m.Int64ObservableGauge("fetcher.outbox.pending", metric.WithDescription("Events that a transport has not taken yet."))
	parked, err3 := m.Int64ObservableGauge("fetcher.outbox.parked", metric.WithDescription("Events that were given up and wait to be replayed."))
	if err = errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	registration, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		all, unknown := db.EventBacklog(ctx)
		if unknown != nil {
			return nil // the scrape goes on without; readiness tells of the database
		}
		o.ObserveFloat64(lag, all.Oldest.Seconds())
		o.ObserveInt64(pending, all.Pending)
		o.ObserveInt64(parked, all.Parked)
		return nil
	}, lag, pending, parked)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return registration.Unregister, nil
}
