package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// tripwire is a server that nobody may dial.
type tripwire struct {
	address string
	dialled atomic.Int64
}

func newTripwire(t *testing.T) *tripwire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	w := &tripwire{address: listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.dialled.Add(1)
			conn.Close()
		}
	}()
	return w
}

// secretCanary is in every secret of a configuration, and must be in no message.
const secretCanary = "canary4711"

func secretKey(n int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(secretCanary, 4))[:n])
}

// whole is a configuration with everything in it, of which every server is the tripwire.
func (w *tripwire) whole(dir string) map[string]string {
	return map[string]string{
		"DATABASE_URL": "postgres://u:" + secretCanary + "@" + w.address + "/fetcher?sslmode=disable", "APP_ENC_KEY": secretKey(32),
		"RESULTS_URL": "file://" + filepath.Join(dir, "results"), "CONTENT_URL": "file://" + filepath.Join(dir, "content"),
		"SERVER_ADDRESS": "127.0.0.1:0", "HEALTH_ADDRESS": "127.0.0.1:0", "MULTI_TENANT_ENABLED": "true",
		"MULTI_TENANT_URL": "http://" + w.address, "MULTI_TENANT_SERVICE_API_KEY": secretCanary,
		"PLUGIN_AUTH_ENABLED": "true", "PLUGIN_AUTH_ADDRESS": "http://" + w.address,
		"EVENTS_URL": "rabbit://events,nats://events,kafka://events", "RABBIT_SERVER_URL": "amqp://u:" + secretCanary + "@" + w.address,
		"NATS_SERVER_URL": "nats://u:" + secretCanary + "@" + w.address, "KAFKA_BROKERS": w.address,
		"ENABLE_TELEMETRY": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + w.address,
	}
}

type badConfiguration struct {
	name    string
	set     map[string]string
	says    string // the one problem, or two that come together
	command string // manager unless it says otherwise
}

