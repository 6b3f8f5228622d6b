package handlers_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fetcherhq/fetcher/handlers"
)

// TestMetrics checks that labels are routes, never what a caller made up.
func TestMetrics(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	s := newService(t, func(o *handlers.Options) { o.Meter = provider.Meter("handlers") })
	s.expect(t, 404, "", http.MethodGet, "/v1/fetcher/"+uuid.NewString(), s.token("acme"), "")
	s.expect(t, 404, "", http.MethodGet, "/v1/fetcher/"+uuid.NewString(), s.token("acme"), "")
	s.expect(t, 404, "", http.MethodGet, "/made/up", "", "")
	s.expect(t, 405, "", "FROB", connectionsPath, s.token("acme"), "")
	var all metricdata.ResourceMetrics
	must(t, reader.Collect(context.Background(), &all))
	counts := map[string]uint64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					counts[labels(point.Attributes)] += point.Count
				}
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					if m.Name == "http.server.active_requests" && point.Value != 0 {
						t.Errorf("%d requests in flight at %s", point.Value, labels(point.Attributes))
					}
				}
			}
		}
	}
	want := map[string]uint64{"GET /v1/fetcher/:id 404": 2, "GET unknown 404": 1, "_OTHER unknown 405": 1}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("%s, of %v", diff, slices.Sorted(maps.Keys(counts)))
	}
}

func labels(set attribute.Set) string {
	value := func(key attribute.Key) string {
		v, _ := set.Value(key)
		return v.String()
	}
	return value("http.request.method") + " " + value("http.route") + " " + value("http.response.status_code")
}
