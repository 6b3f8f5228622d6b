package tenant

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

var ignoreTimes = cmpopts.IgnoreFields(Readiness{}, "Latency", "Current", "Latest")

func TestReadinessWithAndWithoutAPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{MaxConns: 3})
	s, err := r.Readiness(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Readiness{TenantID: "acme", Breaker: "closed"}, s, ignoreTimes); diff != "" {
		t.Errorf("without a pool (-want +got):\n%s", diff)
	}
	if !s.Ready() || s.Current != s.Latest || s.Latest < 1 || s.Latency <= 0 {
		t.Errorf("%+v", s)
	}
	if linked, _, _ := r.pools.counts(); linked != 0 {
		t.Error("the look opened a pool")
	}
	l := mustAcquire(t, r, "acme")
	defer l.Release()
	hold(t, l, 1)
	want := Readiness{
		TenantID: "acme", Breaker: "closed", PoolOpen: true, Generation: l.Generation(), Open: 2, InUse: 1, Idle: 1, Limit: 3,
	}
	eventually(t, 5*time.Second, "the pool shows", func() bool {
		s, err = r.Readiness(t.Context(), "acme")
		return err == nil && s.PoolOpen
	})
	if diff := cmp.Diff(want, s, ignoreTimes, cmpopts.IgnoreFields(Readiness{}, "Waits")); diff != "" || !s.Ready() {
		t.Errorf("with a pool (-want +got):\n%s", diff)
	}
}

func TestReadinessOfTenantsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	empty := w.pg.NewDatabase(t)
	w.add(t, "behind")
	register(t, w, "behind", empty)
	w.add(t, "locked")
	register(t, w, "locked", withPassword(t, w.dsns["locked"], "wrong"))
	w.add(t, "astray")
	register(t, w, "astray", w.dsns["acme"])
	if _, err := w.Suspend(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{AutoMigrate: true})
	for _, id := range []string{"nobody", "a b"} {
		_, err := r.Readiness(t.Context(), id)
		refused(t, err, problem.TenantUnknown)
	}
	s, err := r.Readiness(t.Context(), "acme")
	if diff := cmp.Diff(Readiness{TenantID: "acme", Suspended: true}, s); diff != "" || err != nil || s.Ready() {
		t.Errorf("suspended: %v, %v", diff, err)
	}
	s, err = r.Readiness(t.Context(), "behind")
	if err != nil || s.Err != nil || s.Current != 0 || s.Latest < 1 || s.Ready() {
		t.Errorf("older schema: %+v, %v", s, err)
	}
	s, err = r.Readiness(t.Context(), "locked")
	if err != nil || s.Ready() || !store.Refused(s.Err) {
		t.Errorf("refused login: %+v, %v", s, err)
	}
	refused(t, s.Err, problem.TenantUnavailable)
	s, err = r.Readiness(t.Context(), "astray")
	if err != nil || s.Ready() || !errors.Is(s.Err, store.ErrForeign) {
		t.Errorf("another tenant's database: %+v, %v", s, err)
	}
	refused(t, s.Err, problem.TenantUnavailable)
}

func TestProbesAreSharedAndBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	var wire counter
	r := w.router(t, Options{Dial: wire.dial, MaxPools: 1, HardCap: 2})
	held := mustAcquire(t, r, "globex")
	dials := wire.dials.Load()
	began := time.Now()
	var group errgroup.Group
	for range 500 {
		group.Go(func() error {
			_, err := r.Readiness(t.Context(), "acme")
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	looks := wire.dials.Load() - dials
	if most := 1 + int64(time.Since(began)/checkTTL); looks < 1 || looks > most {
		t.Errorf("%d connections for 500 probes, at most %d", looks, most)
	}
	if got, err := name(t.Context(), held); got != "globex" {
		t.Errorf("the lease: %q, %v", got, err)
	}
	held.Release()
	if e := r.pools.peek("globex"); e == nil || e.generation != held.Generation() {
		t.Error("probing another tenant evicted the pool")
	} else {
		r.pools.unpeek(e)
	}
}

func TestReadinessOfASilentDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	p, dsn := newProxy(t, w.dsns["acme"])
	if _, err := w.SetDSN(t.Context(), "acme", dsn); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{})
	p.hush()
	var s Readiness
	err := within(t, checkTimeout, func() (err error) { s, err = r.Readiness(t.Context(), "acme"); return err })
	if err != nil || s.Ready() {
		t.Fatalf("%+v, %v", s, err)
	}
	refused(t, s.Err, problem.TenantUnavailable)
}

func TestProbesKeepNoPoolOpen(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t).NewDatabase(t)
	if err := Migrate(t.Context(), "default", dsn); err != nil {
		t.Fatal(err)
	}
	r := newRouter(t, Options{Single: &SingleTenant{DSN: dsn}, IdleTimeout: time.Second})
	mustAcquire(t, r, "default").Release()
	eventually(t, 10*time.Second, "the pool closes although it is probed", func() bool {
		if _, err := r.Readiness(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		linked, _, _ := r.pools.counts()
		return linked == 0
	})
}
