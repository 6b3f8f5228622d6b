package documents_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

func TestMain(m *testing.M) {
	testkit.MainNoLeaks(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

const (
	acme    = "acme"
	patient = time.Minute // the bound of everything that is waited for
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// tenants routes to databases of single tenants.
type tenants map[string]*tenant.Router

func (r tenants) Acquire(ctx context.Context, id string) (*tenant.Lease, error) {
	return r[id].Acquire(ctx, id)
}

// plant is a service with everything it needs: real databases, a real bucket, a TLS origin and a name server.
type plant struct {
	*documents.Service

	t       *testing.T
	tenants tenants
	origin  *webtest.Origin
	dns     *webtest.DNS
	dir     string
	keys    *secret.Keyring
	options documents.Options

	env    uuid.UUID // of acme
	source *store.Source
}

// newPlant returns a plant whose tenant acme has an environment, and in it a source for /docs of the origin.
func newPlant(t *testing.T, change ...func(*documents.Options)) *plant {
	t.Helper()
	return newPlantOn(t, testkit.Postgres(t).NewDatabase(t), change...)
}

func newPlantOn(t *testing.T, dsn string, change ...func(*documents.Options)) *plant {
	t.Helper()
	ca := webtest.NewCA(t)
	p := &plant{t: t, tenants: tenants{}, origin: webtest.NewOrigin(t, ca), dns: webtest.NewDNS(t), dir: t.TempDir()}
	p.dns.Set(webtest.Host, webtest.Addrs("127.0.0.1"))
	p.keys = must(secret.NewKeyring(secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{3}, 32)}))
	bucket := must(results.Open(t.Context(), "file://"+p.dir, p.keys, results.Options{}))
	t.Cleanup(func() { _ = bucket.Close() })
	p.options = documents.Options{
		Tenants: p.tenants, Content: bucket, AllowedPorts: []int{443, p.origin.Port()},
		Fetcher: must(fetch.New(fetch.Options{
			Policy: dial.Policy{Allow: []string{"127.0.0.0/8"}}, Resolver: p.dns.Resolver(), RootCAs: ca.Pool(),
			// Generous: a loaded machine is not what these tests are about.
			ConnectTimeout: patient, TLSTimeout: patient, HeaderTimeout: patient, Timeout: patient,
		})),
		FetchTime: patient, SlotWait: patient,
	}
	for _, c := range change {
		c(&p.options)
	}
	p.Service = must(documents.New(p.options))
	p.addTenant(acme, dsn)
	p.env = p.newEnvironment(acme)
	p.source = p.newSource(acme, p.env, "/docs")
	return p
}

func (p *plant) addTenant(id, dsn string) {
	p.t.Helper()
	router := must(tenant.NewRouter(p.t.Context(), tenant.Options{
		Single: &tenant.SingleTenant{ID: id, DSN: dsn}, AutoMigrate: true,
	}))
	p.t.Cleanup(func() {
		if err := router.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	p.tenants[id] = router
}

// lease takes a lease that ends with the test at the latest.
func (p *plant) lease(id string) *tenant.Lease {
	p.t.Helper()
	l, err := p.tenants.Acquire(context.Background(), id)
	if err != nil {
		p.t.Error(err)
		p.t.FailNow()
	}
	return l
}

// with runs fn with a lease on acme.
func with[T any](p *plant, fn func(*tenant.Lease) (T, error)) (T, error) {
	l := p.lease(acme)
	defer l.Release()
	return fn(l)
}

func (p *plant) db(fn func(*gorm.DB) error) {
	p.t.Helper()
	l := p.lease(acme)
	defer l.Release()
	if err := fn(l.DB(context.Background())); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plant) exec(sql string, args ...any) {
	p.t.Helper()
	p.db(func(db *gorm.DB) error { return db.Exec(sql, args...).Error })
}

// dbScan reads the rows of a query into to.
func dbScan(to any, sql string) func(*gorm.DB) error {
	return func(db *gorm.DB) error { return db.Raw(sql).Scan(to).Error }
}

func (p *plant) count(sql string, args ...any) (n int) {
	p.t.Helper()
	p.db(func(db *gorm.DB) error { return db.Raw(sql, args...).Scan(&n).Error })
	return n
}

var ann = documents.Caller{Subject: "o/ann", Account: "o/ann", Kind: "user"}

// once renders what was made as JSON, without a key unless one is given.
func once[T any](key ...uuid.UUID) documents.Once[T] {
	o := documents.Once[T]{Render: func(made T) (store.Answer, error) {
		body, err := json.Marshal(made)
		return store.Answer{Status: http.StatusOK, Body: body}, err
	}}
	if len(key) > 0 {
		o.Key = &key[0]
	}
	return o
}

// made reads what once rendered.
func made[T any](t *testing.T, r documents.Reply, err error) *T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(r.Body, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func (p *plant) newEnvironment(id string) uuid.UUID {
	p.t.Helper()
	l := p.lease(id)
	defer l.Release()
	r, err := p.CreateEnvironment(p.t.Context(), l, ann, "e", once[store.Environment]())
	return made[store.Environment](p.t, r, err).ID
}

func (p *plant) newSource(id string, env uuid.UUID, prefix string) *store.Source {
	p.t.Helper()
	l := p.lease(id)
	defer l.Release()
	in := documents.NewSource{Name: "s", Origin: p.origin.Base(), PathPrefix: prefix}
	r, err := p.CreateSource(p.t.Context(), l, env, ann, in, once[store.Source]())
	return made[store.Source](p.t, r, err)
}

// answer is what the tests' syncs are answered with.
type answer struct {
	Result documents.SyncResult
	Error  string
}

func rendered(status int, a answer) (store.Answer, error) {
	body, err := json.Marshal(a) //nolint:musttag // made reads it back
	return store.Answer{Status: status, Body: body}, err
}

// request asks for a path from acme's source, with a key and an object id of its own.
func (p *plant) request(path string) documents.SyncRequest {
	return documents.SyncRequest{
		EnvironmentID: p.env, SourceID: p.source.ID, URL: p.origin.URL(path), ObjectID: uuid.New(), Caller: ann, Key: uuid.New(),
		Render: func(r documents.SyncResult) (store.Answer, error) {
			return rendered(http.StatusOK, answer{Result: r})
		},
		RenderError: func(e *documents.Error) (store.Answer, error) {
			return rendered(e.Code.Info().Status, answer{Error: string(e.Code)})
		},
	}
}

// try sends a request of a tenant's.
func (p *plant) try(id string, in documents.SyncRequest) (documents.Reply, error) {
	l := p.lease(id)
	defer l.Release()
	return p.Sync(context.Background(), l, in)
}

// sync sends a request of acme's that must succeed anew.
func (p *plant) sync(in documents.SyncRequest) documents.SyncResult {
	p.t.Helper()
	r, err := p.try(acme, in)
	if err != nil {
		p.t.Fatalf("sync %s: %v", in.URL, err)
	}
	if r.Status != http.StatusOK || r.Replayed {
		p.t.Fatalf("status %d, replayed %t", r.Status, r.Replayed)
	}
	return made[answer](p.t, r, nil).Result
}

// refuse sends a request of acme's that must end with the code, and returns the error.
func (p *plant) refuse(in documents.SyncRequest, want documents.Code) *documents.Error {
	p.t.Helper()
	_, err := p.try(acme, in)
	return refused(p.t, err, want)
}

func refused(t *testing.T, err error, want documents.Code) *documents.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("it succeeded, want %s", want)
	}
	got := documents.AsError(err)
	if got.Code != want {
		t.Fatalf("%v, want %s", err, want)
	}
	return got
}

// outcome is how a sync that ran beside the test ended.
type outcome struct {
	reply documents.Reply
	err   error
}

// start sends a request beside the test.
func (p *plant) start(in documents.SyncRequest) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		reply, err := p.try(acme, in)
		done <- outcome{reply, err}
	}()
	return done
}

