package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func newPool(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// newDB returns a migrated control database.
func newDB(t *testing.T) *control.DB {
	t.Helper()
	pool := newPool(t, testkit.Postgres(t).NewDatabase(t))
	if err := control.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return control.New(pool)
}

func TestMigrateIsIdempotentAndSafeConcurrently(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t).NewDatabase(t)
	var group errgroup.Group
	for range 4 {
		pool := newPool(t, dsn)
		group.Go(func() error { return control.Migrate(t.Context(), pool) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, dsn)
	if err := control.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	current, latest, err := control.Version(t.Context(), pool)
	if err != nil || current != latest || latest < 1 {
		t.Fatalf("version %d of %d, %v", current, latest, err)
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	if _, err := db.GetTenant(ctx, "acme"); !errors.Is(err, control.ErrNoTenant) {
		t.Fatalf("unknown: %v", err)
	}
	acme := control.Tenant{ID: "acme", Name: "Acme & Söhne", DSNSealed: []byte{1, 0, 2}, MaxConns: 3, MaxRunningJobs: 4, RateLimit: 1.5}
	given := acme
	if err := db.CreateTenant(ctx, &acme); err != nil {
		t.Fatal(err)
	}
	given.Status = control.TenantActive
	if diff := cmp.Diff(given, acme, cmpopts.IgnoreFields(control.Tenant{}, "Revision", "CreatedAt", "UpdatedAt")); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if acme.Revision < 1 || acme.CreatedAt.IsZero() || acme.CreatedAt.Location() != time.UTC {
		t.Errorf("revision %d, created %v", acme.Revision, acme.CreatedAt)
	}
	if err := db.CreateTenant(ctx, &control.Tenant{ID: "acme", DSNSealed: []byte{9}}); !errors.Is(err, control.ErrTenantExists) {
		t.Fatalf("same id: %v", err)
	}
	if err := db.CreateTenant(ctx, &control.Tenant{ID: "-acme", DSNSealed: []byte{9}}); err == nil {
		t.Fatal("a malformed id was accepted")
	}
	zoo := control.Tenant{ID: "Zoo", DSNSealed: []byte{2}, Status: control.TenantSuspended}
	if err := db.CreateTenant(ctx, &zoo); err != nil {
		t.Fatal(err)
	}
	list, err := db.ListTenants(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]control.Tenant{zoo, acme}, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	got, err := db.GetTenant(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(acme, got); diff != "" {
		t.Errorf("get (-want +got):\n%s", diff)
	}
}

func TestEveryChangeRaisesTheRevision(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	acme := control.Tenant{ID: "acme", DSNSealed: []byte{1}}
	if err := db.CreateTenant(ctx, &acme); err != nil {
		t.Fatal(err)
	}
	last := acme
	step := func(name string, change func() (control.Tenant, error), set func(*control.Tenant)) {
		t.Helper()
		got, err := change()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Revision <= last.Revision || got.UpdatedAt.Before(last.UpdatedAt) {
			t.Errorf("%s: revision %d after %d, updated %v after %v", name, got.Revision, last.Revision, got.UpdatedAt, last.UpdatedAt)
		}
		want := last
		want.Revision, want.UpdatedAt = got.Revision, got.UpdatedAt
		set(&want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		last = got
	}
	step("suspend", func() (control.Tenant, error) { return db.SetTenantStatus(ctx, "acme", control.TenantSuspended) },
		func(w *control.Tenant) { w.Status = control.TenantSuspended })
	step("dsn", func() (control.Tenant, error) { return db.SetTenantDSN(ctx, "acme", []byte{7}) },
		func(w *control.Tenant) { w.DSNSealed = []byte{7} })

	remove(t, db, "acme")
	again := control.Tenant{ID: "acme", DSNSealed: []byte{1}}
	if err := db.CreateTenant(ctx, &again); err != nil {
		t.Fatal(err)
	}
	if again.Revision <= last.Revision {
		t.Errorf("created anew with revision %d after %d", again.Revision, last.Revision)
	}
	for name, err := range map[string]error{
		"status": second(db.SetTenantStatus(ctx, "nobody", control.TenantActive)),
		"dsn":    second(db.SetTenantDSN(ctx, "nobody", []byte{1})),
	} {
		if !errors.Is(err, control.ErrNoTenant) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
}

func second(_ control.Tenant, err error) error { return err }

// remove takes a tenant out of the registry, as only an operator can.
func remove(t *testing.T, db *control.DB, id string) {
	t.Helper()
	if _, err := db.Pool().Exec(t.Context(), `DELETE FROM tenants WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
}

func TestChangedTenants(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	known := map[string]int64{"gone": 1}
	for _, id := range []string{"same", "changed", "not-asked-for"} {
		c := control.Tenant{ID: id, DSNSealed: []byte{1}}
		if err := db.CreateTenant(ctx, &c); err != nil {
			t.Fatal(err)
		}
		if id != "not-asked-for" {
			known[id] = c.Revision
		}
	}
	want, err := db.SetTenantStatus(ctx, "changed", control.TenantSuspended)
	if err != nil {
		t.Fatal(err)
	}
	changed, gone, err := db.ChangedTenants(ctx, known)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]control.Tenant{want}, changed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"gone"}, gone); diff != "" {
		t.Error(diff)
	}
	if changed, gone, err = db.ChangedTenants(ctx, nil); len(changed)+len(gone) != 0 || err != nil {
		t.Errorf("nothing known: %v, %v, %v", changed, gone, err)
	}
}

func TestListenTenants(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 16), make(chan error, 1)
	go func() { ended <- db.ListenTenants(ctx, func(id string) { heard <- id }) }()
	next := func() string {
		t.Helper()
		select {
		case id := <-heard:
			return id
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-time.After(10 * time.Second):
			t.Fatal("heard nothing")
		}
		return ""
	}
	if id := next(); id != "" {
		t.Fatalf("first heard %q", id)
	}
	changes := []func() error{
		func() error { return db.CreateTenant(t.Context(), &control.Tenant{ID: "acme", DSNSealed: []byte{1}}) },
		func() error { return second(db.SetTenantStatus(t.Context(), "acme", control.TenantSuspended)) },
		func() error { return second(db.SetTenantDSN(t.Context(), "acme", []byte{2})) },
		func() error { remove(t, db, "acme"); return nil },
	}
	for i, change := range changes {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if id := next(); id != "acme" {
			t.Fatalf("change %d: heard %q", i, id)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("ended with %v", err)
	}
}

func TestListenTenantsNoticesALostConnection(t *testing.T) {
	t.Parallel()
	pg := testkit.Postgres(t)
	db := newDB(t)
	heard, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- db.ListenTenants(t.Context(), func(id string) { heard <- id }) }()
	<-heard
	pg.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE query = 'LISTEN fetcher_tenants' AND datname = '`+db.Pool().Config().ConnConfig.Database+`'`)
	select {
	case err := <-ended:
		if !control.Unavailable(err) {
			t.Fatalf("ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("did not notice")
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	lease := func(worker string) control.Lease {
		return control.Lease{TenantID: "acme", JobID: uuid.UUID{1}, Token: uuid.New(), QueueID: 7, WorkerID: worker}
	}
	first, other := lease("a"), lease("b")
	if ok, err := db.TakeLease(ctx, first, time.Minute); err != nil || !ok {
		t.Fatalf("free lease: %v, %v", ok, err)
	}
	if ok, err := db.TakeLease(ctx, other, time.Minute); err != nil || ok {
		t.Fatalf("held lease: %v, %v", ok, err)
	}
	elsewhere := lease("b")
	elsewhere.TenantID = "globex"
	if ok, err := db.TakeLease(ctx, elsewhere, time.Minute); err != nil || !ok {
		t.Fatalf("the same job id of another tenant: %v, %v", ok, err)
	}
	if ok, err := db.RenewLease(ctx, other.Token, time.Minute); err != nil || ok {
		t.Fatalf("renew without holding: %v, %v", ok, err)
	}
	// Renewed into the past, it has expired.
	if ok, err := db.RenewLease(ctx, first.Token, -time.Second); err != nil || !ok {
		t.Fatalf("renew: %v, %v", ok, err)
	}
	expired, err := db.ExpiredLeases(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]control.Lease{first}, expired, cmpopts.IgnoreFields(control.Lease{}, "ExpiresAt")); diff != "" {
		t.Fatalf("expired (-want +got):\n%s", diff)
	}
	if ok, err := db.TakeLease(ctx, other, time.Minute); err != nil || !ok {
		t.Fatalf("expired lease: %v, %v", ok, err)
	}
	if ok, err := db.RenewLease(ctx, first.Token, time.Minute); err != nil || ok {
		t.Fatalf("renew after it was taken: %v, %v", ok, err)
	}
	if err := db.DropLease(ctx, first.Token); err != nil {
		t.Fatal(err)
	}
	if ok, err := db.RenewLease(ctx, other.Token, time.Minute); err != nil || !ok {
		t.Fatalf("the old holder dropped the new one's: %v, %v", ok, err)
	}
	if err := db.DropLease(ctx, other.Token); err != nil {
		t.Fatal(err)
	}
	if ok, err := db.TakeLease(ctx, first, time.Minute); err != nil || !ok {
		t.Fatalf("dropped lease: %v, %v", ok, err)
	}
}

func TestDropExpiredLeaseLeavesALiveOne(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	l := control.Lease{TenantID: "acme", JobID: uuid.UUID{1}, Token: uuid.New()}
	for _, test := range []struct {
		ttl  time.Duration
		want bool
	}{{time.Minute, false}, {-time.Second, true}, {-time.Second, false}} {
		if test.want || test.ttl > 0 {
			if _, err := db.TakeLease(ctx, l, test.ttl); err != nil {
				t.Fatal(err)
			}
			if _, err := db.RenewLease(ctx, l.Token, test.ttl); err != nil {
				t.Fatal(err)
			}
		}
		var got bool
		err := pgx.BeginFunc(ctx, db.Pool(), func(tx pgx.Tx) (err error) {
			got, err = db.DropExpiredLease(ctx, tx, l.Token)
			return err
		})
		if err != nil || got != test.want {
			t.Errorf("ttl %v: %v, %v", test.ttl, got, err)
		}
	}
}

func TestOneOfManyTakesTheLease(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	taken := make([]bool, 16)
	for round := range 5 {
		var group errgroup.Group
		for i := range taken {
			group.Go(func() (err error) {
				l := control.Lease{TenantID: "acme", JobID: uuid.UUID{byte(round)}, Token: uuid.New()}
				taken[i], err = db.TakeLease(t.Context(), l, time.Minute)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, ok := range taken {
			if ok {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d took the lease", n)
		}
	}
}
