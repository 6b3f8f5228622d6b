package tenant

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

// within fails the test when fn takes longer than it may, and longer than a loaded machine explains.
func within(t *testing.T, limit time.Duration, fn func() error) error {
	t.Helper()
	began := time.Now()
	err := fn()
	if took := time.Since(began); took > limit+air {
		t.Errorf("took %v, at most %v are allowed: %v", took, limit, err)
	}
	return err
}

// answer is the bound of the specification.
const answer = 5 * time.Second

func TestSilentDatabaseFailsInTimeAndDisturbsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "good", "hung")
	p, dsn := newProxy(t, w.dsns["hung"])
	if _, err := w.SetDSN(t.Context(), "hung", dsn); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{BreakerFailures: 3, BreakerTimeout: 500 * time.Millisecond})
	p.hush()
	var group errgroup.Group
	for range 5 {
		group.Go(func() error {
			err := within(t, answer, func() error { _, err := r.Acquire(t.Context(), "hung"); return err })
			if problem.CodeOf(err) != problem.TenantUnavailable {
				return fmt.Errorf("silent database: %w", err)
			}
			return nil
		})
	}
	for range 20 {
		mustUse(t, r, "good")
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	// The failure is remembered: the next ones are told at once and dial nothing.
	accepted := p.accepted.Load()
	for range 10 {
		err := within(t, time.Second, func() error { _, err := r.Acquire(t.Context(), "hung"); return err })
		refused(t, err, problem.TenantUnavailable)
	}
	if n := p.accepted.Load() - accepted; n > 1 {
		t.Errorf("%d connections while backing off", n)
	}
	p.speak()
	eventually(t, 20*time.Second, "the tenant is served again", func() bool {
		got, err := use(t.Context(), r, "hung")
		return err == nil && got == "hung"
	})
}

func TestDatabaseThatFallsSilentUnderLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "good", "hung")
	p, dsn := newProxy(t, w.dsns["hung"])
	if _, err := w.SetDSN(t.Context(), "hung", dsn); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{MaxConns: 4, BreakerFailures: 3, BreakerTimeout: time.Second})
	mustUse(t, r, "hung")
	p.hush()
	// More than the pool has connections: some wait for a connection that then turns out useless.
	var group errgroup.Group
	for range 12 {
		group.Go(func() error {
			err := within(t, answer, func() error { _, err := use(t.Context(), r, "hung"); return err })
			if problem.CodeOf(err) != problem.TenantUnavailable {
				return fmt.Errorf("database fell silent: %w", err)
			}
			return nil
		})
	}
	for range 20 {
		mustUse(t, r, "good")
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	rec, err := r.resolver.get(t.Context(), "hung")
	if err != nil {
		t.Fatal(err)
	}
	if rec.health.well() {
		t.Error("the breaker is closed after 12 failures")
	}
	p.speak()
	eventually(t, 20*time.Second, "the breaker closes again", func() bool {
		got, err := use(t.Context(), r, "hung")
		return err == nil && got == "hung" && rec.health.state() == "closed"
	})
}

func TestLostConnectionsAreReplacedUnnoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	p, dsn := newProxy(t, w.dsns["acme"])
	if _, err := w.SetDSN(t.Context(), "acme", dsn); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	p.cut()
	time.Sleep(staleAfter + 100*time.Millisecond) // the bound under test: younger connections are taken as they are
	mustUse(t, r, "acme")
}

func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	p, dsn := newProxy(t, w.dsns["acme"])
	if _, err := w.SetDSN(t.Context(), "acme", dsn); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{BreakerFailures: 2, BreakerTimeout: time.Minute})
	p.setRefuse(true)
	eventually(t, 20*time.Second, "the breaker opens", func() bool {
		_, err := use(t.Context(), r, "acme")
		refused(t, err, problem.TenantUnavailable)
		return r.breaker(t, "acme") == "open"
	})
	// A changed record may be the cure, so its health starts anew.
	p.setRefuse(false)
	if _, err := w.SetDSN(t.Context(), "acme", dsn); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "served under the new record", func() bool {
		got, err := use(t.Context(), r, "acme")
		return err == nil && got == "acme"
	})
}

func (r *Router) breaker(t *testing.T, id string) string {
	t.Helper()
	rec, err := r.resolver.get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec.health.state()
}

func TestHostBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	r := w.router(t, Options{MaxConnsPerHost: 3, MaxConns: 3})
	acme := mustAcquire(t, r, "acme")
	free := hold(t, acme, 3)
	err := within(t, 2*time.Second+hostWait, func() error { _, err := r.Acquire(t.Context(), "globex"); return err })
	refused(t, err, problem.Unavailable)
	if r.breaker(t, "globex") != "closed" {
		t.Error("the budget counts against the tenant's database")
	}
	// A tenant may still use what it has.
	free()
	for range 5 {
		if got, err := name(t.Context(), acme); got != "acme" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	// All three are idle now, and acme's: they make way.
	mustUse(t, r, "globex")
	acme.Release()
	mustUse(t, r, "acme")
	address := hostOf(t, w.dsns["acme"])
	if n := r.budget.used(address); n < 1 || n > 3 {
		t.Errorf("%d connections to %s", n, address)
	}
}

// The test of a tenant's database that fails of our own budget says nothing about the database.
func TestHostBudgetDoesNotFailTheBreakersTest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	r := w.router(t, Options{MaxConnsPerHost: 3, MaxConns: 3, BreakerFailures: 1, BreakerTimeout: 10 * time.Millisecond})
	mustUse(t, r, "globex")
	rec, err := r.resolver.get(t.Context(), "globex")
	if err != nil {
		t.Fatal(err)
	}
	acme := mustAcquire(t, r, "acme")
	defer acme.Release()
	free := hold(t, acme, 3) // globex's idle one makes way
	rec.health.report(errSilent)
	eventually(t, 5*time.Second, "the breaker wants a test", func() bool { return rec.health.state() == "half-open" })
	forgive := func() {
		rec.health.mu.Lock()
		defer rec.health.mu.Unlock()
		rec.health.notUntil = time.Time{}
	}
	forgive()
	for range 2 {
		_, err = r.Acquire(t.Context(), "globex")
		refused(t, err, problem.Unavailable)
		if state := rec.health.state(); state != "half-open" {
			t.Errorf("the breaker is %s", state)
		}
	}
	free()
	mustUse(t, r, "globex")
	if state := rec.health.state(); state != "closed" {
		t.Errorf("the breaker is %s", state)
	}
}

// A guarded connection that listens hears what comes after a long silence, and is given up when it owes an answer.
func TestGuardControl(t *testing.T) {
	t.Parallel()
	p, dsn := newProxy(t, testkit.Postgres(t).NewDatabase(t))
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	const silence = 2 * time.Second // a loaded server answers within it
	GuardControl(cfg, 5*time.Second, silence)
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err = conn.Exec(t.Context(), "LISTEN news"); err != nil {
		t.Fatal(err)
	}
	speaker, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = speaker.Close(context.WithoutCancel(t.Context())) }()
	spoken := make(chan struct{})
	time.AfterFunc(silence+silence/4, func() {
		defer close(spoken)
		_, _ = speaker.Exec(context.WithoutCancel(t.Context()), "NOTIFY news, 'late'")
	})
	n, err := conn.WaitForNotification(t.Context())
	<-spoken // the connection is in use until then
	if err != nil || n.Payload != "late" {
		t.Fatalf("got %+v, %v", n, err)
	}
	p.hush()
	err = within(t, silence, func() error { return conn.Ping(t.Context()) })
	if !errors.Is(err, errSilent) || !control.Unavailable(err) {
		t.Errorf("a silent server: %v", err)
	}
	cfg.ConnectTimeout = silence
	err = within(t, silence, func() error {
		_, failed := pgx.ConnectConfig(t.Context(), cfg)
		return failed
	})
	if err == nil {
		t.Error("connected to a silent server")
	}
	p.speak()
}

func TestHostBudgetUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c", "d")
	const limit = 3
	r := w.router(t, Options{MaxConnsPerHost: limit, MaxConns: 2})
	var (
		group errgroup.Group
		mu    sync.Mutex
		good  = map[string]int{}
	)
	for _, id := range []string{"a", "b", "c", "d"} {
		for range 2 {
			group.Go(func() error {
				for range 30 {
					got, err := use(t.Context(), r, id)
					switch {
					case err == nil && got != id:
						return fmt.Errorf("tenant %s reached %s", id, got)
					case err == nil:
						mu.Lock()
						good[id]++
						mu.Unlock()
					case problem.CodeOf(err) != problem.Unavailable:
						return err
					}
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		if good[id] == 0 {
			t.Errorf("tenant %s was never served: %v", id, good)
		}
	}
}

// hold keeps n connections of the lease's pool in transactions until the returned function is called.
func hold(t *testing.T, l *Lease, n int) (free func()) {
	t.Helper()
	rollbacks := make([]func(), 0, n)
	for range n {
		tx := l.DB(t.Context()).Begin()
		if tx.Error != nil {
			t.Fatal(tx.Error)
		}
		rollbacks = append(rollbacks, func() { tx.Rollback() })
	}
	var once sync.Once
	free = func() {
		once.Do(func() {
			for _, rollback := range rollbacks {
				rollback()
			}
		})
	}
	t.Cleanup(free)
	return free
}

func hostOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestWaitForAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{MaxConns: 1})
	l := mustAcquire(t, r, "acme")
	defer l.Release()
	free := hold(t, l, 1)
	err := within(t, answer, func() error { _, err := name(t.Context(), l); return err })
	refused(t, err, problem.Unavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := name(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's own deadline: %v", err)
	}
	free()
	if got, err := name(t.Context(), l); got != "acme" {
		t.Errorf("%q, %v", got, err)
	}
	if r.breaker(t, "acme") != "closed" {
		t.Error("a busy pool counts against the database")
	}
}

func TestRegistryLimitsAPoolsConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dsns["small"] = w.pg.NewDatabase(t)
	if _, err := w.Create(t.Context(), NewTenant{ID: "small", DSN: w.dsns["small"], MaxConns: 2}); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{})
	l := mustAcquire(t, r, "small")
	defer l.Release()
	if got := l.entry.pool.pgx.Stat().MaxConns(); got != 2 {
		t.Errorf("%d connections", got)
	}
}

func TestRefusedLoginBacksOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	p, dsn := newProxy(t, w.dsns["acme"])
	wrong := withPassword(t, dsn, "canary-wrong")
	register(t, w, "acme", wrong)
	r := w.router(t, Options{})
	_, err := r.Acquire(t.Context(), "acme")
	refused(t, err, problem.TenantUnavailable)
	if !store.Refused(err) {
		t.Errorf("got %v", err)
	}
	for _, word := range []string{"canary", "127.0.0.1", "password"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("%q tells %q", err, word)
		}
	}
	accepted := p.accepted.Load()
	if accepted > 2 { // one login, perhaps once more without TLS
		t.Errorf("%d connections for one attempt", accepted)
	}
	for range 20 {
		_, err := r.Acquire(t.Context(), "acme")
		refused(t, err, problem.TenantUnavailable)
	}
	if n := p.accepted.Load() - accepted; n != 0 {
		t.Errorf("%d more logins were tried", n)
	}
	if _, err := w.SetDSN(t.Context(), "acme", dsn); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "served with the right password", func() bool {
		got, err := use(t.Context(), r, "acme")
		return err == nil && got == "acme"
	})
}

func TestRefusedLoginReloadsTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	register(t, w, "acme", withPassword(t, w.dsns["acme"], "old"))
	r := w.router(t, Options{})
	if _, err := r.Info(t.Context(), "acme"); err != nil { // caches the record
		t.Fatal(err)
	}
	// The rotation is told to nobody.
	if _, err := w.Control.Pool().Exec(t.Context(), "DROP TRIGGER tenants_notify ON tenants"); err != nil {
		t.Fatal(err)
	}
	register(t, w, "acme", w.dsns["acme"])
	mustUse(t, r, "acme")
}

// register stores an address without trying it.
func register(t *testing.T, w *world, id, dsn string) {
	t.Helper()
	sealed, err := SealDSN(w.Keys, id, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Control.SetTenantDSN(t.Context(), id, sealed); err != nil {
		t.Fatal(err)
	}
}

func withPassword(t *testing.T, dsn, password string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}

func TestUnusableRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "malformed", "foreign")
	register(t, w, "malformed", "postgres://canary:canary@[::1")
	// Another tenant's sealed address must not open.
	sealed, err := SealDSN(w.Keys, "malformed", w.dsns["malformed"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Control.SetTenantDSN(t.Context(), "foreign", sealed); err != nil {
		t.Fatal(err)
	}
	r := w.router(t, Options{})
	for _, id := range []string{"malformed", "foreign"} {
		_, err := r.Acquire(t.Context(), id)
		refused(t, err, problem.TenantUnavailable)
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %q tells the address", id, err)
		}
	}
}
