package config_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
)

const (
	canary     = "canary-s3cret"
	hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

func key() string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)) }

// sound is the least that every role starts with; overrides come after it and win.
func sound(overrides ...string) []string {
	return append([]string{
		"DATABASE_URL=postgres://u:" + canary + "@db/fetcher", "APP_ENC_KEY=" + key(), "RESULTS_URL=file:///var/lib/fetcher/results",
	}, overrides...)
}

const every = config.RoleManager | config.RoleWorker | config.RoleAdmin

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(sound(), every)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		cfg.Server.Address, cfg.Server.HealthAddress, cfg.Server.DrainDelay.Duration(), cfg.Server.MaxBodyBytes,
		cfg.Tenants.MaxPools, cfg.Tenants.PoolHardCap, cfg.Tenants.MaxOpenConns, cfg.Tenants.MaxConnsPerHost, cfg.Tenants.AutoMigrate,
		cfg.Auth.CacheTTL, cfg.Jobs.Timeout, cfg.Jobs.MaxResultBytes, cfg.Results.TTL, cfg.Telemetry.LogLevel, string(cfg.Server.DeploymentMode),
	}
	want := []any{
		":4006", ":4007", 12 * time.Second, config.Size(1 << 20),
		100, 200, 10, 80, true,
		30 * time.Second, 30 * time.Minute, config.Size(10 << 30), 7 * 24 * time.Hour, "info", "local",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFaultNamesItsVariableAndNoValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ set, variable, message string }{
		{"DATABASE_URL=", "DATABASE_URL", "is required"},
		{"DATABASE_URL=mysql://" + canary, "DATABASE_URL", "must be a postgres:// URL"},
		{"TENANT_DATABASE_URL=" + canary, "TENANT_DATABASE_URL", "must be a postgres:// URL"},
		{"APP_ENC_KEY=", "APP_ENC_KEY", "is required; fetcher keys generate makes one"},
		{"APP_ENC_KEY=" + canary, "APP_ENC_KEY", "must be base64 of 32 bytes or more"},
		{"APP_ENC_KEY=c2hvcnQ=", "APP_ENC_KEY", "must be base64 of 32 bytes or more"},
		{"APP_ENC_KEY_VERSION=0", "APP_ENC_KEY_VERSION", "must be 1 or more"},
		{"APP_ENC_KEY_VERSION=" + canary, "APP_ENC_KEY_VERSION", "must be a whole number"},
		{"APP_ENC_KEYS_RETIRED=" + canary, "APP_ENC_KEYS_RETIRED", "must be version:base64, comma separated, each key of 32 bytes or more"},
		{"APP_ENC_KEYS_RETIRED=1:" + key(), "APP_ENC_KEYS_RETIRED", "names a version twice, or the current one"},
		{"RESULTS_URL=", "RESULTS_URL", "is required"},
		{"RESULTS_URL=ftp://" + canary, "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_URL=s3://?region=x", "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_URL=s3://key:" + canary + "@bucket", "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_URL=gs://", "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_URL=azblob://key:" + canary + "@c", "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_URL=s3://bucket?x=%zz", "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_URL=file://relative", "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"},
		{"RESULTS_KEY_PREFIX=../x", "RESULTS_KEY_PREFIX", "must be path segments without . or .., and not start with a slash"},
		{"SERVER_ADDRESS=foo", "SERVER_ADDRESS", "must be host:port or :port"},
		{"HEALTH_ADDRESS=:70000", "HEALTH_ADDRESS", "must be host:port or :port"},
		{"PROBLEM_BASE_URI=javascript:x", "PROBLEM_BASE_URI", "must be an http(s) URL or a path"},
		{"CSV_SAFE_CELLS=perhaps", "CSV_SAFE_CELLS", "must be true or false"},
		{"RESULT_TTL=0s", "RESULT_TTL", "must be positive"},
		{"RESULTS_KEY_PREFIX=/a", "RESULTS_KEY_PREFIX", "must be path segments without . or .., and not start with a slash"},
		{"MAX_BODY_BYTES=1MB", "MAX_BODY_BYTES", "must be a number of bytes, or a number with KiB, MiB, GiB or TiB"},
		{"MAX_BODY_BYTES=9999999999TiB", "MAX_BODY_BYTES", "must be a number of bytes, or a number with KiB, MiB, GiB or TiB"},
		{"MAX_BODY_BYTES=0", "MAX_BODY_BYTES", "must be 1 or more"},
		{"STRICT_JSON=maybe", "STRICT_JSON", "must be true or false"},
		{"MAX_PAGINATION_LIMIT=0", "MAX_PAGINATION_LIMIT", "must be 1 or more"},
		{"MAX_PAGINATION_MONTH_DATE_RANGE=0", "MAX_PAGINATION_MONTH_DATE_RANGE", "must be 1 or more"},
		{"READYZ_DRAIN_DELAY_SEC=12s", "READYZ_DRAIN_DELAY_SEC", "must be a whole number of seconds"},
		{"READYZ_DRAIN_DELAY_SEC=-1", "READYZ_DRAIN_DELAY_SEC", "must be a whole number of seconds"},
		{"SHUTDOWN_GRACE=30", "SHUTDOWN_GRACE", "must be a duration such as 30s or 5m"},
		{"SHUTDOWN_GRACE=-1s", "SHUTDOWN_GRACE", "must be positive"},
		{"SHUTDOWN_GRACE=0s", "SHUTDOWN_GRACE", "must be positive"},
		{"DEPLOYMENT_MODE=cloud", "DEPLOYMENT_MODE", "must be saas, byoc or local"},
		{"SERVER_TLS_CERT=/a.pem", "SERVER_TLS_CERT", "SERVER_TLS_CERT and SERVER_TLS_KEY come together"},
		{"TRUSTED_PROXIES=proxy", "TRUSTED_PROXIES", "must be addresses or CIDRs, comma separated"},
		{"MULTI_TENANT_ENABLED=true", "PLUGIN_AUTH_ENABLED", "must be true when MULTI_TENANT_ENABLED is: the tenant comes from the token"},
		{"PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS", "is required when PLUGIN_AUTH_ENABLED is true"},
		{"PLUGIN_AUTH_AUTHORIZATION=nobody", "PLUGIN_AUTH_AUTHORIZATION", "must be service or claims"},
		{"MULTI_TENANT_MAX_TENANT_POOLS=0", "MULTI_TENANT_MAX_TENANT_POOLS", "must be 1 or more"},
		{"MULTI_TENANT_POOL_HARD_CAP=99", "MULTI_TENANT_POOL_HARD_CAP", "must not be below MULTI_TENANT_MAX_TENANT_POOLS"},
		{"MULTI_TENANT_CACHE_TTL_SEC=0", "MULTI_TENANT_CACHE_TTL_SEC", "must be 1 or more"},
		{"METRICS_TENANT_LABEL_LIMIT=-1", "METRICS_TENANT_LABEL_LIMIT", "must not be negative"},
		{"MULTI_TENANT_IDLE_TIMEOUT_SEC=0", "MULTI_TENANT_IDLE_TIMEOUT_SEC", "must be 1 or more"},
		{"TENANT_MAX_OPEN_CONNS=0", "TENANT_MAX_OPEN_CONNS", "must be 1 or more"},
		{"MAX_DB_CONNS_PER_HOST=0", "MAX_DB_CONNS_PER_HOST", "must be 1 or more"},
		{"WORKER_CONCURRENCY=0", "WORKER_CONCURRENCY", "must be 1 or more"},
		{"JOB_TIMEOUT=0s", "JOB_TIMEOUT", "must be 1s or more"},
		{"JOB_MAX_ATTEMPTS=0", "JOB_MAX_ATTEMPTS", "must be 1 or more"},
		{"JOB_MAX_RESULT_BYTES=0", "JOB_MAX_RESULT_BYTES", "must be 1 or more"},
		{"JOB_MAX_ROWS=-1", "JOB_MAX_ROWS", "must not be negative"},
		{"JOB_MAX_FIELDS=0", "JOB_MAX_FIELDS", "must be 1 or more"},
		{"JOB_TTL=167h", "JOB_TTL", "must not be below RESULT_TTL"},
		{"TENANT_MAX_RUNNING_JOBS=-1", "TENANT_MAX_RUNNING_JOBS", "must not be negative"},
		{"EVENTS_URL=amqp://" + canary, "EVENTS_URL", "must be rabbit://exchange, nats://subject or kafka://topic"},
		{"EVENTS_URL=rabbit://u:" + canary + "@x", "EVENTS_URL", "must be rabbit://exchange, nats://subject or kafka://topic"},
		{"EVENTS_URL=rabbit://", "EVENTS_URL", "must be rabbit://exchange, nats://subject or kafka://topic"},
		{"EVENTS_URL=rabbit://x", "RABBIT_SERVER_URL", "is required when EVENTS_URL has rabbit://"},
		{"EVENTS_URL=nats://x", "NATS_SERVER_URL", "is required when EVENTS_URL has nats://"},
		{"EVENTS_URL=kafka://x", "KAFKA_BROKERS", "is required when EVENTS_URL has kafka://"},
		{"RABBIT_SERVER_URL=http://" + canary, "RABBIT_SERVER_URL", "must be an amqp:// or amqps:// URL"},
		{"NATS_SERVER_URL=nats://a,http://" + canary, "NATS_SERVER_URL", "must be nats:// or tls:// URLs, comma separated"},
		{"KAFKA_BROKERS=a:1,b", "KAFKA_BROKERS", "must be host:port, comma separated"},
		{"KAFKA_SASL_MECHANISM=oauth", "KAFKA_SASL_MECHANISM", "must be plain, scram-sha-256 or scram-sha-512"},
		{"EVENTS_WEBHOOK_SECRET=" + hookSecret, "EVENTS_WEBHOOK_URL", "must be an https:// URL without credentials and fragment"},
		{"EVENTS_WEBHOOK_URL=https://hooks.example.com/" + canary, "EVENTS_WEBHOOK_SECRET", "must be whsec_ and base64 of 24 to 64 bytes"},
		{"CONTENT_URL=ftp://" + canary, "CONTENT_URL", "must be file:///directory or s3://bucket?region=…"},
		{"FETCH_ALLOWED_PORTS=https", "FETCH_ALLOWED_PORTS", "must be ports from 1 to 65535, comma separated, each once"},
		{"FETCH_ALLOWED_PORTS=443,0", "FETCH_ALLOWED_PORTS", "must be ports from 1 to 65535, comma separated, each once"},
		{"FETCH_ALLOWED_PORTS=65536", "FETCH_ALLOWED_PORTS", "must be ports from 1 to 65535, comma separated, each once"},
		{"FETCH_ALLOWED_PORTS=443,443", "FETCH_ALLOWED_PORTS", "must be ports from 1 to 65535, comma separated, each once"},
		{"FETCH_ALLOWED_PORTS=0443", "FETCH_ALLOWED_PORTS", "must be ports from 1 to 65535, comma separated, each once"},
		{"FETCH_ALLOWED_PORTS=,", "FETCH_ALLOWED_PORTS", "must name a port"},
		{"FETCH_RATE_PER_MINUTE=-1", "FETCH_RATE_PER_MINUTE", "must not be negative"},
		{"FETCH_DEV_RESOLVER=127.0.0.1", "FETCH_DEV_RESOLVER", "must be host:port"},
		{"SESSION_COOKIE_NAME=a b", "SESSION_COOKIE_NAME", "must be the name of a cookie"},
		{"ALLOWED_ORIGINS=https://*.example.com", "ALLOWED_ORIGINS", "must be exact origins such as https://app.example.com, comma separated"},
		{"ALLOW_PRIVATE_HOSTS=10.0.0.0/99", "ALLOW_PRIVATE_HOSTS", "must be CIDRs, addresses, names or .suffixes, comma separated"},
		{"LOG_LEVEL=loud", "LOG_LEVEL", "must be debug, info, warn or error"},
		{"LOG_FORMAT=xml", "LOG_FORMAT", "must be json or text"},
	} {
		t.Run(tc.set, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(sound(tc.set), every)
			var got config.Problems
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want Problems", err)
			}
			if diff := cmp.Diff(config.Problems{{Variable: tc.variable, Message: tc.message}}, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the value shows in %q", err)
			}
		})
	}
}

