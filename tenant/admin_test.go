package tenant

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

// provisioner returns an Admin whose user may create roles and databases but is no superuser.
func provisioner(t *testing.T) Admin {
	t.Helper()
	d := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{CreateDB: true, CreateRole: true})
	pool, err := pgxpool.New(t.Context(), d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := control.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return Admin{Control: control.New(pool), Keys: newKeys(t)}
}

// provisioned creates a tenant whose database is dropped after the test.
func provisioned(t *testing.T, a Admin, id string) (control.Tenant, string) {
	t.Helper()
	t.Cleanup(func() {
		if err := a.Deprovision(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	created, err := a.Create(t.Context(), NewTenant{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := a.DSN(created)
	if err != nil {
		t.Fatal(err)
	}
	return created, dsn
}

// unique makes an id no other run uses on a shared server: roles belong to the whole server.
func unique(t *testing.T, a Admin, id string) string {
	t.Helper()
	return id + "-" + a.Control.Pool().Config().ConnConfig.Database
}

func TestProvision(t *testing.T) {
	t.Parallel()
	a := provisioner(t)
	acmeID, globexID := unique(t, a, "Acme"), unique(t, a, "globex")
	acme, acmeDSN := provisioned(t, a, acmeID)
	_, globexDSN := provisioned(t, a, globexID)
	if acme.Status != control.TenantActive || acme.Name != acmeID || acme.Revision < 1 {
		t.Errorf("%+v", acme)
	}
	r := newRouter(t, Options{Control: a.Control, Keys: a.Keys})
	mark(t, acmeDSN, acmeID)
	mark(t, globexDSN, globexID)
	mustUse(t, r, acmeID)
	mustUse(t, r, globexID)

	own, err := pgx.ParseConfig(acmeDSN)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pgx.ParseConfig(globexDSN)
	if err != nil {
		t.Fatal(err)
	}
	own.Database = other.Database
	if conn, err := pgx.ConnectConfig(t.Context(), own); err == nil {
		t.Error("a tenant's role connects to another tenant's database")
		_ = conn.Close(t.Context())
	}
	var super, createDB, createRole bool
	row := a.Control.Pool().QueryRow(t.Context(),
		`SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = $1`, DatabaseName(acmeID))
	if err := row.Scan(&super, &createDB, &createRole); err != nil || super || createDB || createRole {
		t.Errorf("role: %v %v %v, %v", super, createDB, createRole, err)
	}
	if strings.Contains(string(acme.DSNSealed), own.Password) || len(own.Password) < 20 {
		t.Error("the password is weak or in clear")
	}
	if _, err := a.Create(t.Context(), NewTenant{ID: acmeID}); !errors.Is(err, control.ErrTenantExists) {
		t.Errorf("twice: %v", err)
	}
}

func TestProvisionTakesOverWhatAnEarlierAttemptLeft(t *testing.T) {
	t.Parallel()
	a := provisioner(t)
	id := unique(t, a, "again")
	first, err := a.Provision(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	_, second := provisioned(t, a, id)
	if first == second {
		t.Error("the password is the same")
	}
	if conn, err := pgx.Connect(t.Context(), first); err == nil {
		t.Error("the earlier password still works")
		_ = conn.Close(t.Context())
	}
	if err := Migrate(t.Context(), id, second); err != nil {
		t.Error(err)
	}
}

func TestProvisionRefusesSomebodyElsesDatabase(t *testing.T) {
	t.Parallel()
	a := provisioner(t)
	id := unique(t, a, "foreign")
	name := pgx.Identifier{DatabaseName(id)}.Sanitize()
	if _, err := a.Control.Pool().Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testkit.Postgres(t).Exec(t, "DROP DATABASE "+name, "DROP ROLE IF EXISTS "+name) })
	if _, err := a.Provision(t.Context(), id); err == nil {
		t.Error("took over a database of another role")
	}
	if err := a.Deprovision(t.Context(), id); err == nil {
		t.Error("dropped a database of another role")
	}
}

func TestAdminErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	for name, test := range map[string]struct {
		tenant NewTenant
		want   error
	}{
		"malformed id":      {NewTenant{ID: "a b", DSN: w.dsns["acme"]}, ErrID},
		"existing id":       {NewTenant{ID: "acme", DSN: w.dsns["acme"]}, control.ErrTenantExists},
		"malformed address": {NewTenant{ID: "new", DSN: "postgres://canary:canary@[::1"}, ErrDSN},
	} {
		_, err := w.Create(t.Context(), test.tenant)
		if !errors.Is(err, test.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.Create(t.Context(), NewTenant{ID: "new", DSN: withPassword(t, w.dsns["acme"], "canary")})
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("wrong password: %v", err)
	}
	if _, err = w.Get(t.Context(), "new"); !errors.Is(err, control.ErrNoTenant) {
		t.Errorf("registered all the same: %v", err)
	}
	for name, call := range map[string]func(string) (control.Tenant, error){
		"get":     func(id string) (control.Tenant, error) { return w.Get(t.Context(), id) },
		"suspend": func(id string) (control.Tenant, error) { return w.Suspend(t.Context(), id) },
		"resume":  func(id string) (control.Tenant, error) { return w.Resume(t.Context(), id) },
		"set dsn": func(id string) (control.Tenant, error) { return w.SetDSN(t.Context(), id, w.dsns["acme"]) },
	} {
		for _, id := range []string{"nobody", "a b"} {
			if _, err = call(id); !errors.Is(err, control.ErrNoTenant) {
				t.Errorf("%s %q: %v", name, id, err)
			}
		}
	}
	if _, err = w.SetDSN(t.Context(), "acme", withPassword(t, w.dsns["acme"], "canary")); err == nil {
		t.Error("an address that does not work was stored")
	}
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	list, err := w.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "acme" {
		t.Errorf("list: %v, %v", list, err)
	}
	_, err = r.Info(t.Context(), "nobody")
	refused(t, err, problem.TenantUnknown)
}

func TestPurgeAndWhatStandsInItsWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	untouched := func(context.Context) error {
		t.Error("objects were removed")
		return nil
	}
	if err := w.Purge(t.Context(), "acme", untouched); !errors.Is(err, ErrNotDeleted) {
		t.Errorf("purge of an active tenant: %v", err)
	}
	for _, id := range []string{"nobody", "a b"} {
		if err := w.Purge(t.Context(), id, untouched); !errors.Is(err, control.ErrNoTenant) {
			t.Errorf("purge of %q: %v", id, err)
		}
	}
	if _, err := w.Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	away := errors.New("the bucket is away")
	if err := w.Purge(t.Context(), "acme", func(context.Context) error { return away }); !errors.Is(err, away) {
		t.Errorf("purge without the bucket: %v", err)
	}
	if _, err := w.Resume(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	mustUse(t, w.router(t, Options{}), "acme") // nothing was dropped
	if _, err := w.Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}

	// Who resumes the tenant while it is purged finds it gone.
	resumed := make(chan error, 1)
	err := w.Purge(t.Context(), "acme", func(ctx context.Context) error {
		go func() {
			_, err := w.Resume(ctx, "acme")
			resumed <- err
		}()
		return w.awaitLock(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-resumed; !errors.Is(err, control.ErrNoTenant) {
		t.Errorf("resume during the purge: %v", err)
	}
}

// awaitLock returns when somebody waits for an advisory lock in the control database.
func (w *world) awaitLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for waiting := 0; waiting == 0; {
		err := w.Control.Pool().QueryRow(ctx, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted`).Scan(&waiting)
		if err != nil {
			return err
		}
	}
	return nil
}

func TestPurgeOfADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	none := func(context.Context) error { return nil }
	u, err := url.Parse(w.dsns["acme"])
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/never_was"
	sealed, err := SealDSN(w.Keys, "acme", u.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Control.SetTenantDSN(t.Context(), "acme", sealed); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if err := w.Purge(t.Context(), "acme", none); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(t.Context(), "acme"); !errors.Is(err, control.ErrNoTenant) {
		t.Errorf("after the purge: %v", err)
	}
}

func TestDatabaseName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	names := map[string]bool{}
	for _, id := range []string{"acme", "Acme", "ac-me", "ac_me", long, long[:127] + "y", "550e8400-e29b-41d4-a716-446655440000"} {
		name := DatabaseName(id)
		if names[name] || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("%s: %s", id, name)
		}
		names[name] = true
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for control, want := range map[string]string{
		"postgres://admin:s3@db:5433/control?sslmode=verify-full&pool_max_conns=5&sslrootcert=%2Fca.pem": "postgres://n:p@db:5433/n?sslmode=verify-full&sslrootcert=%2Fca.pem",
		"postgresql://db/control?user=admin&password=s3&host=%2Frun%2Fpg":                                "postgresql://n:p@db/n?host=%2Frun%2Fpg",
		"host=/run/pg port=5433 user=admin password='s 3' dbname=control sslmode=disable":                "host=/run/pg port=5433 user=admin password='s 3' dbname=control sslmode=disable user='n' password='p' dbname='n'",
	} {
		got, err := addressOf(control, "n", "p")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		cfg, err := pgx.ParseConfig(got)
		if err != nil && !strings.Contains(control, "sslrootcert") {
			t.Fatal(err)
		}
		if err == nil && (cfg.User != "n" || cfg.Password != "p" || cfg.Database != "n") {
			t.Errorf("read as %s %s %s", cfg.User, cfg.Password, cfg.Database)
		}
	}
}

// TestADatabaseServesOneTenant: no address in the registry leads one tenant to another's rows, however it got there.
func TestADatabaseServesOneTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	mustUse(t, r, "globex")
	if _, err := w.Create(t.Context(), NewTenant{ID: "intruder", DSN: w.dsns["acme"]}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("create on acme's database: %v", err)
	}
	if _, err := w.SetDSN(t.Context(), "globex", w.dsns["acme"]); !errors.Is(err, store.ErrForeign) {
		t.Errorf("set-dsn to acme's database: %v", err)
	}
	if _, err := w.Create(t.Context(), NewTenant{ID: "control", DSN: w.Control.Pool().Config().ConnString()}); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("create on the control database: %v", err)
	}
	// Past every command: straight into the registry.
	sealed, err := SealDSN(w.Keys, "globex", w.dsns["acme"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Control.SetTenantDSN(t.Context(), "globex", sealed); err != nil {
		t.Fatal(err)
	}
	fresh := w.router(t, Options{})
	lease, err := fresh.Acquire(t.Context(), "globex")
	if err == nil {
		lease.Release()
	}
	refused(t, err, problem.TenantUnavailable)
	mustUse(t, fresh, "acme")
}
