package tenant

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// world is a control database and the tenants in it, each with a database of its own that holds one connection
// named like the tenant.
type world struct {
	Admin

	pg   *testkit.PG
	dsns map[string]string
}

func newWorld(t *testing.T, ids ...string) *world {
	t.Helper()
	return newWorldIn(t, testkit.Postgres(t), ids...)
}

// newWorldIn keeps the control database on the given server and the tenants' on the shared one.
func newWorldIn(t *testing.T, server *testkit.PG, ids ...string) *world {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.NewDatabase(t)+"&pool_max_conns=6")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := control.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	w := &world{pg: testkit.Postgres(t), dsns: map[string]string{}}
	w.Admin = Admin{Control: control.New(pool), Keys: newKeys(t)}
	for _, id := range ids {
		w.add(t, id)
	}
	return w
}

func newKeys(t *testing.T) *secret.Keyring {
	t.Helper()
	key, err := secret.ParseKey(1, secret.GenerateKey())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secret.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func (w *world) add(t *testing.T, id string) {
	t.Helper()
	w.dsns[id] = w.pg.NewDatabase(t)
	if _, err := w.Create(t.Context(), NewTenant{ID: id, DSN: w.dsns[id]}); err != nil {
		t.Fatal(err)
	}
	mark(t, w.dsns[id], id)
}

// mark stores the connection by which a database is recognised.
func mark(t *testing.T, dsn, name string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), `
		INSERT INTO connections (id, config_name, kind, host, port, database_name, user_name, key_version)
		VALUES ($1, $2, 'POSTGRESQL', 'h', 1, 'd', 'u', 1)`, uuid.New(), name)
	if err != nil {
		t.Fatal(err)
	}
}

// router returns a running router on the world's registry. All of it must be gone soon after the test.
func (w *world) router(t *testing.T, o Options) *Router {
	t.Helper()
	o.Control, o.Keys = w.Control, w.Keys
	return newRouter(t, o)
}

func newRouter(t *testing.T, o Options) *Router {
	t.Helper()
	r, err := NewRouter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close router: %v", err)
		}
		r.budget.mu.Lock()
		defer r.budget.mu.Unlock()
		if len(r.budget.open) > 0 {
			t.Errorf("connections left open: %v", r.budget.open)
		}
	})
	return r
}

// name asks the database behind a lease whose it is.
func name(ctx context.Context, l *Lease) (string, error) {
	page, _, err := store.NewConnections(l.DB(ctx)).List(ctx, store.ConnectionFilter{Page: store.Page{Limit: 2}})
	if err != nil {
		return "", err
	}
	if len(page) != 1 {
		return "", errors.New("not a marked database")
	}
	return page[0].ConfigName, nil
}

// use acquires, asks for the name and releases.
func use(ctx context.Context, r *Router, id string) (string, error) {
	l, err := r.Acquire(ctx, id)
	if err != nil {
		return "", err
	}
	defer l.Release()
	return name(ctx, l)
}

func mustUse(t *testing.T, r *Router, id string) {
	t.Helper()
	if got, err := use(t.Context(), r, id); err != nil || got != id {
		t.Fatalf("tenant %s: got %q, %v", id, got, err)
	}
}

func mustAcquire(t *testing.T, r *Router, id string) *Lease {
	t.Helper()
	l, err := r.Acquire(t.Context(), id)
	if err != nil {
		t.Fatalf("acquire %s: %v", id, err)
	}
	return l
}

// refused wants the code and, for what may pass, the time of a retry.
func refused(t *testing.T, err error, want problem.Code) {
	t.Helper()
	var coded *problem.Error
	if !errors.As(err, &coded) || coded.Code != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	if passes := want == problem.TenantUnavailable || want == problem.Unavailable; passes != (coded.RetryAfter > 0) {
		t.Errorf("%s with a retry after %v", want, coded.RetryAfter)
	}
}

// air is what a loaded machine may take beyond any bound.
const air = 30 * time.Second

// eventually waits for a condition that needs no more than the given time, on a machine that has any.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within + air)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// counter counts what goes over the wire to tenants' databases.
type counter struct {
	dials, queries atomic.Int64
}

func (c *counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.dials.Add(1)
	return dialPlain(ctx, network, address)
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// proxy stands between a router and a server. It can fall silent and refuse.
type proxy struct {
	listener net.Listener
	target   string
	accepted atomic.Int64
	work     sync.WaitGroup

	mu     sync.Mutex
	silent chan struct{} // closed while bytes pass
	refuse bool
	conns  map[net.Conn]bool
}

// newProxy returns a proxy and the address dsn has through it.
func newProxy(t *testing.T, dsn string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: u.Host, silent: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(p.silent)
	p.work.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.speak()
		p.cut()
		p.work.Wait()
	})
	u.Host = listener.Addr().String()
	return p, u.String()
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		p.work.Go(func() { p.pass(client) })
	}
}

func (p *proxy) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	p.work.Go(func() { p.copy(client, server) })
	p.copy(server, client)
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// copy passes bytes on, and nothing at all while the proxy is silent.
func (p *proxy) copy(dst, src net.Conn) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		p.mu.Lock()
		silent := p.silent
		p.mu.Unlock()
		<-silent
		if n > 0 {
			if _, failed := dst.Write(buf[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hush makes the proxy accept everything and answer nothing.
func (p *proxy) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = make(chan struct{})
}

// speak ends hush.
func (p *proxy) speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.silent:
	default:
		close(p.silent)
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) setRefuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}
