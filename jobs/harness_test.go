package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) {
	testkit.MainNoLeaks(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

const (
	acme    = "acme"
	product = "ledger"
	patient = time.Minute // the bound of everything that is waited for
)

// plant is everything a job needs, on real databases of its own.
type plant struct {
	t       testing.TB
	pool    *pgxpool.Pool
	control *control.DB
	tenants *tenant.Router
	conns   *connections.Service
	queue   *jobs.Queue
	service *jobs.Service
	runner  *extract.Runner
	drivers source.Drivers
	keys    *secret.Keyring
	dir     string
	source  testkit.Database
	sql     *pgxpool.Pool // of the source
	log     *slog.Logger
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newPlant makes a plant whose source database holds what the statements create, and registers it as "src".
func newPlant(t testing.TB, statements ...string) *plant {
	t.Helper()
	return newPlantOn(t, testkit.Postgres(t), statements...)
}

// newPlantOn is newPlant with our own databases on pg.
func newPlantOn(t testing.TB, pg *testkit.PG, statements ...string) *plant {
	t.Helper()
	ctx := t.Context()
	p := &plant{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() {
		p.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p.keys = must(secret.NewKeyring(secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{3}, 32)}))
	p.pool = p.open(pg.NewDatabase(t))
	if err := control.Migrate(ctx, p.pool); err != nil {
		t.Fatal(err)
	}
	p.control = control.New(p.pool)
	row := control.Tenant{ID: acme, DSNSealed: must(tenant.SealDSN(p.keys, acme, pg.NewDatabase(t)))}
	if err := p.control.CreateTenant(ctx, &row); err != nil {
		t.Fatal(err)
	}
	p.tenants = must(tenant.NewRouter(ctx, tenant.Options{Control: p.control, Keys: p.keys, AutoMigrate: true}))
	t.Cleanup(func() {
		if err := p.tenants.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p.source = testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	p.sql = p.open(p.source.DSN)
	for _, s := range statements {
		p.exec(s)
	}
	p.assemble()
	p.connect("src", product, p.source)
	return p
}

func (p *plant) assemble() {
	guard := must(dial.NewGuard(dial.Policy{AllowPrivate: true}))
	p.drivers = must(source.Observed(source.Drivers{source.PostgreSQL: postgres.New()}, noop.Meter{}))
	p.conns = must(connections.New(connections.Options{Keys: p.keys, Guard: guard, Drivers: p.drivers}))
	bucket := must(results.Open(p.t.Context(), "file://"+p.dir, p.keys, results.Options{}))
	p.t.Cleanup(func() { _ = bucket.Close() })
	p.runner = &extract.Runner{Drivers: p.drivers, Dialer: guard, Store: bucket}
	p.queue = must(jobs.NewQueue(p.pool, p.log))
	p.service = must(jobs.NewService(jobs.ServiceOptions{Queue: p.queue, Connections: p.conns, Keys: p.keys}))
}

func (p *plant) open(dsn string) *pgxpool.Pool {
	p.t.Helper()
	pool := must(pgxpool.New(p.t.Context(), dsn))
	p.t.Cleanup(pool.Close)
	return pool
}

// exec runs a statement on the source.
func (p *plant) exec(sql string) {
	p.t.Helper()
	if _, err := p.sql.Exec(context.Background(), sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// connect stores a connection of acme's.
func (p *plant) connect(name, product string, d testkit.Database) *store.Connection {
	p.t.Helper()
	kind, host := string(source.PostgreSQL), d.Host
	lease := p.lease()
	defer lease.Release()
	c, err := p.conns.Create(p.t.Context(), store.NewConnections(lease.DB(p.t.Context())), acme, product, connections.Input{
		ConfigName: &name, Kind: &kind, Host: &host, Port: &d.Port, DatabaseName: &d.Name, UserName: &d.Owner, Password: &d.Password,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *plant) lease() *tenant.Lease { return p.leaseOf(acme) }

// leaseOf returns a lease on a tenant's database, which takes long to open on a busy machine: it is migrated then.
func (p *plant) leaseOf(id string) (l *tenant.Lease) {
	p.t.Helper()
	var err error
	p.eventually(func() bool {
		l, err = p.tenants.Acquire(context.Background(), id)
		return problem.CodeOf(err) != problem.TenantUnavailable
	}, func() string { return fmt.Sprint(err) })
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// worker starts a worker, changed by the options, and stops it with the test.
func (p *plant) worker(change ...func(*jobs.WorkerOptions)) *jobs.Worker {
	p.t.Helper()
	o := p.options()
	for _, c := range change {
		c(&o)
	}
	w := must(jobs.NewWorker(o))
	if err := w.Start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			p.t.Error(err)
		}
	})
	return w
}

func (p *plant) options() jobs.WorkerOptions {
	return jobs.WorkerOptions{
		Pool: p.pool, Leases: p.control, Tenants: p.tenants, Connections: p.conns, Runner: p.runner, Keys: p.keys,
		RetryUnit: 20 * time.Millisecond, Grace: time.Second, Logger: p.log,
	}
}

// sweeper starts a sweeper that looks often.
func (p *plant) sweeper() {
	p.t.Helper()
	s := must(jobs.NewSweeper(jobs.SweeperOptions{
		Control: p.control, Queue: p.queue, Every: 50 * time.Millisecond, StrayAfter: time.Second, Logger: p.log,
	}))
	s.Start(p.t.Context())
	p.t.Cleanup(s.Stop)
}

// request makes a request for tables, fields separated by commas, of the datasource src.
func request(t testing.TB, filters string, tables ...string) jobs.Request {
	t.Helper()
	mapped := map[string]map[string][]string{"src": {}}
	for _, table := range tables {
		name, fields, ok := strings.Cut(table, ":")
		if !ok {
			fields = "*"
		}
		mapped["src"][name] = strings.Split(fields, ",")
	}
	return parse(t, string(must(json.Marshal(mapped))), filters)
}

// parse makes a request that differs from every other.
func parse(t testing.TB, mapped, filters string) jobs.Request {
	t.Helper()
	raw := jobs.Raw{
		DataRequest: &jobs.RawDataRequest{MappedFields: []byte(mapped)},
		Metadata:    fmt.Appendf(nil, `{"source": "Ledger", "n": "%s", "html": "<&>", "big": 1.00000000000000000001}`, uuid.NewString()),
	}
	if filters != "" {
		raw.DataRequest.Filters = []byte(filters)
	}
	r, err := jobs.ParseRequest(raw, jobs.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// submit creates a job.
func (p *plant) submit(req jobs.Request) uuid.UUID {
	p.t.Helper()
	l := p.lease()
	defer l.Release()
	job, duplicate, err := p.service.Submit(p.t.Context(), l, req)
	if err != nil || duplicate {
		p.t.Fatalf("submit: duplicate %t, %v", duplicate, err)
	}
	return job.ID
}

func (p *plant) rows(fn func(store.Jobs) error) error {
	l := p.lease()
	defer l.Release()
	return fn(store.NewJobs(l.DB(context.Background())))
}

func (p *plant) job(id uuid.UUID) *store.Job {
	p.t.Helper()
	var job *store.Job
	if err := p.rows(func(j store.Jobs) (err error) {
		job, err = j.Get(context.Background(), id)
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
	return job
}

// await waits until the job is as ok wants it.
func (p *plant) await(id uuid.UUID, ok func(*store.Job) bool) *store.Job {
	p.t.Helper()
	var job *store.Job
	p.eventually(func() bool {
		job = p.job(id)
		return ok(job)
	}, func() string { return fmt.Sprintf("job is %s, attempt %d", job.Status, job.Attempt) })
	return job
}

// eventually polls until ok, or fails with what state says.
func (p *plant) eventually(ok func() bool, state func() string) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patient)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			p.t.Fatalf("after %s: %s", patient, state())
		}
	}
}

func terminal(j *store.Job) bool { return j.Status.Terminal() }

// completed waits for the job's end, which must be a good one, and returns it with its document.
func (p *plant) completed(id uuid.UUID) (*store.Job, string) {
	p.t.Helper()
	job := p.await(id, terminal)
	if job.Status != store.JobCompleted {
		p.t.Fatalf("job failed: %s %s", *job.ErrorCode, *job.ErrorMessage)
	}
	doc, err := p.download(job)
	if err != nil {
		p.t.Fatal(err)
	}
	return job, doc
}

func (p *plant) download(job *store.Job) (string, error) {
	r, err := p.runner.Store.OpenReader(p.t.Context(), acme, results.Facts{
		Key: *job.ResultPath, SizeBytes: *job.ResultSizeBytes, SHA256: *job.ResultSHA256, HMAC: *job.ResultHMAC, KeyVersion: *job.ResultKeyVersion,
	})
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}

func (p *plant) events(id uuid.UUID) []store.Event {
	p.t.Helper()
	var events []store.Event
	if err := p.rows(func(j store.Jobs) (err error) {
		events, err = j.Events(context.Background(), id)
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
	return events
}

// files lists the objects, and what should not lie beside them.
func (p *plant) files() []string {
	p.t.Helper()
	var found []string
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed in this moment
			return nil
		}
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(p.dir, path)
			found = append(found, rel)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}

// entries counts queue entries by state.
func (p *plant) entries() map[string]int {
	p.t.Helper()
	rows := must(p.pool.Query(context.Background(), `SELECT state::text, count(*) FROM river_job GROUP BY 1`))
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var state string
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			p.t.Fatal(err)
		}
		counts[state] = n
	}
	return counts
}

// closedPort is an address where nobody listens.
func closedPort(t testing.TB) int {
	l := must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return must(strconv.Atoi(port))
}
