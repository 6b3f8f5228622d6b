package config

import (
	"crypto/tls"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// otelRule is what one of OpenTelemetry's standard variables must be.
type otelRule struct {
	variable, message string
	holds             func(string) bool
}

// otelRules are those of the variables that the SDK and the exporter read, in order. Where one can't be read they fall back
// to a default and say so once in a log, which for headers would quote them; here it is refused like any other.
func otelRules(vars map[string]string) []otelRule {
	const exporter = "OTEL_EXPORTER_OTLP_"
	var rules []otelRule
	for _, prefix := range []string{exporter, exporter + "TRACES_"} {
		certificate, key := prefix+"CLIENT_CERTIFICATE", prefix+"CLIENT_KEY"
		rules = append(rules,
			otelRule{prefix + "ENDPOINT", "must be an http:// or https:// URL", isEndpoint},
			otelRule{prefix + "HEADERS", "must be of the form k=v,k=v, each k the name of a header", isHeaders},
			otelRule{prefix + "PROTOCOL", "must be http/protobuf, the one protocol there is", oneOf("http/protobuf")},
			otelRule{prefix + "TIMEOUT", "must be a whole number of milliseconds", isMilliseconds},
			otelRule{prefix + "COMPRESSION", "must be gzip or none", oneOf("gzip", "none")},
			otelRule{prefix + "INSECURE", "must be true or false", func(s string) bool { return oneOf("true", "false")(strings.ToLower(s)) }},
			otelRule{prefix + "CERTIFICATE", "must be a file with certificates in PEM", isAuthorities},
			otelRule{certificate, "and " + key + " must be files with a certificate and its key in PEM", func(s string) bool { return isKeyPair(s, vars[key]) }},
			otelRule{key, "comes with " + certificate, func(string) bool { return vars[certificate] != "" }},
		)
	}
	ratioed := strings.HasSuffix(vars[otelSampler], "traceidratio")
	rules = append(rules,
		otelRule{"OTEL_RESOURCE_ATTRIBUTES", "must be of the form k=v,k=v", isPairs},
		otelRule{otelSampler, "must be always_on, always_off, traceidratio, or one of them behind parentbased_", isSampler},
		otelRule{otelSampler + "_ARG", "must be a number from 0 to 1", func(s string) bool { return !ratioed || isRatio(s) }},
	)
	rules = append(rules, otelRule{"OTEL_BSP_EXPORT_TIMEOUT", "must be a whole number of milliseconds", isMilliseconds})
	for _, name := range []string{"SCHEDULE_DELAY", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"} {
		rules = append(rules, otelRule{"OTEL_BSP_" + name, "must be a whole number, 1 or more", isCount})
	}
	for _, name := range []string{
		"ATTRIBUTE_VALUE_LENGTH", "ATTRIBUTE_COUNT", "SPAN_ATTRIBUTE_VALUE_LENGTH", "SPAN_ATTRIBUTE_COUNT", "SPAN_EVENT_COUNT",
		"EVENT_ATTRIBUTE_COUNT", "SPAN_LINK_COUNT", "LINK_ATTRIBUTE_COUNT",
	} {
		rules = append(rules, otelRule{"OTEL_" + name + "_LIMIT", "must be a whole number; below 0: no limit", isInteger})
	}
	return rules
}

const otelSampler = "OTEL_TRACES_SAMPLER"

// checkOpenTelemetry judges them, when traces are exported at all.
func checkOpenTelemetry(vars map[string]string) Problems {
	var problems Problems
	for _, r := range otelRules(vars) {
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

func isHeaders(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(pair, "=")
		if !isToken(strings.TrimSpace(name)) {
			return false
		}
	}
	return isPairs(text)
}

func oneOf(choices ...string) func(string) bool {
	return func(text string) bool { return slices.Contains(choices, text) }
}

func isKeyPair(certificate, key string) bool {
	_, err := tls.LoadX509KeyPair(certificate, key)
	return err == nil
}

func isCount(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && n >= 1
}

func isInteger(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

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