func TestIdentityServiceFaults(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"PLUGIN_AUTH_ADDRESS=http://u:" + canary + "@h": "PLUGIN_AUTH_ADDRESS: must be an http:// or https:// URL without credentials",
		"PLUGIN_AUTH_JWKS_URL=ftp://h":                  "PLUGIN_AUTH_JWKS_URL: must be an http:// or https:// URL without credentials",
		"TENANT_CLAIM=a b":                              "TENANT_CLAIM: must be the name of a claim",
	} {
		_, err := config.Load(sound("PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=http://h", set), every)
		if diff := cmp.Diff("the configuration is not valid:\n  "+want, fmt.Sprint(err)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTenantManagerFaults(t *testing.T) {
	t.Parallel()
	const (
		shape = "MULTI_TENANT_URL: must be an http:// or https:// URL without credentials"
		multi = "MULTI_TENANT_URL: needs MULTI_TENANT_ENABLED=true"
		key   = "MULTI_TENANT_SERVICE_API_KEY: "
	)
	on := []string{"PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=http://h", "MULTI_TENANT_ENABLED=true"}
	for want, set := range map[string][]string{
		shape: {"MULTI_TENANT_URL=https://u:" + canary + "@tenants", "MULTI_TENANT_SERVICE_API_KEY=k"},
		multi: {"MULTI_TENANT_URL=https://tenants", "MULTI_TENANT_SERVICE_API_KEY=k", "MULTI_TENANT_ENABLED=false"},
		key + "is required with MULTI_TENANT_URL":                                {"MULTI_TENANT_URL=https://tenants"},
		key + "must be visible ASCII characters":                                 {"MULTI_TENANT_URL=https://tenants", "MULTI_TENANT_SERVICE_API_KEY=" + canary + " x"},
		"MULTI_TENANT_URL: is required when MULTI_TENANT_SERVICE_API_KEY is set": {"MULTI_TENANT_SERVICE_API_KEY=" + canary},
	} {
		_, err := config.Load(sound(append(on, set...)...), every)
		if diff := cmp.Diff("the configuration is not valid:\n  "+want, fmt.Sprint(err)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAllFaultsAtOnceInDocumentedOrder(t *testing.T) {
	t.Parallel()
	_, err := config.Load([]string{"LOG_LEVEL=x", "MAX_BODY_BYTES=x", "JOB_TIMEOUT=x"}, every)
	want := strings.Join([]string{
		"the configuration is not valid:",
		"  MAX_BODY_BYTES: must be a number of bytes, or a number with KiB, MiB, GiB or TiB",
		"  DATABASE_URL: is required",
		"  APP_ENC_KEY: is required; fetcher keys generate makes one",
		"  RESULTS_URL: is required",
		"  JOB_TIMEOUT: must be a duration such as 30s or 5m",
		"  LOG_LEVEL: must be debug, info, warn or error",
	}, "\n")
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
}

func TestSaaSInsistsOnTLS(t *testing.T) {
	t.Parallel()
	_, err := config.Load(sound("DEPLOYMENT_MODE=saas", "PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=http://id", "RESULTS_URL=s3://b?endpoint=http://s3",
		"MULTI_TENANT_ENABLED=true", "MULTI_TENANT_URL=http://tenants", "MULTI_TENANT_SERVICE_API_KEY=k"), every)
	var got config.Problems
	errors.As(err, &got)
	var variables []string
	for _, p := range got {
		variables = append(variables, p.Variable)
	}
	if diff := cmp.Diff([]string{"DATABASE_URL", "MULTI_TENANT_URL", "PLUGIN_AUTH_ADDRESS", "RESULTS_URL"}, variables); diff != "" {
		t.Error(diff)
	}
}

func TestSaaSDocuments(t *testing.T) {
	t.Parallel()
	const start = "the configuration is not valid:\n  "
	saas := []string{"DEPLOYMENT_MODE=saas", "DATABASE_URL=postgres://u@db/x?sslmode=require"}
	for set, want := range map[string]string{
		"CONTENT_URL=s3://b":                      "<nil>",
		"CONTENT_URL=s3://b?endpoint=http://s3":   start + "CONTENT_URL: must be TLS with DEPLOYMENT_MODE=saas",
		"FETCH_DEV_ROOT_CA=/etc/ca.pem":           start + "FETCH_DEV_ROOT_CA: is for tests, not for DEPLOYMENT_MODE=saas",
		"FETCH_DEV_RESOLVER=127.0.0.1:53":         start + "FETCH_DEV_RESOLVER: is for tests, not for DEPLOYMENT_MODE=saas",
		"FETCH_ALLOWED_PORTS=443, 8443":           "<nil>",
		"ALLOWED_ORIGINS=https://a.test,http://b": "<nil>",
	} {
		_, err := config.Load(append(sound(saas...), set), every)
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s: %s", set, diff)
		}
	}
	cfg, err := config.Load(sound("FETCH_ALLOWED_PORTS=443, 8443", "FETCH_DEV_RESOLVER=127.0.0.1:53"), every)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{cfg.Documents.AllowedPorts, cfg.Documents.AllowedPorts.String(), cfg.Documents.RatePerMinute, cfg.Documents.SessionCookie, cfg.Documents.ContentURL.IsSet()}
	want := []any{config.Ports{443, 8443}, "443,8443", 60, "__Host-session", false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSaaSResultsStorage(t *testing.T) {
	t.Parallel()
	refused := "the configuration is not valid:\n  RESULTS_URL: must be TLS with DEPLOYMENT_MODE=saas"
	for url, want := range map[string]string{
		"file:///var/lib/fetcher/results":            "<nil>",
		"s3://b":                                     "<nil>",
		"s3://b?endpoint=":                           "<nil>",
		"s3://b?endpoint=https://s3":                 "<nil>",
		"s3://b?disable_https=false":                 "<nil>",
		"gs://b":                                     "<nil>",
		"azblob://c":                                 "<nil>",
		"azblob://c?protocol=https&localemu=true":    "<nil>",
		"azblob://c?protocol=http":                   refused,
		"azblob://c?localemu=true":                   refused,
		"azblob://c?localemu=perhaps":                refused,
		"s3://b?endpoint=http://s3":                  refused,
		"s3://b?endpoint=HTTP%3A%2F%2Fs3":            refused,
		"s3://b?endpoint=s3:9000":                    refused,
		"s3://b?disable_https=true":                  refused,
		"s3://b?disable_https=1":                     refused,
		"s3://b?disable_https=maybe":                 refused,
		"s3://b?endpoint=https://s3&disable_https=T": refused,
	} {
		_, err := config.Load(sound("DEPLOYMENT_MODE=saas", "DATABASE_URL=postgres://u@db/x?sslmode=require", "RESULTS_URL="+url), every)
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
		if _, err := config.Load(sound("RESULTS_URL="+url), every); err != nil {
			t.Errorf("%s in local mode: %v", url, err)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte("postgres://u:p@db/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(sound("DATABASE_URL=", "DATABASE_URL_FILE="+path), every)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Database.URL.Reveal(); got != "postgres://u:p@db/x" {
		t.Errorf("got %q", got)
	}
	for set, want := range map[string]string{
		"DATABASE_URL_FILE=" + path:            "the configuration is not valid:\n  DATABASE_URL: is set twice: give DATABASE_URL or DATABASE_URL_FILE",
		"APP_ENC_KEYS_RETIRED_FILE=/no/such/x": "the configuration is not valid:\n  APP_ENC_KEYS_RETIRED: the file that APP_ENC_KEYS_RETIRED_FILE names can't be read",
	} {
		_, err := config.Load(sound(set), every)
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(sound(), every)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(cfg) //nolint:musttag // how it encodes by accident is the point
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v %#v %q", *cfg, *cfg, cfg.Database.URL), string(encoded), fmt.Sprint(cfg.Variables())} {
		if strings.Contains(text, canary) {
			t.Errorf("the secret shows in %q", text)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	sane := []string{
		"EVENTS_URL=rabbit://x,nats://a.b,kafka://t", "RABBIT_SERVER_URL=amqps://u:p@mq/", "NATS_SERVER_URL=tls://a:4222,tls://b",
		"KAFKA_BROKERS=a:9092,b:9092", "KAFKA_TLS=true", "KAFKA_SASL_MECHANISM=plain", "KAFKA_USERNAME=u", "KAFKA_PASSWORD=p",
	}
	saas := []string{"DEPLOYMENT_MODE=saas", "DATABASE_URL=postgres://db/f?sslmode=require"}
	for _, tc := range []struct {
		name  string
		set   []string
		fault string
	}{
		{"all", sane, ""},
		{"all, saas", append(saas, sane...), ""},
		{"webhook", []string{"EVENTS_WEBHOOK_URL=https://hooks.example.com/", "EVENTS_WEBHOOK_SECRET=" + hookSecret}, ""},
		{"scheme twice", []string{"EVENTS_URL=nats://a,nats://b", "NATS_SERVER_URL=nats://n"}, "EVENTS_URL"},
		{"login without user", []string{"KAFKA_SASL_MECHANISM=plain"}, "KAFKA_USERNAME"},
		{"plain rabbit, saas", append(saas, "RABBIT_SERVER_URL=amqp://mq"), "RABBIT_SERVER_URL"},
		{"plain nats, saas", append(saas, "NATS_SERVER_URL=tls://a,nats://b"), "NATS_SERVER_URL"},
		{"plain kafka, saas", append(saas, "KAFKA_BROKERS=a:1"), "KAFKA_TLS"},
		{"webhook of many tenants", []string{
			"MULTI_TENANT_ENABLED=true", "PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=http://id",
			"EVENTS_WEBHOOK_URL=https://hooks.example.com/", "EVENTS_WEBHOOK_SECRET=" + hookSecret,
		}, "EVENTS_WEBHOOK_URL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(sound(tc.set...), every)
			var got config.Problems
			if errors.As(err, &got) != (tc.fault != "") || tc.fault != "" && (len(got) != 1 || got[0].Variable != tc.fault) {
				t.Errorf("got %v, want a fault of %q", err, tc.fault)
			}
		})
	}
}
