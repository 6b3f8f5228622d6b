package tenant

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenantid"
)

var (
	// ErrID says that a tenant id is malformed.
	ErrID = errors.New("tenant: the id must be 1 to 128 of A-Z a-z 0-9 _ -, beginning with a letter or digit")
	// ErrDSN says that the address of a database is malformed.
	ErrDSN = errDSN
)

// Admin changes the registry. Running routers learn of it by themselves within 5 s.
type Admin struct {
	Control *control.DB
	Keys    *secret.Keyring
}

// NewTenant describes a tenant to be created.
type NewTenant struct {
	ID   string
	Name string // the id when empty
	DSN  string // of an existing database; empty: one is provisioned on the control server

	MaxConns       int
	MaxRunningJobs int
	RateLimit      float64
}

// Create registers a tenant, after it has provisioned a database if none is given and has brought the schema up to
// date. Errors that may be told apart: ErrID, ErrDSN, control.ErrTenantExists, store.ErrForeign,
// store.ErrNotEmpty. A creation that failed half way can be
// repeated.
func (a Admin) Create(ctx context.Context, n NewTenant) (control.Tenant, error) {
	id, ok := tenantid.Canonical(n.ID)
	if !ok {
		return control.Tenant{}, ErrID
	}
	var created control.Tenant
	// Two at once would set each other's passwords.
	err := a.Control.ExclusivelyFor(ctx, id, func(ctx context.Context) (err error) {
		created, err = a.create(ctx, id, n)
		return err
	})
	return created, err
}

func (a Admin) create(ctx context.Context, id string, n NewTenant) (control.Tenant, error) {
	if _, err := a.Control.GetTenant(ctx, id); !errors.Is(err, control.ErrNoTenant) {
		if err == nil {
			err = control.ErrTenantExists
		}
		return control.Tenant{}, err
	}
	dsn := n.DSN
	if dsn == "" {
		var err error
		if dsn, err = a.Provision(ctx, id); err != nil {
			return control.Tenant{}, err
		}
	}
	if err := adopt(ctx, id, dsn); err != nil {
		return control.Tenant{}, err
	}
	sealed, err := SealDSN(a.Keys, id, dsn)
	if err != nil {
		return control.Tenant{}, err
	}
	t := control.Tenant{
		ID: id, Name: n.Name, DSNSealed: sealed,
		MaxConns: n.MaxConns, MaxRunningJobs: n.MaxRunningJobs, RateLimit: n.RateLimit,
	}
	if t.Name == "" {
		t.Name = id
	}
	return t, a.Control.CreateTenant(ctx, &t)
}

// List returns every tenant in id order.
func (a Admin) List(ctx context.Context) ([]control.Tenant, error) { return a.Control.ListTenants(ctx) }

// Get returns one tenant, or control.ErrNoTenant.
func (a Admin) Get(ctx context.Context, tenantID string) (control.Tenant, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return control.Tenant{}, control.ErrNoTenant
	}
	return a.Control.GetTenant(ctx, id)
}

// Suspend makes every request of the tenant FET-1083 until it is resumed. Requests that run finish.
func (a Admin) Suspend(ctx context.Context, tenantID string) (control.Tenant, error) {
	return a.setStatus(ctx, tenantID, control.TenantSuspended)
}

// Resume undoes Suspend.
func (a Admin) Resume(ctx context.Context, tenantID string) (control.Tenant, error) {
	return a.setStatus(ctx, tenantID, control.TenantActive)
}

// SetLimits replaces the tenant's limits.
func (a Admin) SetLimits(ctx context.Context, tenantID string, l control.TenantLimits) (control.Tenant, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return control.Tenant{}, control.ErrNoTenant
	}
	return a.Control.SetTenantLimits(ctx, id, l)
}

// Delete makes the tenant unknown to every process. Its row and all data stay: Resume undoes it, Purge makes it final.
func (a Admin) Delete(ctx context.Context, tenantID string) (control.Tenant, error) {
	return a.setStatus(ctx, tenantID, control.TenantDeleted)
}

// ErrNotDeleted says that a tenant is to be purged that was not deleted before.
var ErrNotDeleted = errors.New("tenant: it is not deleted")

