package config_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
)

func TestOpenTelemetryVariables(t *testing.T) {
	t.Parallel()
	const (
		start = "the configuration is not valid:\n  "
		count = "must be a whole number, 1 or more"
		limit = "must be a whole number; below 0: no limit"
	)
	for set, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=" + canary + ", x=1":     "<nil>",
		"OTEL_EXPORTER_OTLP_HEADERS=api key=" + canary:               start + "OTEL_EXPORTER_OTLP_HEADERS: must be of the form k=v,k=v, each k the name of a header",
		"OTEL_EXPORTER_OTLP_HEADERS=k=" + canary + "%zz":             start + "OTEL_EXPORTER_OTLP_HEADERS: must be of the form k=v,k=v, each k the name of a header",
		"OTEL_EXPORTER_OTLP_INSECURE=TRUE":                           "<nil>",
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip":                        "<nil>",
		"OTEL_BSP_EXPORT_TIMEOUT=0":                                  "<nil>",
		"OTEL_BSP_MAX_QUEUE_SIZE=0":                                  start + "OTEL_BSP_MAX_QUEUE_SIZE: " + count,
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-1":                          start + "OTEL_BSP_MAX_EXPORT_BATCH_SIZE: " + count,
		"OTEL_SPAN_EVENT_COUNT_LIMIT=-1":                             "<nil>",
		"OTEL_SPAN_EVENT_COUNT_LIMIT=many":                           start + "OTEL_SPAN_EVENT_COUNT_LIMIT: " + limit,
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=1k":                       start + "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: " + limit,
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=/no/such/" + canary:   start + "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: must be a file with certificates in PEM",
		"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=/no/such/" + canary:    start + "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: comes with OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
		"OTEL_TRACES_SAMPLER_ARG=not used without a ratio's sampler": "<nil>",
	} {
		_, err := config.Load(sound("ENABLE_TELEMETRY=true", set), every)
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s: %s", set, diff)
		}
		if _, err := config.Load(sound(set), every); err != nil {
			t.Errorf("%s while nothing is exported: %v", set, err)
		}
	}
}
