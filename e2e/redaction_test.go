package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

// redaction is a deployment that is given secrets everywhere, and everything that somebody else can read of it.
type redaction struct {
	*apiSuite

	spans   *listener
	hook    *listener
	web     *webtest.Origin
	worker  *blackbox.Process
	health  string   // of the worker
	env     []string // of every process
	tenant  string   // the one that is acted for; its id is also the mark that metrics are found by
	admin   caller   // of it
	request string   // the request id that logs and answers are found by
	note    string   // in metadata of jobs, that events are found by
	planted string   // that dumps and objects are found by

	mu      sync.Mutex
	secrets []secretText
	traces  []trace
	good    map[string]int // answers below 400, by operation
	bad     map[string]int // and the others
}

// add registers a value that must show nowhere but in good answers of these operations.
func (r *redaction) add(name, value string, shown ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, secretText{name, value, shown})
}

// secret makes one. What is looked for is the part that every way of writing it leaves alone, and the whole.
func (r *redaction) secret(name string, shown ...string) string {
	whole, core := newSecret()
	r.add(name, core, shown...)
	r.add(name+", whole", whole, shown...)
	return whole
}

// word makes one of letters and digits only.
func (r *redaction) word(name string, shown ...string) string {
	_, core := newSecret()
	r.add(name, core, shown...)
	return core
}

func (r *redaction) keep(traces ...trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces = append(r.traces, traces...)
}

// do does a request, and keeps the answer.
func (r *redaction) do(t *testing.T, base, token string, c call) blackbox.Answer {
	t.Helper()
	a := agent{base: base, token: token}
	if !slices.Contains(c.headers, "X-Request-Id") {
		c.headers = append(slices.Clone(c.headers), "X-Request-Id", r.request)
	}
	got, err := a.send(t, c)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	operation := r.operation(t, c)
	kept := trace{sink: "answer", from: fmt.Sprint(c.method, " ", operation, " ", got.Status), content: fmt.Appendf(nil, "%v\n%s", got.Header, got.Body)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got.Status < http.StatusBadRequest {
		kept.operation = operation
		r.good[operation]++
	} else {
		r.bad[operation]++
	}
	r.traces = append(r.traces, kept)
	return got
}

// operation is the id of the operation that a request is for, empty if none is.
func (r *redaction) operation(t *testing.T, c call) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), c.method, apiHost+c.path, nil)
	if err != nil {
		return ""
	}
	route, _, err := r.routes.FindRoute(req)
	if err != nil {
		return ""
	}
	return route.Operation.OperationID
}

// ends does a request as the tenant's administrator that must end with that status.
func (r *redaction) ends(t *testing.T, status int, c call) blackbox.Answer {
	t.Helper()
	got := r.do(t, r.Info.API, r.admin.token, c)
	if got.Status != status {
		t.Fatalf("%s %s %.300s\ngot %d: %s\nwant %d", c.method, c.path, c.body, got.Status, got.Body, status)
	}
	return got
}

