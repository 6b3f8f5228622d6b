package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the package's instruments. Gauges are read when they are collected.
type metrics struct {
	opens     metric.Int64Counter
	openTime  metric.Float64Histogram
	closes    metric.Int64Counter
	observing metric.Registration
	labels    *labels

	mu      sync.Mutex
	retired map[label]sum // what pools that are closed had counted
	shown   map[label]sum // at the last collection: a pool that drains is in neither, and counters don't go back
}

func newMetrics(meter metric.Meter, limit int, r *Router) (*metrics, error) {
	m := &metrics{labels: newLabels(limit), retired: map[label]sum{}, shown: map[label]sum{}}
	var errs [8]error
	m.opens, errs[0] = meter.Int64Counter("fetcher.tenant.pool.opens",
		metric.WithDescription("Tenant pools opened, by outcome."))
	m.openTime, errs[1] = meter.Float64Histogram("fetcher.tenant.pool.open.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to open a tenant pool, with its first connection and the look at its schema."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5))
	m.closes, errs[2] = meter.Int64Counter("fetcher.tenant.pool.unlinked",
		metric.WithDescription("Tenant pools closed, by reason."))
	pools, err := meter.Int64ObservableGauge("fetcher.tenant.pools",
		metric.WithDescription("Tenant pools: idle, leased, or draining their last leases."))
	errs[3] = err
	conns, err := meter.Int64ObservableGauge("fetcher.tenant.connections",
		metric.WithDescription("Connections to tenant databases, by state."))
	errs[4] = err
	waits, err := meter.Int64ObservableCounter("fetcher.tenant.pool.waits",
		metric.WithDescription("Acquisitions that waited for a connection."))
	errs[5] = err
	waited, err := meter.Float64ObservableCounter("fetcher.tenant.pool.wait.time", metric.WithUnit("s"),
		metric.WithDescription("Time spent waiting for a connection."))
	errs[6] = err
	m.observing, errs[7] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		linked, leased, draining := r.pools.counts()
		o.ObserveInt64(pools, int64(linked-leased), state("idle"))
		o.ObserveInt64(pools, int64(leased), state("leased"))
		o.ObserveInt64(pools, int64(draining), state("draining"))
		for label, s := range m.sums(r) {
			at := label.attributes()
			o.ObserveInt64(conns, s.idle, metric.WithAttributes(append(at, attribute.String("state", "idle"))...))
			o.ObserveInt64(conns, s.used, metric.WithAttributes(append(at, attribute.String("state", "in_use"))...))
			o.ObserveInt64(waits, s.waits, metric.WithAttributes(at...))
			o.ObserveFloat64(waited, s.waited.Seconds(), metric.WithAttributes(at...))
		}
		return nil
	}, pools, conns, waits, waited)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("tenant metrics: %w", err)
	}
	for _, why := range []reason{evicted, idle, replaced, shutdown} { // so that the first one is an increase
		m.closes.Add(context.Background(), 0, metric.WithAttributes(attribute.String("reason", string(why))))
	}
	return m, nil
}

func state(s string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("state", s))
}

type sum struct {
	idle, used, waits int64
	waited            time.Duration
}

// sums adds the pools up by label.
func (m *metrics) sums(r *Router) map[label]sum {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.retired)
	for _, e := range r.pools.entries() {
		l, st := m.labels.of(e.id), e.pool.pgx.Stat()
		s := all[l]
		s.idle += int64(st.IdleConns())
		s.used += int64(st.AcquiredConns())
		s.waits += st.EmptyAcquireCount()
		s.waited += st.EmptyAcquireWaitTime()
		all[l] = s
	}
	for l, s := range m.shown {
		now := all[l]
		now.waits, now.waited = max(now.waits, s.waits), max(now.waited, s.waited)
		all[l] = now
	}
	m.shown = maps.Clone(all)
	return all
}

func (m *metrics) poolOpened(took time.Duration, err error) {
	outcome := "ok"
	switch {
	case errors.Is(err, errMoved):
		outcome = "moved"
	case err != nil:
		outcome = "failed"
	}
	at := metric.WithAttributes(attribute.String("outcome", outcome))
	m.opens.Add(context.Background(), 1, at)
	m.openTime.Record(context.Background(), took.Seconds(), at)
}

func (m *metrics) poolClosed(e *entry) {
	m.closes.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", string(e.unlinked))))
	m.mu.Lock()
	defer m.mu.Unlock()
	l, st := m.labels.of(e.id), e.pool.pgx.Stat()
	s := m.retired[l]
	s.waits += st.EmptyAcquireCount()
	s.waited += st.EmptyAcquireWaitTime()
	m.retired[l] = s
}

func (m *metrics) close() error { return m.observing.Unregister() }

// label is a tenant's name in metrics; the zero label is none.
type label string

func (l label) attributes() []attribute.KeyValue {
	if l == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("tenant", string(l))}
}

const other label = "other"

// labels gives the first tenants a label of their own and all others one together, so that metrics stay bounded.
type labels struct {
	limit int
	mu    sync.Mutex
	given map[string]bool
}

func newLabels(limit int) *labels { return &labels{limit: limit, given: map[string]bool{}} }

func (l *labels) of(id string) label {
	if l.limit <= 0 {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.given[id] {
		if len(l.given) >= l.limit {
			return other
		}
		l.given[id] = true
	}
	return label(id)
}
