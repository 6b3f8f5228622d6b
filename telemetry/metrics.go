package telemetry

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

const (
	// Scrapes are cheap but not free: more than these at once are turned away.
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
)

// secondsBuckets are the bounds of every histogram in seconds: from a cached answer to the longest job. The defaults of
// OpenTelemetry are meant for milliseconds.
func secondsBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
}

// newMeters returns the source of meters with the registry that shows them, which also has the Go runtime's and the
// process's own figures.
func newMeters(res *resource.Resource) (*prometheus.Registry, *sdkmetric.MeterProvider, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("make metrics exporter: %w", err)
	}
	seconds := sdkmetric.NewView(
		sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: secondsBuckets()}},
	)
	meters := sdkmetric.NewMeterProvider(
		sdkmetric.WithResource(res), sdkmetric.WithReader(exporter), sdkmetric.WithView(seconds))
	return registry, meters, nil
}

func metricsHandler(registry *prometheus.Registry, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            scrapeLog{log},
		ErrorHandling:       promhttp.ContinueOnError, // one broken metric must not hide the others
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

// scrapeLog hands the complaints of the metrics handler to the logger.
type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(v ...any) { l.log.Warn("metrics: " + fmt.Sprintln(v...)) }
