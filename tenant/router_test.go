package tenant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestEachTenantReachesItsOwnDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex", "550e8400-e29b-41d4-a716-446655440000")
	r := w.router(t, Options{})
	for id := range w.dsns {
		mustUse(t, r, id)
	}
	acme, globex := mustAcquire(t, r, "acme"), mustAcquire(t, r, "globex")
	defer acme.Release()
	defer globex.Release()
	if acme.TenantID() != "acme" || acme.Generation() == globex.Generation() || acme.Generation() == 0 {
		t.Errorf("tenant %s, generations %d and %d", acme.TenantID(), acme.Generation(), globex.Generation())
	}
	theirs, err := store.NewConnections(globex.DB(t.Context())).ByNames(t.Context(), []string{"globex"})
	if err != nil || len(theirs) != 1 {
		t.Fatal(theirs, err)
	}
	ours := store.NewConnections(acme.DB(t.Context()))
	_, foreign := ours.Get(t.Context(), theirs[0].ID)
	_, unknown := ours.Get(t.Context(), uuid.New())
	refused(t, foreign, problem.NotFoundInTenant)
	if diff := cmp.Diff(unknown, foreign); diff != "" {
		t.Errorf("another tenant's id and an unknown one differ: %s", diff)
	}
	upper := mustAcquire(t, r, "550E8400-E29B-41D4-A716-446655440000")
	defer upper.Release()
	if upper.TenantID() != "550e8400-e29b-41d4-a716-446655440000" {
		t.Errorf("tenant %s", upper.TenantID())
	}
	for _, id := range []string{"nobody", "ACME", "", "-", "a b", "acme\n", "a'; DROP TABLE tenants"} {
		_, err := r.Acquire(t.Context(), id)
		refused(t, err, problem.TenantUnknown)
	}
}

func TestLeaseOnAnOpenPoolDoesNoIO(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	var wire counter
	r := w.router(t, Options{Dial: wire.dial, QueryTracer: &wire})
	mustUse(t, r, "acme")
	asked := w.Control.Pool().Stat().AcquireCount()
	eventually(t, 10*time.Second, "the router's first look at the registry is over", func() bool {
		before := asked
		time.Sleep(300 * time.Millisecond)
		asked = w.Control.Pool().Stat().AcquireCount()
		return asked == before
	})
	dials, queries := wire.dials.Load(), wire.queries.Load()
	for range 1000 {
		mustAcquire(t, r, "acme").Release()
	}
	if d, q := wire.dials.Load()-dials, wire.queries.Load()-queries; d != 0 || q != 0 {
		t.Errorf("%d connections and %d statements", d, q)
	}
	if n := w.Control.Pool().Stat().AcquireCount() - asked; n != 0 {
		t.Errorf("%d questions to the registry", n)
	}
}

func TestReleasedLeaseIsOfNoUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{})
	l, other := mustAcquire(t, r, "acme"), mustAcquire(t, r, "acme")
	defer other.Release()
	l.Release()
	l.Release() // must not take the other's reference
	if _, err := name(t.Context(), l); !errors.Is(err, ErrReleased) {
		t.Errorf("after release: %v", err)
	}
	r.pools.unlink("acme", 1<<62)
	if got, err := name(t.Context(), other); got != "acme" {
		t.Errorf("the other lease: %q, %v", got, err)
	}
}