func badConfigurations(dir string) []badConfiguration {
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			panic(err)
		}
		return path
	}
	one := func(variable, value, message string) badConfiguration {
		return badConfiguration{name: variable, set: map[string]string{variable: value}, says: variable + ": " + message}
	}
	of := func(command string, c badConfiguration) badConfiguration {
		c.command, c.name = command, command+" "+c.name
		return c
	}
	named := func(name string, c badConfiguration) badConfiguration {
		c.name += " " + name
		return c
	}
	const positive, bytes, seconds, duration = "must be 1 or more", "must be a number of bytes, or a number with KiB, MiB, GiB or TiB",
		"must be a whole number of seconds", "must be a duration such as 30s or 5m"
	return []badConfiguration{
		one("DATABASE_URL", "", "is required"),
		named("of another kind", one("DATABASE_URL", "mysql://u:"+secretCanary+"@db/x", "must be a postgres:// URL")),
		named("with a wrong setting", one("DATABASE_URL", "postgres://u:"+secretCanary+"@db:port/x", "must be a postgres:// URL")),
		named("with an unknown mode", one("DATABASE_URL", "postgres://u:"+secretCanary+"@db/x?sslmode=on", "has a setting that is not valid, or names a file that can't be read")),
		named("with a missing file", one("DATABASE_URL", "postgres://u:"+secretCanary+"@db/x?sslmode=verify-full&sslrootcert=/no/such/file", "has a setting that is not valid, or names a file that can't be read")),
		of("migrate", one("DATABASE_URL", "", "is required")),
		of("migrate", one("APP_ENC_KEY", "", "is required; fetcher keys generate makes one")),
		of("worker", one("RESULTS_URL", "", "is required")),
		named("short", one("APP_ENC_KEY", secretKey(31), "must be base64 of 32 bytes or more")),
		named("no base64", one("APP_ENC_KEY", secretCanary+"!", "must be base64 of 32 bytes or more")),
		one("APP_ENC_KEY_VERSION", "0", positive),
		named("not in one form", one("APP_ENC_KEY", strings.Repeat("A", 42)+"B=", "must be base64 of 32 bytes or more")),
		named("without version", one("APP_ENC_KEYS_RETIRED", secretKey(32), "must be version:base64, comma separated, each key of 32 bytes or more")),
		named("with the current version", one("APP_ENC_KEYS_RETIRED", "1:"+secretKey(32), "names a version twice, or the current one")),
		{name: "secret twice", set: map[string]string{"APP_ENC_KEY_FILE": file("twice", secretKey(32))}, says: "APP_ENC_KEY: is set twice: give APP_ENC_KEY or APP_ENC_KEY_FILE"},
		{name: "secret file missing", set: map[string]string{"APP_ENC_KEY": "", "APP_ENC_KEY_FILE": "/no/such/file"}, says: "APP_ENC_KEY: the file that APP_ENC_KEY_FILE names can't be read"},
		{name: "secret file a directory", set: map[string]string{"APP_ENC_KEY": "", "APP_ENC_KEY_FILE": dir}, says: "APP_ENC_KEY: the file that APP_ENC_KEY_FILE names can't be read"},
		{name: "secret file empty", set: map[string]string{"APP_ENC_KEY": "", "APP_ENC_KEY_FILE": file("empty", "\n")}, says: "APP_ENC_KEY: the file that APP_ENC_KEY_FILE names is empty"},
		{name: "secret file with something else", set: map[string]string{"DATABASE_URL": "", "DATABASE_URL_FILE": file("other", secretCanary+"\n")}, says: "DATABASE_URL: must be a postgres:// URL"},
		one("RESULTS_URL", "ftp://"+secretCanary, "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container"),
		one("RESULTS_KEY_PREFIX", "../up", "must be path segments without . or .., and not start with a slash"),
		one("RESULT_TTL", "a week", duration),
		one("CONTENT_URL", "http://"+secretCanary, "must be file:///directory or s3://bucket?region=…"),
		one("SERVER_ADDRESS", "4006", "must be host:port or :port"),
		of("worker", one("HEALTH_ADDRESS", ":70000", "must be host:port or :port")),
		one("SERVER_TLS_CERT", "/only/this", "SERVER_TLS_CERT and SERVER_TLS_KEY come together"),
		{name: "TLS files missing", set: map[string]string{"SERVER_TLS_CERT": "/no/cert", "SERVER_TLS_KEY": "/no/key"}, says: "SERVER_TLS_CERT: and SERVER_TLS_KEY must be files with a certificate and its key in PEM"},
		one("TRUSTED_PROXIES", "10.0.0.0/33", "must be addresses or CIDRs, comma separated"),
		one("MAX_BODY_BYTES", "1MB", bytes),
		one("STRICT_JSON", "perhaps", "must be true or false"),
		one("MAX_PAGINATION_LIMIT", "0", positive),
		one("CORS_ALLOWED_ORIGINS", "https://*.example.com", "must be exact origins such as https://app.example.com, comma separated"),
		one("READYZ_DRAIN_DELAY_SEC", "12s", seconds),
		one("SHUTDOWN_GRACE", "30", duration),
		named("none", one("SHUTDOWN_GRACE", "0s", "must be positive")),
		one("DEPLOYMENT_MODE", "prod", "must be saas, byoc or local"),
		one("PROBLEM_BASE_URI", "problems", "must be an http(s) URL or a path"),
		one("TENANT_DATABASE_URL", "postgres://u:"+secretCanary+"@db/x", "is for single-tenant mode; MULTI_TENANT_ENABLED is true"),
		one("MULTI_TENANT_SERVICE_API_KEY", "", "is required with MULTI_TENANT_URL"),
		named("split", one("MULTI_TENANT_SERVICE_API_KEY", secretCanary+" x", "must be visible ASCII characters")),
		one("MULTI_TENANT_URL", "http://u:"+secretCanary+"@manager", "must be an http:// or https:// URL without credentials"),
		one("MULTI_TENANT_POOL_HARD_CAP", "99", "must not be below MULTI_TENANT_MAX_TENANT_POOLS"),
		one("MULTI_TENANT_CACHE_TTL_SEC", "-1", seconds),
		one("TENANT_MAX_OPEN_CONNS", "many", "must be a whole number"),
		one("TENANT_RATE_LIMIT", "NaN", "must be 0 or a positive number"),
		one("PLUGIN_AUTH_ENABLED", "false", "must be true when MULTI_TENANT_ENABLED is: the tenant comes from the token"),
		one("PLUGIN_AUTH_ADDRESS", "", "is required when PLUGIN_AUTH_ENABLED is true"),
		one("PLUGIN_AUTH_JWKS_URL", "keys.json", "must be an http:// or https:// URL without credentials"),
		one("PLUGIN_AUTH_AUTHORIZATION", "both", "must be service or claims"),
		one("FETCH_ALLOWED_PORTS", "443,443", "must be ports from 1 to 65535, comma separated, each once"),
		one("FETCH_DEV_ROOT_CA", file("no-ca", "no certificate"), "must be a file with certificates in PEM"),
		one("SESSION_COOKIE_NAME", "a b", "must be the name of a cookie"),
		of("worker", one("WORKER_CONCURRENCY", "0", positive)),
		of("worker", named("above the queue's most", one("WORKER_CONCURRENCY", "10001", "must be 10000 or less"))),
		of("worker", one("JOB_TIMEOUT", "10ms", "must be 1s or more")),
		of("worker", one("JOB_TTL", "1h", "must not be below RESULT_TTL")),
		of("serve", one("JOB_MAX_RESULT_BYTES", "-1", bytes)),
		one("ALLOW_PRIVATE_HOSTS", "10.0.0.0/99", "must be CIDRs, addresses, names or .suffixes, comma separated"),
		named("with an impossible name", one("ALLOW_PRIVATE_HOSTS", "db_,-x-", "must be CIDRs, addresses, names or .suffixes, comma separated")),
		of("migrate", named("with a mapped range", one("ALLOW_PRIVATE_HOSTS", "::ffff:10.0.0.0/104", "must be CIDRs, addresses, names or .suffixes, comma separated"))),
		of("worker", one("EVENTS_URL", "rabbit://a,rabbit://b", "names a scheme twice")),
		of("worker", one("RABBIT_SERVER_URL", "http://u:"+secretCanary+"@mq", "must be an amqp:// or amqps:// URL")),
		of("worker", one("KAFKA_BROKERS", "broker", "must be host:port, comma separated")),
		{name: "KAFKA_SASL_MECHANISM", command: "worker", set: map[string]string{"KAFKA_SASL_MECHANISM": "plain"}, says: "KAFKA_USERNAME: and KAFKA_PASSWORD are required when KAFKA_SASL_MECHANISM is set"},
		{name: "EVENTS_WEBHOOK_SECRET", set: map[string]string{"EVENTS_WEBHOOK_SECRET": "whsec_" + secretCanary}, says: "EVENTS_WEBHOOK_URL: is for single-tenant mode; fetcher tenant webhook sets each tenant's\n  EVENTS_WEBHOOK_SECRET: must be whsec_ and base64 of 24 to 64 bytes"},
		one("LOG_LEVEL", "loud", "must be debug, info, warn or error"),
		one("LOG_FORMAT", "xml", "must be json or text"),
		one("METRICS_TENANT_LABEL_LIMIT", "-1", "must not be negative"),
		one("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "must be an http:// or https:// URL"),
		one("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "must be http/protobuf, the one protocol there is"),
		one("OTEL_EXPORTER_OTLP_HEADERS", secretCanary, "must be of the form k=v,k=v, each k the name of a header"),
		named("with a name that is none", one("OTEL_EXPORTER_OTLP_HEADERS", "api key="+secretCanary, "must be of the form k=v,k=v, each k the name of a header")),
		one("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd", "must be gzip or none"),
		one("OTEL_EXPORTER_OTLP_INSECURE", "yes", "must be true or false"),
		one("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file", "must be a file with certificates in PEM"),
		one("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/no/cert", "and OTEL_EXPORTER_OTLP_CLIENT_KEY must be files with a certificate and its key in PEM"),
		one("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/no/key", "comes with OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE"),
		one("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "must be a whole number, 1 or more"),
		one("OTEL_BSP_EXPORT_TIMEOUT", "5s", "must be a whole number of milliseconds"),
		one("OTEL_TRACES_SAMPLER", "half", "must be always_on, always_off, traceidratio, or one of them behind parentbased_"),
		{name: "sampler's ratio", set: map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, says: "OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1"},
		{name: "datasource's variable", set: map[string]string{"DATASOURCE_BI_CONFIG_NAME": "platform_bi", "DATASOURCE_BI_TYPE": "POSTGRESQL", "DATASOURCE_BI_HOST": "db", "DATASOURCE_BI_PORT": "5432", "DATASOURCE_BI_DATABASE": "bi", "DATASOURCE_BI_USER": "bi", "DATASOURCE_BI_PASSWORD": secretCanary, "DATASOURCE_BI_SSLMODES": "x"}, says: "DATASOURCE_BI_SSLMODES: is not a variable of a datasource"},
	}
}

// TestBadConfiguration starts the real program with one thing wrong at a time: it ends with code 2 and one message that
// names the variable, tells no secret, and has dialled nothing and made nothing.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	for _, c := range badConfigurations(files) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wire, dir := newTripwire(t), t.TempDir()
			env := wire.whole(dir)
			maps.Copy(env, c.set)
			command := c.command
			if command == "" {
				command = "manager"
			}
			output, code := runToEnd(t, env, command)
			if code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if d := cmp.Diff("fetcher: the configuration is not valid:\n  "+c.says+"\n", output); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			checkNothingHappened(t, wire, dir, output)
		})
	}
}

