package handlers

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// httpMetrics are the instruments of the API, by method, route and status. What a request adds to them is looked up, not
// made: sets of labels are as many as there are methods, routes and statuses.
type httpMetrics struct {
	duration metric.Float64Histogram
	fetches  metric.Int64Counter

	kinds sync.Map // of requestKind to *kindMetrics
}

// requestKind is what a request is for.
type requestKind struct{ method, route string }

func (p requestKind) labels(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(more,
		attribute.String("http.request.method", p.method), attribute.String("http.route", p.route))...))
}

// kindMetrics are the requests of one kind.
type kindMetrics struct {
	kind     requestKind
	inFlight atomic.Int64
	labels   metric.MeasurementOption

	statuses sync.Map // of int to []metric.RecordOption
}

func newHTTPMetrics(meter metric.Meter) (*httpMetrics, error) {
	m := &httpMetrics{}
	var err error
	m.duration, err = meter.Float64Histogram("http.server.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP requests by route and status."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30))
	if err != nil {
		return nil, err
	}
	_, err = meter.Int64ObservableUpDownCounter("http.server.active_requests",
		metric.WithDescription("HTTP requests being served, by route."), metric.WithInt64Callback(m.observeInFlight))
	if err != nil {
		return nil, err
	}
	m.fetches, err = meter.Int64Counter("fetcher.document.fetches",
		metric.WithDescription("Requests to fetch a web document, by the code they ended with, ok if they held."))
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *httpMetrics) observeInFlight(_ context.Context, o metric.Int64Observer) error {
	m.kinds.Range(func(_, value any) bool {
		if at, ok := value.(*kindMetrics); ok {
			o.Observe(at.inFlight.Load(), at.labels)
		}
		return true
	})
	return nil
}

// at returns the metrics of a kind. method and route come from bounded sets.
func (m *httpMetrics) at(method, route string) *kindMetrics {
	key := requestKind{method, route}
	known, ok := m.kinds.Load(key)
	if !ok {
		known, _ = m.kinds.LoadOrStore(key, &kindMetrics{kind: key, labels: key.labels()})
	}
	at, _ := known.(*kindMetrics)
	return at
}

// ended returns the labels of a request that ended with the status.
func (p *kindMetrics) ended(status int) []metric.RecordOption {
	known, ok := p.statuses.Load(status)
	if !ok {
		labels := p.kind.labels(attribute.Int("http.response.status_code", status))
		known, _ = p.statuses.LoadOrStore(status, []metric.RecordOption{labels})
	}
	labels, _ := known.([]metric.RecordOption)
	return labels
}

// outcomeOK is the code of requests that held.
const outcomeOK = "ok"

// fetched counts a request to fetch a web document.
func (m *httpMetrics) fetched(ctx context.Context, code string) {
	m.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("code", code)))
}