// gate is a page that is answered when the test says so.
type gate struct {
	t       *testing.T
	arrived chan struct{}
	bodies  chan string
	over    chan struct{}
}

// hold makes the path a gate. What is still waiting when the test ends is let go.
func (p *plant) hold(path string) *gate {
	g := &gate{t: p.t, arrived: make(chan struct{}, 100), bodies: make(chan string), over: make(chan struct{})}
	p.t.Cleanup(func() { close(g.over) })
	p.origin.Handle(path, g.serve)
	return g
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	g.arrived <- struct{}{}
	select {
	case body := <-g.bodies:
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
	case <-g.over:
	case <-r.Context().Done():
	}
}

// reached waits until a request is at the gate.
func (g *gate) reached() {
	g.t.Helper()
	receive(g.t, g.arrived)
}

// open answers one request.
func (g *gate) open(body string) {
	g.t.Helper()
	select {
	case g.bodies <- body:
	case <-time.After(patient):
		g.t.Fatal("nobody waits for the page")
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patient):
		t.Fatal("waited for too long")
		panic("unreachable")
	}
}

// download reads a version as a whole, checks it against its integrity and size, and returns it.
func (p *plant) download(env, object uuid.UUID, version int64) string {
	p.t.Helper()
	content, err := with(p, func(l *tenant.Lease) (*documents.Content, error) {
		return p.Content(p.t.Context(), l, env, object, version)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := content.Open(p.t.Context(), 0, content.Version.SizeBytes)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		p.t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != documents.Integrity(content.Version) {
		p.t.Errorf("version %d has digest %s, integrity %s", version, got, documents.Integrity(content.Version))
	}
	if int64(len(body)) != content.Version.SizeBytes {
		p.t.Errorf("version %d has %d bytes, size_bytes %d", version, len(body), content.Version.SizeBytes)
	}
	return string(body)
}

func (p *plant) fetchRow(id uuid.UUID) *store.Fetch {
	p.t.Helper()
	f, err := with(p, func(l *tenant.Lease) (*store.Fetch, error) {
		return p.Fetch(p.t.Context(), l, p.env, p.source.ID, id)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// requests counts those that the origin got for the path.
func (p *plant) requests(path string) (n int) {
	for _, r := range p.origin.Seen() {
		if r.Target == path {
			n++
		}
	}
	return n
}
