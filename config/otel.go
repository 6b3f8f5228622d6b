package config

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The standard variables of OpenTelemetry that decide where traces go and which. The SDK falls back to its default
// where one can't be read, and says so once in a log; here they are refused like any other.
const (
	otelEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelHeaders        = "OTEL_EXPORTER_OTLP_HEADERS"
	otelTracesHeaders  = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	otelProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	otelTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	otelTimeout        = "OTEL_EXPORTER_OTLP_TIMEOUT"
	otelTracesTimeout  = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"
	otelResource       = "OTEL_RESOURCE_ATTRIBUTES"
	otelSampler        = "OTEL_TRACES_SAMPLER"
	otelSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// checkOpenTelemetry judges them in the order of their names, when traces are exported at all.
func checkOpenTelemetry(vars map[string]string) Problems {
	const pairs = "must be of the form k=v,k=v"
	ratioed := strings.HasSuffix(vars[otelSampler], "traceidratio")
	rules := []struct {
		variable, message string
		holds             func(string) bool
	}{
		{otelEndpoint, "must be an http:// or https:// URL", isEndpoint},
		{otelHeaders, pairs, isPairs},
		{otelProtocol, "must be http/protobuf, the one protocol there is", isProtocol},
		{otelTimeout, "must be a whole number of milliseconds", isMilliseconds},
		{otelTracesEndpoint, "must be an http:// or https:// URL", isEndpoint},
		{otelTracesHeaders, pairs, isPairs},
		{otelTracesProtocol, "must be http/protobuf, the one protocol there is", isProtocol},
		{otelTracesTimeout, "must be a whole number of milliseconds", isMilliseconds},
		{otelResource, pairs, isPairs},
		{otelSampler, "must be always_on, always_off, traceidratio, or one of them behind parentbased_", isSampler},
		{otelSamplerArg, "must be a number from 0 to 1", func(s string) bool { return !ratioed || isRatio(s) }},
	}
	var problems Problems
	for _, r := range rules {
		if value := vars[r.variable]; value != "" && !r.holds(value) {
			problems = append(problems, Problem{r.variable, r.message})
		}
	}
	return problems
}

func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == schemeHTTP || u.Scheme == schemeHTTPS) && u.Host != ""
}

func isPairs(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !ok || err != nil || strings.TrimSpace(name) == "" {
			return false
		}
	}
	return true
}

func isProtocol(text string) bool { return text == "http/protobuf" }

func isMilliseconds(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}

func isSampler(text string) bool {
	return slices.Contains([]string{"always_on", "always_off", "traceidratio"}, strings.TrimPrefix(text, "parentbased_"))
}

func isRatio(text string) bool {
	ratio, err := strconv.ParseFloat(text, 64)
	return err == nil && ratio >= 0 && ratio <= 1
}
