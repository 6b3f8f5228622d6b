package handlers

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/telemetry"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// requestPath is the handler of a few operations behind all stages, with real tokens and leases, and everything that the
// first request has to find out found out.
type requestPath struct {
	handler http.Handler
	token   string
	id      uuid.UUID    // of a stored connection
	sent    atomic.Int64 // messages to the tenant's database
}

// directly reads connections by the store; held, if any, is answered without it.
type directly struct {
	Connections

	held *store.Connection
}

func (d directly) Get(ctx context.Context, rows store.Connections, _ string, id uuid.UUID) (*store.Connection, error) {
	if d.held != nil {
		return d.held, nil
	}
	return rows.Get(ctx, id)
}

const pathOfNothing = "/v1/nothing"

func newRequestPath(t *testing.T, held *store.Connection) *requestPath {
	t.Helper()
	p := &requestPath{id: uuid.New()}
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Writer: io.Discard})
	noError(t, err)
	t.Cleanup(func() { noError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	issuer := testkit.Issuer(t)
	p.token = issuer.Token(testkit.Token{})
	gate, err := auth.New(t.Context(), auth.Options{Address: issuer.URL(), CacheTTL: time.Hour, Meter: tel.Meter("auth")})
	noError(t, err)
	t.Cleanup(gate.Close)
	opts := Options{
		Auth: gate, Tenants: p.router(t), Connections: directly{held: held}, Logger: tel.Logger(), Meter: tel.Meter("handlers"),
		Tracer: tel.TracerProvider(), Untraced: true, Propagator: tel.Propagator(),
	}
	opts.fill()
	e := &edge{opts: opts, log: opts.Logger}
	e.metrics, err = newHTTPMetrics(opts.Meter)
	noError(t, err)
	e.rates, err = newTenantLimiter(opts.Tenants, opts.TenantRate, opts.Clock)
	noError(t, err)
	engine, err := e.newEngine()
	noError(t, err)
	e.api = humagin.NewWithGroup(engine, engine.Group(""), e.newConfig())
	e.mountConnections()
	register(e, operation{id: "nothing", method: http.MethodGet, path: pathOfNothing, resource: resourceConnections, success: http.StatusNoContent},
		func(context.Context, *struct{}) (*struct{}, error) { return nil, nil }) //nolint:nilnil // nothing is answered
	p.handler = engine
	return p
}

// router is that of one tenant, acme, whose database holds one connection.
func (p *requestPath) router(t *testing.T) *tenant.Router {
	t.Helper()
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: make([]byte, 32)})
	noError(t, err)
	pool, err := pgxpool.New(t.Context(), testkit.Postgres(t).NewDatabase(t))
	noError(t, err)
	t.Cleanup(pool.Close)
	noError(t, control.Migrate(t.Context(), pool))
	admin := tenant.Admin{Control: control.New(pool), Keys: keys}
	_, err = admin.Create(t.Context(), tenant.NewTenant{ID: "acme", DSN: testkit.Postgres(t).NewDatabase(t)})
	noError(t, err)
	r, err := tenant.NewRouter(t.Context(), tenant.Options{Control: admin.Control, Keys: keys, Dial: p.dial})
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close(context.WithoutCancel(t.Context()))) })
	lease, err := r.Acquire(t.Context(), "acme")
	noError(t, err)
	defer lease.Release()
	noError(t, lease.Connections(t.Context()).Create(t.Context(), &store.Connection{
		ID: p.id, ConfigName: "ledger", Kind: "POSTGRESQL", Host: "h", Port: 1, DatabaseName: "d", UserName: "u", KeyVersion: 1,
	}))
	return r
}

// counted counts what is sent in one piece.
type counted struct {
	net.Conn

	sent *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(p)
}

func (p *requestPath) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return counted{conn, &p.sent}, err
}

func (p *requestPath) request(t *testing.T, path string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+p.token)
	return r
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A request for one connection sends one message to the tenant's database: no transaction around it, no setting, no ping.
func TestOneQueryForOneConnection(t *testing.T) {
	t.Parallel()
	p := newRequestPath(t, nil)
	ask := func() {
		answer := httptest.NewRecorder()
		p.handler.ServeHTTP(answer, p.request(t, connectionsPath+"/"+p.id.String()))
		if answer.Code != http.StatusOK {
			t.Fatalf("answered %d: %s", answer.Code, answer.Body)
		}
	}
	ask() // prepares the statement
	// A connection that was idle for a second is tried first, so on a slow machine some requests send two.
	const requests = 50
	before := p.sent.Load()
	for range requests {
		ask()
	}
	if sent := p.sent.Load() - before; sent < requests || sent >= 2*requests {
		t.Errorf("%d requests sent %d messages", requests, sent)
	}
}