func startRedaction(t *testing.T) *redaction {
	t.Helper()
	r := &redaction{
		spans: listen(t, "span", false), hook: listen(t, "event", true), good: map[string]int{}, bad: map[string]int{},
		tenant: "t" + strings.ToLower(unique("marked")), request: "marked-request-" + unique("r"), note: "marked-note-" + unique("n"), planted: "marked-planted-" + unique("p"),
	}
	ca, names := webtest.NewCA(t), webtest.NewDNS(t)
	names.Set(webtest.Host, webtest.Addrs("127.0.0.1"))
	r.web = webtest.NewOrigin(t, ca)
	roots := filepath.Join(tempDir(t), "roots.pem")
	if err := os.WriteFile(roots, pemOf(r.hook.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = []string{
		"LOG_LEVEL=debug", "ENABLE_TELEMETRY=true", "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.spans.URL, "OTEL_BSP_SCHEDULE_DELAY=200",
		"SSL_CERT_FILE=" + roots, "FETCH_DEV_ROOT_CA=" + ca.PEMFile(t), "FETCH_DEV_RESOLVER=" + names.Addr(), "FETCH_RATE_PER_MINUTE=0",
		fmt.Sprintf("FETCH_ALLOWED_PORTS=443,%d", r.web.Port()), "JOB_MAX_ATTEMPTS=1",
		"EVENTS_URL=rabbit://events", "RABBIT_SERVER_URL=amqp://u:" + r.word("password of the broker") + "@127.0.0.1:1/v",
		"DATASOURCE_DOWN_CONFIG_NAME=" + internalDown, "DATASOURCE_DOWN_TYPE=POSTGRESQL", "DATASOURCE_DOWN_HOST=127.0.0.1", "DATASOURCE_DOWN_PORT=1",
		"DATASOURCE_DOWN_DATABASE=d", "DATASOURCE_DOWN_USER=u", "DATASOURCE_DOWN_PASSWORD=" + r.secret("password of an internal datasource"),
		"DATASOURCE_DOWN_TENANTS=*",
	}
	r.apiSuite = startSuiteWith(t, r.env, "--no-worker")
	r.env = append(r.Env(t), r.env...)
	for _, name := range []string{"master.key", "postgres/password", "postgres/password-fetcher", "postgres/password-fetcher_acme"} {
		kept, err := os.ReadFile(filepath.Join(r.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		r.add(name, strings.TrimSpace(string(kept)))
	}
	r.newTenant(t)
	return r
}

// newTenant registers the tenant that is acted for, with a password of its own and a webhook.
func (r *redaction) newTenant(t *testing.T) {
	t.Helper()
	password := r.word("password of the tenant's database")
	r.superuser(t, "postgres", fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", r.tenant, password))
	r.superuser(t, "postgres", fmt.Sprintf("CREATE DATABASE %s OWNER %s", r.tenant, r.tenant))
	r.says(t, true, r.env, "tenant", "create", r.tenant, "--dsn", r.serverURL(r.tenant, password, r.tenant))
	secret := "whsec_" + strings.Repeat(r.word("secret of the webhook"), 2)[:40]
	r.add("secret of the webhook, whole", secret)
	// What it prints is the secret, on purpose.
	binary.Command(t, r.env, "tenant", "webhook", "set", r.tenant, "--url", r.hook.URL+"/in", "--secret", secret)
	claims := map[string]any{"tenantId": r.tenant, "owner": r.tenant, "auth_time": time.Now().Unix()}
	r.admin = caller{suite: r.apiSuite, base: r.Info.API, token: tokenWith(t, r.Dev, claims)}
	r.add("token", r.admin.token[strings.LastIndexByte(r.admin.token, '.')+1:])
}

// startWorker starts a worker with these variables besides.
func (r *redaction) startWorker(t *testing.T, env ...string) {
	t.Helper()
	r.health = freeAddress(t)
	r.worker = startWorker(t, append(slices.Concat(r.env, env), "HEALTH_ADDRESS="+r.health, "LOG_LEVEL=debug"))
}

// stopWorker stops it, and keeps what it said.
func (r *redaction) stopWorker(t *testing.T) {
	t.Helper()
	r.keep(scraped(t, "worker", "http://"+r.health))
	stopWorker(t, r.worker)
	r.keep(logOf("worker", r.worker))
}

// TestRedaction pushes secrets through every operation and failure, and looks for them in everything that others can
// read: logs at debug level, spans, metrics, answers, events, what commands print, databases and objects.
func TestRedaction(t *testing.T) {
	t.Parallel()
	r := startRedaction(t)
	r.startWorker(t)
	sources := r.sources(t)
	r.refusals(t)
	r.connections(t, sources)
	r.jobs(t, sources)
	r.documents(t)
	r.stopWorker(t)
	r.uploads(t, sources)
	r.commands(t)
	r.managed(t)
	r.collect(t)

	r.marks(t)
	r.complete(t)
	for _, hit := range found(r.traces, r.secrets) {
		t.Error(hit)
	}
	t.Logf("%d secrets, %d traces", len(r.secrets), len(r.traces))
}

// collect reads what there is to read once everything has happened.
func (r *redaction) collect(t *testing.T) {
	t.Helper()
	r.keep(scraped(t, "manager", r.Info.API))
	r.superuser(t, r.tenant, "CREATE TABLE planted AS SELECT convert_to($1, 'UTF8') AS bytes", r.planted)
	planted := base64.StdEncoding.EncodeToString([]byte("beside " + r.planted + "."))
	if err := os.WriteFile(filepath.Join(r.Dir, "results", "planted"), []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, url := range r.databases() {
		r.keep(dump(t, name, url))
	}
	for _, dir := range []string{"results", "content"} {
		r.keep(files(t, filepath.Join(r.Dir, dir))...)
	}
	if err := r.Stop(); err != nil { // sends the spans it has held back
		t.Fatal(err)
	}
	r.keep(logOf("manager", r.Process))
	r.keep(r.spans.traces()...)
	r.keep(r.hook.traces()...)
}

// databases are those of the gateway.
func (r *redaction) databases() map[string]string {
	password, err := os.ReadFile(filepath.Join(r.Dir, "postgres", "password"))
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range []string{"fetcher", "fetcher_acme", r.tenant} {
		out[name] = r.serverURL("postgres", strings.TrimSpace(string(password)), name)
	}
	return out
}

// marks looks for texts that do belong into each kind of trace, so that one that is not looked at does not pass.
func (r *redaction) marks(t *testing.T) {
	t.Helper()
	for sink, mark := range map[string]string{
		"log": r.request, "answer": r.request, "span": r.tenant, "metrics": r.tenant, "event": r.note, "command": r.tenant,
		"database": r.planted, "object": r.planted,
	} {
		ofSink := slices.DeleteFunc(slices.Clone(r.traces), func(tr trace) bool { return tr.sink != sink })
		if len(found(ofSink, []secretText{{name: "mark", value: mark}})) == 0 {
			t.Errorf("%s is in no %s", mark, sink)
		}
	}
}

// complete checks that every operation of our document took part, in good answers and bad ones, and that what an
// operation is there to show it did show: the secrets went through.
func (r *redaction) complete(t *testing.T) {
	t.Helper()
	for path, item := range r.document.Paths.Map() {
		for method, op := range item.Operations() {
			if r.good[op.OperationID] == 0 || r.bad[op.OperationID] == 0 {
				t.Errorf("%s %s (%s) had %d good answers and %d bad ones", method, path, op.OperationID, r.good[op.OperationID], r.bad[op.OperationID])
			}
		}
	}
	for _, s := range r.secrets {
		for _, operation := range s.shown {
			if !slices.ContainsFunc(r.traces, func(tr trace) bool {
				return tr.operation == operation && len(found([]trace{tr}, []secretText{{value: s.value}})) > 0
			}) {
				t.Errorf("%s did not show in an answer of %s", s.name, operation)
			}
		}
	}
}
