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

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// registered is how many tenants are in the registry.
const registered = 10_000

// fleet is a registry of many tenants, of which the first few have a database.
type fleet struct {
	db   *control.DB
	keys *secret.Keyring
	real []string
}

func newFleet(b *testing.B) *fleet {
	b.Helper()
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: make([]byte, 32)})
	check(b, err)
	pool, err := pgxpool.New(b.Context(), testkit.Postgres(b).NewDatabase(b))
	check(b, err)
	b.Cleanup(pool.Close)
	check(b, control.Migrate(b.Context(), pool))
	f := &fleet{db: control.New(pool), keys: keys}
	admin := tenant.Admin{Control: f.db, Keys: keys}
	for i := range 4 {
		id := fmt.Sprintf("real%d", i)
		_, err = admin.Create(b.Context(), tenant.NewTenant{ID: id, DSN: testkit.Postgres(b).NewDatabase(b)})
		check(b, err)
		f.real = append(f.real, id)
	}
	_, err = pool.Exec(b.Context(), `INSERT INTO tenants (id, name, dsn_sealed)
		SELECT 'tenant' || g, 'Tenant ' || g, dsn_sealed FROM generate_series(1, $1) g, tenants WHERE id = 'real0'`, registered)
	check(b, err)
	return f
}

func (f *fleet) router(b *testing.B, o tenant.Options) *tenant.Router {
	b.Helper()
	o.Control, o.Keys = f.db, f.keys
	r, err := tenant.NewRouter(b.Context(), o)
	check(b, err)
	b.Cleanup(func() { check(b, r.Close(context.WithoutCancel(b.Context()))) })
	return r
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTenantRegistry resolves 10,000 tenants on one process: what a look-up that is remembered costs, what one costs
// that asks the registry, and the memory that a remembered tenant takes. A flood of unknown ids follows.
func BenchmarkTenantRegistry(b *testing.B) {
	f := newFleet(b)
	for b.Loop() {
		r := f.router(b, tenant.Options{MaxPools: 100})
		before := heap()
		miss := perOperation(registered, func(i int) { info(b, r, i) })
		b.ReportMetric(float64(heap()-before)/registered, "B/tenant")
		b.ReportMetric(float64(miss.Nanoseconds()), "ns/miss")
		b.ReportMetric(float64(perOperation(registered, func(i int) { info(b, r, i) }).Nanoseconds()), "ns/hit")
		before = heap()
		flood := perOperation(50_000, func(i int) { _, _ = r.Info(b.Context(), fmt.Sprint("unknown", i)) })
		b.ReportMetric(float64(flood.Nanoseconds()), "ns/unknown")
		b.ReportMetric(float64(heap()-before)/50_000, "B/unknown")
	}
}

func info(b *testing.B, r *tenant.Router, i int) {
	if _, err := r.Info(b.Context(), fmt.Sprint("tenant", i+1)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTenantPool measures a lease of an open pool, and one that has to open it because the cap is below the number of
// tenants in use.
func BenchmarkTenantPool(b *testing.B) {
	f := newFleet(b)
	for b.Loop() {
		open, closed := f.router(b, tenant.Options{}), f.router(b, tenant.Options{MaxPools: 1})
		lease(b, open, f.real[0])
		b.ReportMetric(float64(perOperation(1_000_000, func(int) { lease(b, open, f.real[0]) }).Nanoseconds()), "ns/lease")
		b.ReportMetric(float64(perOperation(200, func(i int) { lease(b, closed, f.real[i%2]) }).Nanoseconds()), "ns/opening")
	}
}

func lease(b *testing.B, r *tenant.Router, id string) {
	l, err := r.Acquire(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	l.Release()
}

// BenchmarkHungTenant has four clients use three tenants, first alone, then while others ask for a tenant whose database
// accepts connections and never answers. It reports the p99 of the three in both times, and their ratio.
func BenchmarkHungTenant(b *testing.B) {
	f := newFleet(b)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	defer silent.Close()
	go swallow(silent)
	hung := url.URL{Scheme: "postgres", User: url.UserPassword("u", "p"), Host: silent.Addr().String(), Path: "/d", RawQuery: "sslmode=disable"}
	sealed, err := tenant.SealDSN(f.keys, "hung", hung.String())
	check(b, err)
	check(b, f.db.CreateTenant(b.Context(), &control.Tenant{ID: "hung", DSNSealed: sealed}))
	for b.Loop() {
		r := f.router(b, tenant.Options{})
		var before, during []float64
		for range rounds {
			before = append(before, f.p99(b, r))
			stop := f.besiege(b, r)
			during = append(during, f.p99(b, r))
			stop()
		}
		b.ReportMetric(median(before), "p99-before-µs")
		b.ReportMetric(median(during), "p99-during-µs")
		b.ReportMetric(median(during)/median(before), "ratio")
	}
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
func (f *fleet) besiege(b *testing.B, r *tenant.Router) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
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
func (f *fleet) p99(b *testing.B, r *tenant.Router) float64 {
	const clients, each = 4, 3000
	took := make([][]float64, clients)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for n := range each {
				began := time.Now()
				l, err := r.Acquire(b.Context(), f.real[(c+n)%3])
				if err != nil {
					b.Error(err)
					return
				}
				if err := l.DB(b.Context()).Exec("SELECT 1").Error; err != nil {
					b.Error(err)
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

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
