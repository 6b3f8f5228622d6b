package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/telemetry"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// service is the whole API in this process, on real databases, with a real identity service and real objects.
type service struct {
	url     string
	logs    *logBuffer
	issuer  *testkit.IdentityService
	control *control.DB
	tenants *tenant.Router
	results *results.Store
	dir     string // of the results
	keys    *secret.Keyring
	health  *handlers.Health
	dsn     map[string]string // of each tenant
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newService starts the API with the tenants acme and globex. change may alter the options.
func newService(t *testing.T, change func(*handlers.Options)) *service {
	t.Helper()
	ctx := t.Context()
	s := &service{logs: &logBuffer{}, issuer: testkit.Issuer(t), dir: t.TempDir(), dsn: map[string]string{}}
	key, err := secret.ParseKey(1, secret.GenerateKey())
	must(t, err)
	s.keys, err = secret.NewKeyring(key)
	must(t, err)
	s.startTenants(t)
	s.results, err = results.Open(ctx, "file://"+s.dir, s.keys, results.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.results.Close()) })
	log, err := telemetry.NewLogger(s.logs, "info", "json")
	must(t, err)
	gate, err := auth.New(ctx, auth.Options{Address: s.issuer.URL(), CacheTTL: 30 * time.Second, Logger: log})
	must(t, err)
	t.Cleanup(gate.Close)
	guard, err := dial.NewGuard(dial.Policy{AllowPrivate: true})
	must(t, err)
	service, err := connections.New(connections.Options{
		Keys: s.keys, Guard: guard, Drivers: source.Drivers{source.PostgreSQL: postgres.New()},
	})
	must(t, err)
	s.health, err = handlers.NewHealth(handlers.HealthOptions{
		Build: handlers.Build{Version: "1.2.3", Commit: "abc"}, DeploymentMode: "local", Logger: log,
		Checks: []handlers.Check{handlers.PingCheck("control_database", true, log, s.control.Pool().Ping)},
	})
	must(t, err)
	once, err := idempotency.New(s.keys)
	must(t, err)
	opts := handlers.Options{
		Auth: gate, Tenants: s.tenants, Connections: service, Jobs: s.newJobs(t, service), Results: s.results, Idempotency: once,
		Health: s.health, Build: handlers.Build{Version: "1.2.3", Commit: "abc"}, Logger: log,
	}
	if change != nil {
		change(&opts)
	}
	handler, err := handlers.New(opts)
	must(t, err)
	s.serve(t, handler, log)
	return s
}

func (s *service) newJobs(t *testing.T, c *connections.Service) *jobs.Service {
	t.Helper()
	queue, err := jobs.NewQueue(s.control.Pool(), slog.New(slog.DiscardHandler))
	must(t, err)
	service, err := jobs.NewService(jobs.ServiceOptions{Queue: queue, Connections: c, Keys: s.keys})
	must(t, err)
	return service
}

// startTenants makes the control database and one database for each tenant.
func (s *service) startTenants(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	pg := testkit.Postgres(t)
	pool, err := pgxpool.New(ctx, pg.NewDatabase(t))
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, control.Migrate(ctx, pool))
	s.control = control.New(pool)
	for _, id := range []string{"acme", "globex"} {
		s.dsn[id] = pg.NewDatabase(t)
		var sealed []byte
		sealed, err = tenant.SealDSN(s.keys, id, s.dsn[id])
		must(t, err)
		must(t, s.control.CreateTenant(ctx, &control.Tenant{ID: id, Name: id, DSNSealed: sealed}))
	}
	s.tenants, err = tenant.NewRouter(ctx, tenant.Options{
		Control: s.control, Keys: s.keys, AutoMigrate: true, MaxPools: 10, HardCap: 20, MaxConns: 5, MaxConnsPerHost: 40,
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(t, s.tenants.Close(ctx))
	})
}

// serve runs the handler on the server of production until the test ends.
func (s *service) serve(t *testing.T, handler http.Handler, log *slog.Logger) {
	t.Helper()
	server, err := handlers.NewServer(handlers.ServerOptions{
		Address: "127.0.0.1:0", Handler: handler, Health: s.health, Grace: 10 * time.Second, Logger: log,
	})
	must(t, err)
	must(t, server.Listen(t.Context()))
	s.url = "http://" + server.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		must(t, <-ended)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer is a response with its whole body.
type answer struct {
	status int
	header http.Header
	body   string
}

// problemBody is an error answer.
type problemBody struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
	Code     string `json:"code"`
	Errors   []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
		Value    any    `json:"value"`
	} `json:"errors"`
}

func (a answer) problem(t *testing.T) problemBody {
	t.Helper()
	var p problemBody
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d with content type %q: %s", a.status, got, a.body)
	}
	must(t, json.Unmarshal([]byte(a.body), &p))
	return p
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// do sends a request; headers are name and value in turn, and a name may come twice.
func (s *service) do(t *testing.T, method, path, token, body string, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, reader)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	must(t, err)
	return answer{resp.StatusCode, resp.Header, string(content)}
}

// expect is do, and fails the test unless status and code are those wanted.
func (s *service) expect(t *testing.T, status int, code, method, path, token, body string, headers ...string) answer {
	t.Helper()
	got := s.do(t, method, path, token, body, headers...)
	if got.status != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, got.status, status, got.body)
	}
	if code != "" {
		if p := got.problem(t); p.Code != code {
			t.Fatalf("%s %s: code %s, want %s: %s", method, path, p.Code, code, got.body)
		}
	}
	return got
}

func (s *service) token(tenantID string) string {
	return s.issuer.Token(testkit.Token{Tenant: tenantID, Owner: tenantID})
}

// execAs runs statements as the owner of a database.
func execAs(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer func() { must(t, conn.Close(context.Background())) }()
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		must(t, err)
	}
}