func checkNothingHappened(t *testing.T, wire *tripwire, dir, output string) {
	t.Helper()
	if strings.Contains(output, secretCanary) || strings.Contains(output, secretKey(32)[:16]) {
		t.Errorf("a secret is told: %s", output)
	}
	if n := wire.dialled.Load(); n != 0 {
		t.Errorf("a server was dialled %d times", n)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) != 0 {
		t.Errorf("made %v, %v", made, err)
	}
}

// TestTripwire: the configuration of the cases is otherwise sound, and the tripwire notices who dials.
func TestTripwire(t *testing.T) {
	t.Parallel()
	wire, dir := newTripwire(t), t.TempDir()
	if output, code := runToEnd(t, wire.whole(dir), "config", "check"); code != 0 {
		t.Fatalf("config check: %d\n%s", code, output)
	}
	process, err := binary.Launch(environ(wire.whole(dir)), "manager")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	for deadline := time.Now().Add(blackbox.StartTimeout); wire.dialled.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was dialled\n%s", process.Output)
		}
	}
}

// TestAllProblemsAtOnce: everything that is wrong is named in one message, in the order of the documentation.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	wire, dir := newTripwire(t), t.TempDir()
	env := wire.whole(dir)
	var want []string
	for _, v := range (&config.Config{}).Variables() {
		for _, c := range badConfigurations(dir) {
			if value, ok := c.set[v.Name]; ok && len(c.set) == 1 && !slices.Contains(want, v.Name) && !dependent(v.Name) {
				env[v.Name] = value
				want = append(want, v.Name)
			}
		}
	}
	for _, entry := range []string{"empty", "no-ca", "other", "twice"} {
		_ = os.Remove(filepath.Join(dir, entry))
	}
	output, code := runToEnd(t, env, "serve")
	var got []string
	for _, match := range regexp.MustCompile(`(?m)^  ([A-Z_]+): `).FindAllStringSubmatch(output, -1) {
		got = append(got, match[1])
	}
	if d := cmp.Diff(want, got); d != "" || code != 2 {
		t.Errorf("code %d; -want +got:\n%s", code, d)
	}
	if len(want) < 35 {
		t.Errorf("only %d problems", len(want))
	}
	checkNothingHappened(t, wire, dir, output)
}

