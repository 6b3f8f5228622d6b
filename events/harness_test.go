package events_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

const (
	acme    = "acme"
	patient = time.Minute // the bound of everything that is waited for
)

// plant is a control database and tenants with outboxes.
type plant struct {
	t       testing.TB
	control *control.DB
	tenants *tenant.Router
	keys    *secret.Keyring
	pools   map[string]*pgxpool.Pool // of the tenants' databases
	log     *slog.Logger
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newPlant(t testing.TB, ids ...string) *plant {
	t.Helper()
	pg := testkit.Postgres(t)
	p := &plant{t: t, pools: map[string]*pgxpool.Pool{}, log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() {
		p.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p.keys = must(secret.NewKeyring(secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{3}, 32)}))
	pool := p.open(pg.NewDatabase(t))
	if err := control.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	p.control = control.New(pool)
	for _, id := range ids {
		dsn := pg.NewDatabase(t)
		row := control.Tenant{ID: id, DSNSealed: must(tenant.SealDSN(p.keys, id, dsn))}
		if err := p.control.CreateTenant(t.Context(), &row); err != nil {
			t.Fatal(err)
		}
		p.pools[id] = p.open(dsn)
	}
	p.tenants = must(tenant.NewRouter(t.Context(), tenant.Options{Control: p.control, Keys: p.keys, AutoMigrate: true}))
	t.Cleanup(func() {
		if err := p.tenants.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *plant) open(dsn string) *pgxpool.Pool {
	pool := must(pgxpool.New(p.t.Context(), dsn))
	p.t.Cleanup(pool.Close)
	return pool
}

// end makes a job that fails, with its event, and marks the tenant as the end of its lease would.
func (p *plant) end(id string) uuid.UUID {
	p.t.Helper()
	job := p.endUnmarked(id)
	if err := p.control.MarkEvents(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
	return job
}

func (p *plant) endUnmarked(id string) uuid.UUID {
	p.t.Helper()
	ctx := p.t.Context()
	var lease *tenant.Lease
	var err error
	p.eventually("the database is open", func() bool { // which takes long on a busy machine: it is migrated then
		lease, err = p.tenants.AcquireSuspended(ctx, id)
		return problem.CodeOf(err) != problem.TenantUnavailable
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer lease.Release()
	rows := store.NewJobs(lease.DB(ctx))
	job := &store.Job{
		ID: uuid.Must(uuid.NewV7()), RequestHash: uuid.NewString(), Metadata: []byte(`{"source": "ledger", "note": "<&>"}`), MappedFields: []byte(`{}`),
		Source: "ledger",
	}
	if _, err := rows.CreateOnce(ctx, job, 0, func(context.Context) error { return nil }); err != nil {
		p.t.Fatal(err)
	}
	at := time.Date(2026, 2, 3, 4, 5, 6, 120_000_000, time.UTC)
	ev := store.Event{
		ID: "fetcher.job.failed." + job.ID.String(), Type: "fetcher.job.failed", Time: at,
		Data:  fmt.Appendf(nil, `{"jobId":%q,"status":"failed","metadata":{"note": "<&>"},"error":{"code":"FET-1025","message":"the job was canceled"}}`, job.ID),
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if err := rows.Fail(ctx, job.ID, 0, store.Failure{Code: "FET-1025", Message: "the job was canceled"}, ev); err != nil {
		p.t.Fatal(err)
	}
	return job.ID
}

// dispatcher starts a dispatcher, changed by the options, and stops it with the test.
func (p *plant) dispatcher(change ...func(*events.Options)) *events.Dispatcher {
	p.t.Helper()
	o := events.Options{
		Marks: p.control, Tenants: p.tenants, Keys: p.keys, Guard: must(dial.NewGuard(dial.Policy{AllowPrivate: true})),
		Every: 20 * time.Millisecond, RetryUnit: 10 * time.Millisecond, Logger: p.log,
	}
	for _, c := range change {
		c(&o)
	}
	d := must(events.New(o))
	d.Start(p.t.Context())
	p.t.Cleanup(func() {
		if err := d.Stop(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	return d
}

// exec runs a statement on the tenant's database.
func (p *plant) exec(id, sql string, args ...any) {
	p.t.Helper()
	if _, err := p.pools[id].Exec(context.Background(), sql, args...); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// count is the number that a query on the tenant's database gives.
func (p *plant) count(id, sql string) (n int) {
	p.t.Helper()
	if err := p.pools[id].QueryRow(context.Background(), sql).Scan(&n); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

const published = `SELECT count(*) FROM outbox_events WHERE published_at IS NOT NULL`

// eventually polls until ok.
func (p *plant) eventually(what string, ok func() bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patient)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			p.t.Fatalf("not within %s: %s", patient, what)
		}
	}
}

// receiver is a webhook receiver with TLS that answers as told.
type receiver struct {
	server *httptest.Server

	mu     sync.Mutex
	status int
	header http.Header
	got    []request
	seen   int // requests, refused ones included
}

type request struct {
	header http.Header
	body   string
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{status: http.StatusNoContent}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen++
		if r.status < 300 {
			r.got = append(r.got, request{req.Header, string(body)})
		}
		maps.Copy(w.Header(), r.header)
		w.WriteHeader(r.status)
	}))
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.got...)
}

func (r *receiver) attempts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// trust makes a dispatcher trust the receiver's certificate.
func (r *receiver) trust(o *events.Options) {
	roots := x509.NewCertPool()
	roots.AddCert(r.server.Certificate())
	o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hook registers the receiver as the tenant's webhook.
func (p *plant) hook(id string, r *receiver) {
	p.t.Helper()
	sealed := must(events.SealWebhook(p.keys, id, events.Webhook{URL: r.server.URL + "/hook?a=b", Secret: hookSecret}))
	if err := p.control.SetWebhook(p.t.Context(), id, sealed); err != nil {
		p.t.Fatal(err)
	}
}

// broker is a transport that a test breaks and mends.
type broker struct {
	mu    sync.Mutex
	err   error
	taken []events.Message
}

func (*broker) Name() string { return "rabbit" }

func (b *broker) Publish(_ context.Context, m *events.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	b.taken = append(b.taken, *m)
	return nil
}

func (b *broker) Check(context.Context) error { return nil }
func (b *broker) Close(context.Context) error { return nil }

func (b *broker) messages() []events.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]events.Message(nil), b.taken...)
}
