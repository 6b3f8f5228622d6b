package bench

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/embedded"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// fleet is a registry of many tenants, of which the first few have a database.
type fleet struct {
	db   *control.DB
	keys *secret.Keyring
	real []string
}

func newFleet(t testing.TB, registered int) *fleet {
	t.Helper()
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: make([]byte, 32)})
	check(t, err)
	pool, err := pgxpool.New(t.Context(), testkit.Postgres(t).NewDatabase(t))
	check(t, err)
	t.Cleanup(pool.Close)
	check(t, control.Migrate(t.Context(), pool))
	f := &fleet{db: control.New(pool), keys: keys}
	admin := tenant.Admin{Control: f.db, Keys: keys}
	for i := range 4 {
		id := fmt.Sprintf("real%d", i)
		_, err = admin.Create(t.Context(), tenant.NewTenant{ID: id, DSN: testkit.Postgres(t).NewDatabase(t)})
		check(t, err)
		f.real = append(f.real, id)
	}
	_, err = pool.Exec(t.Context(), `INSERT INTO tenants (id, name, dsn_sealed)
		SELECT 'tenant' || g, 'Tenant ' || g, dsn_sealed FROM generate_series(1, $1) g, tenants WHERE id = 'real0'`, registered)
	check(t, err)
	return f
}

func (f *fleet) router(t testing.TB, o tenant.Options) *tenant.Router {
	t.Helper()
	o.Control, o.Keys = f.db, f.keys
	r, err := tenant.NewRouter(t.Context(), o)
	check(t, err)
	t.Cleanup(func() { check(t, r.Close(context.WithoutCancel(t.Context()))) })
	return r
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tenantsSuite resolves tenants on one process: what a look-up that is remembered costs, one that asks the registry, one of
// an id that is unknown, the memory each takes, and leases of pools that are open or not.
func tenantsSuite(t *testing.T, s *section) {
	registered := s.world.size(10_000, 100)
	f := newFleet(t, registered)
	for n := min(10, registered); n <= registered; n *= 10 {
		s.measure(t, measurement{
			name:    fmt.Sprintf("look-ups of %s tenants", digits(float64(n))),
			figures: []figure{{"asking the registry", "µs", bound{}}, {"remembered", "µs", bound{}}},
			product: func(t *testing.T) []float64 {
				r := f.router(t, tenant.Options{})
				miss := perOperation(n, func(i int) { info(t, r, i) })
				return []float64{micros(miss), micros(perOperation(max(n, 10_000), func(i int) { info(t, r, i%n) }))}
			},
		})
	}
	s.measure(t, measurement{
		name: "memory", figures: []figure{{"of a remembered tenant", "B", bound{}}, {"of an unknown id", "B", bound{}}},
		product: func(t *testing.T) []float64 {
			r, unknown := f.router(t, tenant.Options{}), s.world.size(50_000, 1000)
			before := heap()
			perOperation(registered, func(i int) { info(t, r, i) })
			known := heap() - before
			before = heap()
			perOperation(unknown, func(i int) { _, _ = r.Info(t.Context(), fmt.Sprint("unknown", i)) })
			flood := heap() - before
			_, err := r.Info(t.Context(), "tenant1") // keeps the router alive until here
			check(t, err)
			return []float64{max(1, float64(known)/float64(registered)), max(1, float64(flood)/float64(unknown))}
		},
	})
	open, closed := f.router(t, tenant.Options{}), f.router(t, tenant.Options{MaxPools: 1})
	lease(t, open, f.real[0])
	s.measure(t, measurement{
		name: "lease", figures: []figure{{"of an open pool", "µs", bound{}}, {"that opens the pool", "µs", bound{}}},
		product: func(t *testing.T) []float64 {
			return []float64{
				micros(perOperation(s.world.size(500_000, 1000), func(int) { lease(t, open, f.real[0]) })),
				micros(perOperation(s.world.size(200, 10), func(i int) { lease(t, closed, f.real[i%2]) })),
			}
		},
	})
	hungTenant(t, s, f)
}

func info(t testing.TB, r *tenant.Router, i int) {
	if _, err := r.Info(t.Context(), fmt.Sprint("tenant", i+1)); err != nil {
		t.Fatal(err)
	}
}

func lease(t testing.TB, r *tenant.Router, id string) {
	l, err := r.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}

// hungTenant has four clients use three tenants while others ask for a tenant whose database accepts connections and never
// answers; the reference is the same without those.
func hungTenant(t *testing.T, s *section, f *fleet) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer silent.Close()
	go swallow(silent)
	hung := url.URL{Scheme: "postgres", User: url.UserPassword("u", "p"), Host: silent.Addr().String(), Path: "/d", RawQuery: "sslmode=disable"}
	sealed, err := tenant.SealDSN(f.keys, "hung", hung.String())
	check(t, err)
	check(t, f.db.CreateTenant(t.Context(), &control.Tenant{ID: "hung", DSNSealed: sealed}))
	r, each := f.router(t, tenant.Options{}), s.world.size(3000, 50)
	s.measure(t, measurement{
		name: "three tenants beside a fourth that hangs", against: "without it", figures: []figure{{"p99", "µs", bound{}}},
		product: func(t *testing.T) []float64 {
			defer f.besiege(t, r)()
			return []float64{f.p99(t, r, each)}
		},
		reference: func(t *testing.T) []float64 { return []float64{f.p99(t, r, each)} },
	})
}

func swallow(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
	}
}

// besiege asks for the hung tenant from eight clients until stop.
func (f *fleet) besiege(t testing.TB, r *tenant.Router) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if l, err := r.Acquire(ctx, "hung"); err == nil {
					l.Release()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
	}
}

// p99 is that of a lease with one statement, in microseconds.
func (f *fleet) p99(t testing.TB, r *tenant.Router, each int) float64 {
	const clients = 4
	took := make([][]float64, clients)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for n := range each {
				began := time.Now()
				l, err := r.Acquire(t.Context(), f.real[(c+n)%3])
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.DB(t.Context()).Exec("SELECT 1").Error; err != nil {
					t.Error(err)
				}
				l.Release()
				took[c] = append(took[c], float64(time.Since(began).Microseconds()))
			}
		})
	}
	group.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return all[len(all)*99/100]
}

func perOperation(n int, do func(i int)) time.Duration {
	began := time.Now()
	for i := range n {
		do(i)
	}
	return time.Since(began) / time.Duration(n)
}

func micros(d time.Duration) float64 { return max(0.001, float64(d.Nanoseconds())/1000) }

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// manyConnections is a server of its own that takes n of them.
func manyConnections(t *testing.T, n int) *pgxpool.Pool {
	t.Helper()
	server, err := embedded.StartPostgres(t.Context(), embedded.PostgresOptions{Dir: t.TempDir() + "/postgres", MaxConnections: n, Unsafe: true, NoDownload: true})
	check(t, err)
	t.Cleanup(func() { check(t, server.Stop(context.WithoutCancel(t.Context()))) })
	pool, err := pgxpool.New(t.Context(), server.DSN("postgres"))
	check(t, err)
	t.Cleanup(pool.Close)
	return pool
}
