package rotation_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/rotation"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

const (
	acme     = "acme"
	password = "s3cret"
	hook     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ring(versions ...int) *secret.Keyring {
	keys := make([]secret.Key, 0, len(versions))
	for _, v := range versions {
		keys = append(keys, secret.Key{Version: v, Bytes: bytes.Repeat([]byte{byte(v)}, 32)})
	}
	return must(secret.NewKeyring(keys[0], keys[1:]...))
}

// process is the parts of one process that know a ring.
type process struct {
	keys    *secret.Keyring
	tenants *tenant.Router
	conns   *connections.Service
	once    *idempotency.Service
	store   *results.Store
	rotator *rotation.Rotator
}

type plant struct {
	t       *testing.T
	control *control.DB
	dir     string
}

func newPlant(t *testing.T) *plant {
	pool := must(pgxpool.New(t.Context(), testkit.Postgres(t).NewDatabase(t)))
	t.Cleanup(pool.Close)
	if err := control.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return &plant{t, control.New(pool), t.TempDir()}
}

// with is a process with the ring. The tenant is there.
func (p *plant) with(keys *secret.Keyring) *process {
	p.t.Helper()
	x := &process{keys: keys}
	x.tenants = must(tenant.NewRouter(p.t.Context(), tenant.Options{Control: p.control, Keys: keys, AutoMigrate: true}))
	p.t.Cleanup(func() {
		if err := x.tenants.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	guard := must(dial.NewGuard(dial.Policy{AllowPrivate: true}))
	x.conns = must(connections.New(connections.Options{Keys: keys, Guard: guard, Drivers: source.Drivers{source.PostgreSQL: postgres.New()}}))
	x.once = must(idempotency.New(keys))
	x.store = must(results.Open(p.t.Context(), "file://"+p.dir, keys, results.Options{}))
	p.t.Cleanup(func() { _ = x.store.Close() })
	x.rotator = &rotation.Rotator{Control: p.control, Tenants: x.tenants, Keys: keys, Store: x.store}
	return x
}

func (x *process) lease(t *testing.T) *tenant.Lease {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		l, err := x.tenants.Acquire(context.Background(), acme)
		if problem.CodeOf(err) == problem.TenantUnavailable && time.Now().Before(end) { // still being migrated
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// connect stores a connection with every kind of secret but the certificate's.
func (x *process) connect(t *testing.T, name string) uuid.UUID {
	t.Helper()
	l := x.lease(t)
	defer l.Release()
	kind, host, port, db, user, secretText := string(source.PostgreSQL), "db.example.com", 5432, "d", "u", password
	c, err := x.conns.Create(t.Context(), store.NewConnections(l.DB(t.Context())), acme, "ledger", connections.Input{
		ConfigName: &name, Kind: &kind, Host: &host, Port: &port, DatabaseName: &db, UserName: &user, Password: &secretText,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// opens makes sure that the process can read a connection.
func (x *process) opens(t *testing.T, id uuid.UUID) {
	t.Helper()
	l := x.lease(t)
	defer l.Release()
	c, err := store.NewConnections(l.DB(context.Background())).Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if params, err := x.conns.Params(acme, c); err != nil || params.Password != password {
		t.Errorf("connection: %v", err)
	}
}

// finish makes a completed job with a result.
func (x *process) finish(t *testing.T, n int) uuid.UUID {
	t.Helper()
	return x.complete(t, func(job string) results.Facts {
		return x.put(t, bytes.Repeat([]byte("x"), n), job+".json")
	})
}

// put stores an object among results.
func (x *process) put(t *testing.T, content []byte, segments ...string) results.Facts {
	t.Helper()
	w := must(x.store.Create(t.Context(), acme, x.store.Key(append([]string{acme, "external-data"}, segments...)...)))
	must(w.Write(content))
	return must(w.Commit(t.Context()))
}

// complete makes a completed job of what put stores for the id.
func (x *process) complete(t *testing.T, put func(job string) results.Facts) uuid.UUID {
	t.Helper()
	ctx := t.Context()
	l := x.lease(t)
	defer l.Release()
	rows := store.NewJobs(l.DB(ctx))
	job := &store.Job{ID: uuid.Must(uuid.NewV7()), RequestHash: uuid.NewString(), Metadata: []byte(`{}`), MappedFields: []byte(`{}`), Source: "ledger"}
	if _, err := rows.CreateOnce(ctx, job, 0, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	must(rows.Claim(ctx, job.ID, time.Now(), 5))
	f := put(job.ID.String())
	expires := time.Now().Add(time.Hour)
	facts := store.CompleteFacts{Path: f.Key, HMAC: f.HMAC, SHA256: f.SHA256, Format: "json", SizeBytes: f.SizeBytes, KeyVersion: f.KeyVersion, ExpiresAt: &expires}
	if err := rows.Complete(ctx, job.ID, 1, facts, store.Event{ID: job.ID.String(), Time: time.Now(), Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// downloads makes sure that the process can read a result.
func (x *process) downloads(t *testing.T, id uuid.UUID) error {
	t.Helper()
	l := x.lease(t)
	job, err := store.NewJobs(l.DB(context.Background())).Get(context.Background(), id)
	l.Release()
	if err != nil {
		return err
	}
	r, err := x.store.OpenReader(context.Background(), acme, results.Facts{
		Key: *job.ResultPath, SizeBytes: *job.ResultSizeBytes, SHA256: *job.ResultSHA256, HMAC: *job.ResultHMAC, KeyVersion: *job.ResultKeyVersion,
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// asks begins a request with a key; the second time the same request is answered as before.
func (x *process) asks(t *testing.T) (*store.Answer, error) {
	t.Helper()
	l := x.lease(t)
	defer l.Release()
	rows := store.NewIdempotency(l.DB(t.Context()))
	claim, answer, err := x.once.Begin(t.Context(), rows, idempotency.Request{Tenant: acme, Subject: "s", Operation: "o", Key: "k", Content: [][]byte{[]byte("c")}})
	if err != nil || answer != nil {
		return answer, err
	}
	return nil, claim.Record(t.Context(), rows, store.Answer{Status: 201})
}

// A rotation beside live traffic, stopped in the middle and run again, leaves nothing that needs the old key.
func TestRotate(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	old := ring(1)
	dsn := testkit.Postgres(t).NewDatabase(t)
	row := control.Tenant{ID: acme, DSNSealed: must(tenant.SealDSN(old, acme, dsn))}
	if err := p.control.CreateTenant(t.Context(), &row); err != nil {
		t.Fatal(err)
	}
	if err := p.control.SetWebhook(t.Context(), acme, must(events.SealWebhook(old, acme, events.Webhook{URL: "https://h.example.com", Secret: hook}))); err != nil {
		t.Fatal(err)
	}
	before := p.with(old)
	nobody := func(context.Context) ([]string, error) { return []string{acme}, nil }
	if missing := must(before.rotator.Missing(t.Context(), nobody)); len(missing) != 0 {
		t.Errorf("missing %+v", missing)
	}
	var conns, jobs []uuid.UUID
	for i := range 5 {
		conns = append(conns, before.connect(t, fmt.Sprint("conn_", i)))
		jobs = append(jobs, before.finish(t, 100_000*i))
	}
	must(before.asks(t))

	without := p.with(ring(2))
	want := []rotation.Unreadable{{Version: 1, Addresses: 1, Webhooks: 1, Unknown: 1}}
	if diff := cmp.Diff(want, must(without.rotator.Missing(t.Context(), nobody))); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if _, err := without.rotator.Registry(t.Context()); !errors.Is(err, secret.ErrUnknownKey) {
		t.Errorf("without the old key: %v", err)
	}

	during := p.with(ring(2, 1))
	if missing := must(during.rotator.Missing(t.Context(), nobody)); len(missing) != 0 {
		t.Errorf("missing %+v", missing)
	}
	stop := traffic(t, during, conns[0], jobs)
	stopped, cancel := context.WithCancel(t.Context())
	during.rotator.Tenants = &stopping{Router: during.tenants, after: 8, cancel: cancel}
	first, err := during.rotator.Tenant(stopped, acme)
	if err == nil || first.Results == len(jobs) {
		t.Fatalf("it was not stopped: %+v, %v", first, err)
	}
	during.rotator.Tenants = during.tenants
	second := must(during.rotator.Tenant(t.Context(), acme))
	registry := must(during.rotator.Registry(t.Context()))
	if registry.Registry != 2 || first.Results+second.Results < len(jobs) || second.Results == 0 {
		t.Errorf("registry %+v, first %+v, second %+v", registry, first, second)
	}
	stop()
	if third := must(during.rotator.Tenant(t.Context(), acme)); third != (rotation.Counts{}) {
		t.Errorf("a third time: %+v", third)
	}
	want = []rotation.Unreadable{{Version: 1}}
	if diff := cmp.Diff(want, must(p.with(ring(2)).rotator.Missing(t.Context(), nobody))); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if err := during.rotator.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}

	after := p.with(ring(2))
	if missing := must(after.rotator.Missing(t.Context(), nobody)); len(missing) != 0 {
		t.Errorf("missing %+v", missing)
	}
	for _, id := range conns {
		after.opens(t, id)
	}
	for _, id := range jobs {
		if err := after.downloads(t, id); err != nil {
			t.Errorf("result: %v", err)
		}
	}
	if answer, err := after.asks(t); err != nil || answer == nil || answer.Status != 201 {
		t.Errorf("answer %+v, %v", answer, err)
	}
	opened := must(events.OpenWebhook(after.keys, acme, must(p.control.Webhook(t.Context(), acme))))
	if opened.Secret != hook {
		t.Error("the webhook's secret has changed")
	}
}

// Of a result with an object per table every one opens without the old key. What a rotation that was killed left beside
// them does no harm.
func TestRotateTables(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	row := control.Tenant{ID: acme, DSNSealed: must(tenant.SealDSN(ring(1), acme, testkit.Postgres(t).NewDatabase(t)))}
	if err := p.control.CreateTenant(t.Context(), &row); err != nil {
		t.Fatal(err)
	}
	before := p.with(ring(1))
	var objects []results.Facts
	before.complete(t, func(job string) results.Facts {
		for i, name := range []string{"a%2Fb.csv.gz", "none.csv.gz"} {
			objects = append(objects, before.put(t, bytes.Repeat([]byte("x"), i*100_000), job, "src", name))
		}
		manifest := before.put(t, []byte("{}"), job, "manifest.json")
		objects = append(objects, manifest)
		return manifest
	})
	left := filepath.Join(p.dir, filepath.FromSlash(objects[0].Key))
	half := must(os.ReadFile(left))
	for name, content := range map[string][]byte{left + ".1.tmp": nil, left + ".2.tmp": half[:len(half)-1]} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	during := p.with(ring(2, 1))
	must(during.rotator.Registry(t.Context()))
	if got := must(during.rotator.Tenant(t.Context(), acme)); got != (rotation.Counts{Results: 1}) {
		t.Errorf("rotated %+v", got)
	}
	after := p.with(ring(2))
	for _, f := range objects {
		r, err := after.store.OpenReader(t.Context(), acme, f)
		if err != nil {
			t.Errorf("%s: %v", f.Key, err)
			continue
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != f.SizeBytes {
			t.Errorf("%s: %d bytes, %v", f.Key, n, err)
		}
		_ = r.Close()
	}
}

// stopping cancels after that many acquisitions.
type stopping struct {
	*tenant.Router

	mu     sync.Mutex
	after  int
	cancel context.CancelFunc
}

func (s *stopping) AcquireSuspended(ctx context.Context, id string) (*tenant.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after--; s.after == 0 {
		s.cancel()
	}
	return s.Router.AcquireSuspended(ctx, id)
}

// traffic changes a connection, reads it and downloads results until stop is called.
func traffic(t *testing.T, x *process, conn uuid.UUID, jobs []uuid.UUID) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			l := x.lease(t)
			_, err := store.NewConnections(l.DB(context.Background())).Change(context.Background(), conn, func(c *store.Connection) error {
				c.Port = 1 + i%60_000
				return nil
			})
			l.Release()
			if err != nil && problem.CodeOf(err) != problem.Unavailable {
				t.Errorf("change: %v", err)
			}
			x.opens(t, conn)
		}
	})
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := x.downloads(t, jobs[i%len(jobs)]); err != nil {
				t.Errorf("download: %v", err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func TestFingerprintIsOfItsScope(t *testing.T) {
	t.Parallel()
	keys := ring(2, 1)
	sum := sha256.Sum256([]byte("x"))
	if _, _, err := idempotency.Reencrypt(keys, acme, sum[:], []byte("nonsense")); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("got %v", err)
	}
}