func TestLeaseTravelsInTheContext(t *testing.T) {
	t.Parallel()
	l := &Lease{}
	if got := FromContext(NewContext(t.Context(), l)); got != l {
		t.Errorf("got %v", got)
	}
	if got := FromContext(t.Context()); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestConcurrentMissesShareOneOpening(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	var wire counter
	r := w.router(t, Options{Dial: wire.dial})
	var (
		group       errgroup.Group
		start       = make(chan struct{})
		mu          sync.Mutex
		generations = map[uint64]int{}
	)
	for range 50 {
		group.Go(func() error {
			<-start
			l, err := r.Acquire(t.Context(), "acme")
			if err != nil {
				return err
			}
			defer l.Release()
			mu.Lock()
			defer mu.Unlock()
			generations[l.Generation()]++
			return nil
		})
	}
	close(start)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(generations) != 1 || wire.dials.Load() != 1 {
		t.Errorf("generations %v, %d connections", generations, wire.dials.Load())
	}
}

func TestFirstCallerLeavingDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	p, dsn := newProxy(t, w.dsns["acme"])
	if _, err := w.SetDSN(t.Context(), "acme", dsn); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{})
	p.hush()
	ctx, leave := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error {
		if _, err := r.Acquire(ctx, "acme"); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the one who left: %w", err)
		}
		return nil
	})
	accepted := p.accepted.Load()
	eventually(t, 5*time.Second, "the opening begins", func() bool { return p.accepted.Load() > accepted })
	group.Go(func() error {
		got, err := use(t.Context(), r, "acme")
		if err == nil && got != "acme" {
			err = errors.New(got)
		}
		return err
	})
	eventually(t, 5*time.Second, "two wait", func() bool {
		r.pools.mu.Lock()
		defer r.pools.mu.Unlock()
		for _, f := range r.pools.flights {
			return f.waiters == 2
		}
		return false
	})
	leave()
	time.AfterFunc(50*time.Millisecond, p.speak)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if linked, leased, _ := r.pools.counts(); linked != 1 || leased != 0 {
		t.Errorf("%d pools, %d leased", linked, leased)
	}
}

func TestEvictionUnderLoad(t *testing.T) {
	t.Parallel()
	ids := make([]string, 6)
	for i := range ids {
		ids[i] = fmt.Sprint("tenant-", i)
	}
	w := newWorld(t, ids...)
	const workers, rounds = 8, 60
	r := w.router(t, Options{MaxPools: 2, HardCap: workers + 2, MaxConns: 2})
	var group errgroup.Group
	for n := range workers {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for range rounds {
				id := ids[random.IntN(len(ids))]
				l, err := r.Acquire(t.Context(), id)
				if err != nil {
					return fmt.Errorf("acquire %s: %w", id, err)
				}
				for range 1 + random.IntN(2) {
					if got, err := name(t.Context(), l); err != nil || got != id {
						l.Release()
						return fmt.Errorf("tenant %s reached %q: %w", id, got, err)
					}
				}
				l.Release()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	linked, leased, draining := r.pools.counts()
	if linked > 2 || leased != 0 || draining != 0 {
		t.Errorf("%d pools, %d leased, %d draining", linked, leased, draining)
	}
	if l := mustAcquire(t, r, ids[0]); l.Generation() < 20 {
		t.Errorf("generation %d: hardly anything was evicted", l.Generation())
	} else {
		l.Release()
	}
}

func TestCapsWhenEveryPoolIsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c")
	r := w.router(t, Options{MaxPools: 1, HardCap: 2})
	a, b := mustAcquire(t, r, "a"), mustAcquire(t, r, "b")
	_, err := r.Acquire(t.Context(), "c")
	refused(t, err, problem.Unavailable)
	for id, l := range map[string]*Lease{"a": a, "b": b} {
		if got, err := name(t.Context(), l); got != id {
			t.Errorf("lease of %s: %q, %v", id, got, err)
		}
	}
	b.Release() // two are open and one is aimed at: b goes
	if linked, leased, draining := r.pools.counts(); linked != 1 || leased != 1 || draining != 0 {
		t.Errorf("%d pools, %d leased, %d draining", linked, leased, draining)
	}
	mustUse(t, r, "c")
	a.Release()
}

func TestIdlePoolsClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	r := w.router(t, Options{IdleTimeout: time.Second})
	mustUse(t, r, "acme")
	held := mustAcquire(t, r, "globex")
	eventually(t, 5*time.Second, "the idle pool closes, the leased one stays", func() bool {
		linked, leased, draining := r.pools.counts()
		return linked == 1 && leased == 1 && draining == 0
	})
	if got, err := name(t.Context(), held); got != "globex" {
		t.Errorf("%q, %v", got, err)
	}
	held.Release()
	mustUse(t, r, "acme")
}