// Purge drops the data of a deleted tenant and takes it out of the registry: what objects removes, then the database and role
// that Provision made, or else our tables in the database that the operator named. Processes may still hold pools for up to
// 5 s after Delete. Nobody can resume the tenant meanwhile; ErrNotDeleted: somebody did before, and nothing is dropped, also
// by objects. A purge that failed half way can be repeated.
func (a Admin) Purge(ctx context.Context, tenantID string, objects func(context.Context) error) error {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return control.ErrNoTenant
	}
	return a.Control.ExclusivelyFor(ctx, id, func(ctx context.Context) error {
		t, err := a.Control.GetTenant(ctx, id)
		if err != nil {
			return err
		}
		if t.Status != control.TenantDeleted {
			return ErrNotDeleted
		}
		if err := objects(ctx); err != nil { // first: they can't be found without the row
			return err
		}
		if err := a.dropData(ctx, t); err != nil {
			return err
		}
		return a.Control.RemoveTenant(ctx, id)
	})
}

func (a Admin) dropData(ctx context.Context, t control.Tenant) error {
	dsn, err := a.DSN(t)
	if err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return ErrDSN
	}
	if own := DatabaseName(t.ID); cfg.ConnConfig.Database == own && cfg.ConnConfig.User == own {
		return a.Deprovision(ctx, t.ID)
	}
	err = migrateAt(ctx, dsn, func(ctx context.Context, db *sql.DB) error { return store.Purge(ctx, db, t.ID) })
	if store.NoDatabase(err) { // the operator was first
		return nil
	}
	return err
}

func (a Admin) setStatus(ctx context.Context, tenantID string, s control.TenantStatus) (changed control.Tenant, err error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return control.Tenant{}, control.ErrNoTenant
	}
	// Not while it is being purged: the outcome would be a tenant without its data.
	err = a.Control.ExclusivelyFor(ctx, id, func(ctx context.Context) (err error) {
		changed, err = a.Control.SetTenantStatus(ctx, id, s)
		return err
	})
	return changed, err
}

// SetDSN replaces the address of the tenant's database, after it has tried it. Requests on the old one finish.
func (a Admin) SetDSN(ctx context.Context, tenantID, dsn string) (control.Tenant, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return control.Tenant{}, control.ErrNoTenant
	}
	// A database is nobody's to adopt for a tenant that does not exist.
	if _, err := a.Control.GetTenant(ctx, id); err != nil {
		return control.Tenant{}, err
	}
	if err := adopt(ctx, id, dsn); err != nil {
		return control.Tenant{}, err
	}
	sealed, err := SealDSN(a.Keys, id, dsn)
	if err != nil {
		return control.Tenant{}, err
	}
	return a.Control.SetTenantDSN(ctx, id, sealed)
}

// DSN returns the address of the tenant's database, with its password.
func (a Admin) DSN(t control.Tenant) (string, error) { return openDSN(a.Keys, t.ID, t.DSNSealed) }

// Migrate connects to a tenant's database and brings its schema up to date. ErrDSN: the address is malformed.
// store.ErrForeign: it is another tenant's.
func Migrate(ctx context.Context, tenantID, dsn string) error {
	return migrateAt(ctx, dsn, func(ctx context.Context, db *sql.DB) error { return migrate(ctx, db, tenantID) })
}

// adopt is Migrate for a database that an operator names: one with tables that are not ours is left alone.
func adopt(ctx context.Context, tenantID, dsn string) error {
	return migrateAt(ctx, dsn, func(ctx context.Context, db *sql.DB) error {
		if err := store.Vacant(ctx, db); err != nil {
			return err
		}
		return migrate(ctx, db, tenantID)
	})
}

func migrateAt(ctx context.Context, dsn string, work func(context.Context, *sql.DB) error) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return ErrDSN
	}
	tune(cfg.ConnConfig, nil)
	free := dialer{dial: dialPlain, budget: newBudget(2), reclaim: func(context.Context, string) bool { return false }}
	err = withConnections(cfg.ConnConfig, free, func(db *sql.DB) error { return work(ctx, db) })
	if errors.Is(err, store.ErrForeign) || errors.Is(err, store.ErrNotEmpty) {
		return err
	}
	return store.Cause("migrate tenant database", err)
}
