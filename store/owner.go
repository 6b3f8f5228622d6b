package store

import (
	"context"
	"database/sql"
	"errors"
)

var (
	// ErrForeign says that the database belongs to another tenant.
	ErrForeign = errors.New("store: the database belongs to another tenant")
	// ErrNotEmpty says that the database holds tables of somebody else's.
	ErrNotEmpty = errors.New("store: the database is neither empty nor a tenant's")
)

// Own makes a migrated database the tenant's, for good, unless it is somebody's already. ErrForeign: it is another
// tenant's. Whoever opens a database asks this first, so that no address in the registry can lead to a neighbour's rows.
func Own(ctx context.Context, db *sql.DB, tenantID string) error {
	const ask = `SELECT tenant_id FROM database_owner`
	var owner string
	err := db.QueryRowContext(ctx, ask).Scan(&owner)
	if errors.Is(err, sql.ErrNoRows) {
		const take = `INSERT INTO database_owner (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING`
		if _, err = db.ExecContext(ctx, take, tenantID); err == nil {
			err = db.QueryRowContext(ctx, ask).Scan(&owner)
		}
	}
	if err != nil {
		return Cause("read database owner", err)
	}
	if owner != tenantID {
		return ErrForeign
	}
	return nil
}

// Belongs returns ErrForeign if the database, whose schema is up to date, is another tenant's. It changes nothing.
func Belongs(ctx context.Context, db *sql.DB, tenantID string) error {
	const ask = `SELECT EXISTS (SELECT FROM database_owner WHERE tenant_id <> $1)`
	var foreign bool
	if err := db.QueryRowContext(ctx, ask, tenantID).Scan(&foreign); err != nil {
		return Cause("read database owner", err)
	}
	if foreign {
		return ErrForeign
	}
	return nil
}

// Vacant returns nil if the database is a tenant's or holds no tables at all, else ErrNotEmpty.
func Vacant(ctx context.Context, db *sql.DB) error {
	current, _, err := Version(ctx, db)
	if err != nil || current > 0 {
		return err
	}
	const taken = `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%'
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'))`
	var others bool
	if err := db.QueryRowContext(ctx, taken).Scan(&others); err != nil {
		return Cause("look for tables", err)
	}
	if others {
		return ErrNotEmpty
	}
	return nil
}