func TestSuspensionReachesEveryRouterAndRunningWorkFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	first, second := w.router(t, Options{}), w.router(t, Options{})
	held := mustAcquire(t, first, "acme")
	generation := held.Generation()
	mustUse(t, second, "acme")
	if _, err := w.Suspend(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for i, r := range []*Router{first, second} {
		eventually(t, 5*time.Second, fmt.Sprint("router ", i, " refuses"), func() bool {
			_, err := use(t.Context(), r, "acme")
			return problem.CodeOf(err) == problem.TenantSuspended
		})
		mustUse(t, r, "globex")
		info, err := r.Info(t.Context(), "acme")
		if err != nil || !info.Suspended {
			t.Errorf("info %+v, %v", info, err)
		}
	}
	// More statements at once than connections are open.
	var group errgroup.Group
	for range 3 {
		group.Go(func() error {
			got, err := name(t.Context(), held)
			if err == nil && got != "acme" {
				err = errors.New(got)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if _, _, draining := first.pools.counts(); draining != 1 {
		t.Errorf("%d pools draining", draining)
	}
	held.Release()
	if _, _, draining := first.pools.counts(); draining != 0 {
		t.Errorf("%d pools draining", draining)
	}
	if _, err := w.Resume(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "served again", func() bool {
		l, err := first.Acquire(t.Context(), "acme")
		if err != nil {
			return false
		}
		defer l.Release()
		return l.Generation() > generation
	})
}

func TestRotationOpensANewPoolWhileTheOldOneFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{})
	// The new address is another database, so that it shows who reached which.
	moved := w.pg.NewDatabase(t)
	held := mustAcquire(t, r, "acme")
	if _, err := w.SetDSN(t.Context(), "acme", moved); err != nil {
		t.Fatal(err)
	}
	mark(t, moved, "acme-moved")
	eventually(t, 5*time.Second, "the new address is used", func() bool {
		got, err := use(t.Context(), r, "acme")
		return err == nil && got == "acme-moved"
	})
	if got, err := name(t.Context(), held); got != "acme" {
		t.Errorf("the request in flight: %q, %v", got, err)
	}
	held.Release()
}

func TestRemovedAndNewTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	_, err := r.Acquire(t.Context(), "late")
	refused(t, err, problem.TenantUnknown)
	w.add(t, "late") // known long before its ten seconds of being unknown are over
	eventually(t, 5*time.Second, "the new tenant is served", func() bool {
		got, err := use(t.Context(), r, "late")
		return err == nil && got == "late"
	})
	if _, err := w.Control.Pool().Exec(t.Context(), `DELETE FROM tenants WHERE id = 'acme'`); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the removed tenant is unknown", func() bool {
		_, err := use(t.Context(), r, "acme")
		return problem.CodeOf(err) == problem.TenantUnknown
	})
}

func TestRegistryDown(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	w := newWorldIn(t, server.PG, "acme", "globex")
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	server.Stop()
	err := within(t, answer, func() error { _, err := r.Acquire(t.Context(), "globex"); return err })
	refused(t, err, problem.TenantUnavailable)
	for range 20 {
		mustUse(t, r, "acme")
	}
	r.pools.unlink("acme", 1<<62) // evicted, it opens again from the cached record
	mustUse(t, r, "acme")
	server.Start()
	eventually(t, 10*time.Second, "the registry answers again", func() bool {
		_, err := w.Suspend(t.Context(), "acme")
		return err == nil
	})
	eventually(t, 5*time.Second, "changes arrive again", func() bool {
		_, err := use(t.Context(), r, "acme")
		return problem.CodeOf(err) == problem.TenantSuspended
	})
	mustUse(t, r, "globex")
}

func TestListenerComesBackByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	database := w.Control.Pool().Config().ConnConfig.Database
	listeners := func() (pids int) {
		row := w.Control.Pool().QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = $1 AND (query = 'LISTEN fetcher_tenants' OR query LIKE '-- ping%')`, database)
		if err := row.Scan(&pids); err != nil {
			t.Fatal(err)
		}
		return pids
	}
	eventually(t, 5*time.Second, "listening", func() bool { return listeners() == 1 })
	w.pg.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = '`+database+`' AND (query = 'LISTEN fetcher_tenants' OR query LIKE '-- ping%')`)
	// This one is told to nobody, most likely.
	if _, err := w.Suspend(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the missed change arrives", func() bool {
		_, err := use(t.Context(), r, "acme")
		return problem.CodeOf(err) == problem.TenantSuspended
	})
}

func TestRevisionIsReadAgainWithoutNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{CacheTTL: time.Second})
	mustUse(t, r, "acme")
	if _, err := w.Control.Pool().Exec(t.Context(), `
		DROP TRIGGER tenants_notify ON tenants;
		UPDATE tenants SET status = 'suspended'`); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the change is found", func() bool {
		_, err := use(t.Context(), r, "acme")
		return problem.CodeOf(err) == problem.TenantSuspended
	})
}

func TestMigrationAtFirstUse(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t).NewDatabase(t)
	strict := newRouter(t, Options{Single: &SingleTenant{DSN: dsn}})
	_, err := strict.Acquire(t.Context(), "default")
	refused(t, err, problem.TenantUnavailable)
	if !errors.Is(err, errOldSchema) {
		t.Errorf("got %v", err)
	}
	var group errgroup.Group
	for range 2 { // two processes meet
		r := newRouter(t, Options{Single: &SingleTenant{DSN: dsn}, AutoMigrate: true})
		group.Go(func() error {
			l, err := r.Acquire(t.Context(), "default")
			if err != nil {
				return err
			}
			defer l.Release()
			_, err = store.NewJobs(l.DB(t.Context())).Get(t.Context(), uuid.New())
			if problem.CodeOf(err) != problem.NotFoundInTenant {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestSingleTenantIsARegistryOfOne(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t).NewDatabase(t)
	if err := Migrate(t.Context(), "default", dsn); err != nil {
		t.Fatal(err)
	}
	mark(t, dsn, "default")
	r := newRouter(t, Options{Single: &SingleTenant{DSN: dsn}})
	mustUse(t, r, "default")
	_, err := r.Acquire(t.Context(), "acme")
	refused(t, err, problem.TenantUnknown)
	info, err := r.Info(t.Context(), "default")
	if diff := cmp.Diff(Info{ID: "default", Name: "default", Revision: 1}, info); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCloseWaitsForLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	r, err := NewRouter(t.Context(), Options{Control: w.Control, Keys: w.Keys})
	if err != nil {
		t.Fatal(err)
	}
	held := mustAcquire(t, r, "acme")
	mustUse(t, r, "globex")
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("closed under a lease: %v", err)
	}
	if got, err := name(t.Context(), held); got != "acme" {
		t.Errorf("the request in flight: %q, %v", got, err)
	}
	for _, id := range []string{"acme", "globex"} {
		_, err := r.Acquire(t.Context(), id)
		refused(t, err, problem.Unavailable)
	}
	held.Release()
	closed := make(chan struct{})
	go func() {
		r.work.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("not closed after the last lease")
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	single := &SingleTenant{DSN: "postgres://h/d"}
	w := newWorld(t)
	for name, o := range map[string]Options{
		"neither registry":   {},
		"both registries":    {Single: single, Control: w.Control, Keys: w.Keys},
		"no keys":            {Control: w.Control},
		"hard cap below cap": {Single: single, MaxPools: 3, HardCap: 2},
		"negative":           {Single: single, MaxConns: -1},
		"malformed id":       {Single: &SingleTenant{ID: "a b", DSN: single.DSN}},
	} {
		if r, err := NewRouter(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
			_ = r.Close(t.Context())
		}
	}
}
