package control

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// TenantStatus is whether a tenant may be served.
type TenantStatus string

// The states of a tenant.
const (
	TenantActive    TenantStatus = "active"
	TenantSuspended TenantStatus = "suspended"
	TenantDeleted   TenantStatus = "deleted"
)

// Tenant is one row of the registry. A limit of 0 is the deployment's default.
type Tenant struct {
	ID             string
	Name           string
	Status         TenantStatus
	DSNSealed      []byte // of its database
	MaxConns       int    // open connections to its database, per process
	MaxRunningJobs int    // over all workers
	RateLimit      float64
	Revision       int64 // grows at every change, also over deletion and creation anew
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

var (
	// ErrNoTenant says that the registry has no such tenant.
	ErrNoTenant = errors.New("control: no such tenant")
	// ErrTenantExists says that the registry has a tenant of that id already.
	ErrTenantExists = errors.New("control: the tenant exists")
)

const tenantColumns = `id, name, status, dsn_sealed, max_conns, max_running_jobs, rate_limit, revision, created_at, updated_at`

// CreateTenant registers t as active unless it says otherwise, and fills in revision and timestamps.
// ErrTenantExists: the id is taken, also by a tenant marked deleted.
func (d *DB) CreateTenant(ctx context.Context, t *Tenant) error {
	status := t.Status
	if status == "" {
		status = TenantActive
	}
	created, err := d.oneTenant(ctx, `
		INSERT INTO tenants (id, name, status, dsn_sealed, max_conns, max_running_jobs, rate_limit)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO NOTHING
		RETURNING `+tenantColumns,
		t.ID, t.Name, status, t.DSNSealed, t.MaxConns, t.MaxRunningJobs, t.RateLimit)
	if errors.Is(err, ErrNoTenant) {
		return ErrTenantExists
	}
	if err != nil {
		return pgerr.Wrap("create tenant", err)
	}
	*t = created
	return nil
}

// GetTenant returns the tenant, whatever its status, or ErrNoTenant.
func (d *DB) GetTenant(ctx context.Context, id string) (Tenant, error) {
	t, err := d.oneTenant(ctx, `SELECT `+tenantColumns+` FROM tenants WHERE id = $1`, id)
	return t, wrapTenant("get tenant", err)
}

// ListTenants returns every tenant in id order, whatever its status.
func (d *DB) ListTenants(ctx context.Context) ([]Tenant, error) {
	list, err := d.manyTenants(ctx, `SELECT `+tenantColumns+` FROM tenants ORDER BY id COLLATE "C"`)
	return list, pgerr.Wrap("list tenants", err)
}

// ChangedTenants returns those of the given tenants whose revision is not the one given, and the ids of those that
// are gone.
func (d *DB) ChangedTenants(ctx context.Context, known map[string]int64) (changed []Tenant, gone []string, err error) {
	ids, revisions := make([]string, 0, len(known)), make([]int64, 0, len(known))
	for id, revision := range known {
		ids, revisions = append(ids, id), append(revisions, revision)
	}
	rows, err := d.pool.Query(ctx, `
		SELECT k.id
		FROM unnest($1::text[], $2::bigint[]) AS k (id, revision)
		LEFT JOIN tenants t ON t.id = k.id
		WHERE t.id IS NULL`, ids, revisions)
	if err != nil {
		return nil, nil, pgerr.Wrap("find removed tenants", err)
	}
	if gone, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, nil, pgerr.Wrap("find removed tenants", err)
	}
	changed, err = d.manyTenants(ctx, `
		SELECT `+tenantColumns+` FROM tenants
		JOIN unnest($1::text[], $2::bigint[]) AS k (known_id, known_revision) ON known_id = id
		WHERE revision <> known_revision`, ids, revisions)
	return changed, gone, pgerr.Wrap("find changed tenants", err)
}

// SetTenantStatus changes the status and returns the tenant as it stands then, or ErrNoTenant.
func (d *DB) SetTenantStatus(ctx context.Context, id string, s TenantStatus) (Tenant, error) {
	t, err := d.oneTenant(ctx, `UPDATE tenants SET status = $2 WHERE id = $1 RETURNING `+tenantColumns, id, s)
	return t, wrapTenant("set tenant status", err)
}

// SetTenantDSN replaces the sealed DSN and returns the tenant as it stands then, or ErrNoTenant.
func (d *DB) SetTenantDSN(ctx context.Context, id string, sealed []byte) (Tenant, error) {
	t, err := d.oneTenant(ctx, `UPDATE tenants SET dsn_sealed = $2 WHERE id = $1 RETURNING `+tenantColumns, id, sealed)
	return t, wrapTenant("set tenant dsn", err)
}

// TenantLimits are the limits of a tenant; 0 is the deployment's default.
type TenantLimits struct {
	MaxConns       int     // open connections to its database, per process
	MaxRunningJobs int     // over all workers
	RateLimit      float64 // requests per second to one process
}

// SetTenantLimits replaces the limits and returns the tenant as it stands then, or ErrNoTenant.
func (d *DB) SetTenantLimits(ctx context.Context, id string, l TenantLimits) (Tenant, error) {
	t, err := d.oneTenant(ctx, `
		UPDATE tenants SET max_conns = $2, max_running_jobs = $3, rate_limit = $4 WHERE id = $1 RETURNING `+tenantColumns,
		id, l.MaxConns, l.MaxRunningJobs, l.RateLimit)
	return t, wrapTenant("set tenant limits", err)
}

// RemoveTenant takes the tenant's row out of the registry. ErrNoTenant: there is none that is marked deleted.
func (d *DB) RemoveTenant(ctx context.Context, id string) error {
	tag, err := d.pool.Exec(ctx, `DELETE FROM tenants WHERE id = $1 AND status = 'deleted'`, id)
	if err != nil {
		return pgerr.Wrap("remove tenant", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNoTenant
	}
	return nil
}

// ExclusivelyFor runs fn while no other call for the same tenant runs its own, in whatever process. It keeps one
// connection of the pool meanwhile, so the pool must allow another for fn.
func (d *DB) ExclusivelyFor(ctx context.Context, id string, fn func(context.Context) error) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return pgerr.Wrap("begin lock transaction", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it wrote nothing
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 2))", id); err != nil {
		return pgerr.Wrap("lock tenant", err)
	}
	return fn(ctx)
}

func (d *DB) oneTenant(ctx context.Context, query string, args ...any) (Tenant, error) {
	list, err := d.manyTenants(ctx, query, args...)
	if err != nil {
		return Tenant{}, err
	}
	if len(list) == 0 {
		return Tenant{}, ErrNoTenant
	}
	return list[0], nil
}

func (d *DB) manyTenants(ctx context.Context, query string, args ...any) ([]Tenant, error) {
	rows, err := d.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tenant, error) {
		var t Tenant
		err := row.Scan(&t.ID, &t.Name, &t.Status, &t.DSNSealed, &t.MaxConns, &t.MaxRunningJobs, &t.RateLimit,
			&t.Revision, &t.CreatedAt, &t.UpdatedAt)
		t.CreatedAt, t.UpdatedAt = t.CreatedAt.UTC(), t.UpdatedAt.UTC()
		return t, err
	})
}

func wrapTenant(op string, err error) error {
	if errors.Is(err, ErrNoTenant) {
		return err
	}
	return pgerr.Wrap(op, err)
}