// dependent reports whether the variable of a case is only wrong while others are right.
func dependent(variable string) bool {
	return slices.Contains([]string{
		"TENANT_DATABASE_URL", "MULTI_TENANT_SERVICE_API_KEY", "MULTI_TENANT_POOL_HARD_CAP", "PLUGIN_AUTH_ADDRESS", "PLUGIN_AUTH_JWKS_URL",
		"JOB_TTL", "KAFKA_SASL_MECHANISM", "EVENTS_WEBHOOK_SECRET", "APP_ENC_KEYS_RETIRED",
	}, variable)
}

// TestSecretFiles: every secret may come from a file, a symbolic link as Kubernetes makes them, with a newline at its end.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, fromFiles := map[string]string{}, map[string]string{}
	for name, value := range map[string]string{
		"DATABASE_URL": "postgres://u:p@db/x", "TENANT_DATABASE_URL": "postgres://u:p@db/y", "APP_ENC_KEY": secretKey(32),
		"APP_ENC_KEYS_RETIRED": "7:" + secretKey(32), "RESULTS_URL": "s3://results?region=eu-central-1", "CONTENT_URL": "s3://content?region=eu-central-1",
		"RABBIT_SERVER_URL": "amqp://u:p@mq", "NATS_SERVER_URL": "nats://u:p@mq", "KAFKA_PASSWORD": "kafka-" + secretCanary,
		"EVENTS_WEBHOOK_URL": "https://hooks.example/x", "EVENTS_WEBHOOK_SECRET": "whsec_" + secretKey(24),
		"MULTI_TENANT_SERVICE_API_KEY": "k",
	} {
		plain[name] = value
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".data", []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path+".data", path); err != nil {
			t.Fatal(err)
		}
		fromFiles[name+"_FILE"] = path
	}
	for _, v := range (&config.Config{}).Variables() {
		if _, tried := plain[v.Name]; v.Secret != tried {
			t.Errorf("%s: secret: %v, tried: %v", v.Name, v.Secret, tried)
		}
	}
	// The key of the tenant manager goes with many tenants only.
	delete(plain, "MULTI_TENANT_SERVICE_API_KEY")
	delete(fromFiles, "MULTI_TENANT_SERVICE_API_KEY_FILE")
	a, codeA := runToEnd(t, plain, "config", "check")
	b, codeB := runToEnd(t, fromFiles, "config", "check")
	if codeA != 0 || codeB != 0 || a != b {
		t.Errorf("%d, %d\n%s", codeA, codeB, cmp.Diff(a, b))
	}
	for name, value := range plain {
		if strings.Contains(a, value) {
			t.Errorf("config check tells %s", name)
		}
		if !regexp.MustCompile(`(?m)^` + name + ` +\*{6}$`).MatchString(a) {
			t.Errorf("config check does not say that %s is set:\n%s", name, a)
		}
	}
}

func environ(vars map[string]string) []string {
	var out []string
	for name, value := range vars {
		out = append(out, name+"="+value)
	}
	return out
}

// runToEnd runs a command that ends by itself, and returns what it printed and its exit code.
func runToEnd(t *testing.T, env map[string]string, args ...string) (output string, code int) {
	t.Helper()
	process, err := binary.Launch(environ(env), args...)
	if err != nil {
		t.Fatal(err)
	}
	err = process.Wait(blackbox.StartTimeout)
	if err != nil {
		if _, scanErr := fmt.Sscanf(err.Error(), "exit status %d", &code); scanErr != nil {
			t.Fatal(err)
		}
	}
	return process.Output.String(), code
}
