package control

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// RetentionTurn is the task of clearing away what has expired of one tenant. Nobody else has it meanwhile.
type RetentionTurn struct {
	TenantID string
	Orphans  bool // its objects are to be compared with its jobs, too

	claim uuid.UUID
}

// TakeRetentionTurn takes the turn, for ttl, of the one among the tenants that has been due the longest. ok is false when
// none is due.
func (d *DB) TakeRetentionTurn(ctx context.Context, tenants []string, ttl time.Duration) (turn RetentionTurn, ok bool, err error) {
	turn.claim = uuid.New()
	_, err = d.pool.Exec(ctx, `INSERT INTO tenant_retention (tenant_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`, tenants)
	if err != nil {
		return turn, false, pgerr.Wrap("list retention turns", err)
	}
	err = d.pool.QueryRow(ctx, `
		WITH next AS (
		    SELECT tenant_id FROM tenant_retention
		    WHERE tenant_id = ANY($1) AND due_at <= now() AND (claimed_until IS NULL OR claimed_until < now())
		    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		UPDATE tenant_retention r SET claim = $2, claimed_until = now() + $3
		FROM next WHERE r.tenant_id = next.tenant_id RETURNING r.tenant_id, r.orphans_at <= now()`,
		tenants, turn.claim, ttl).Scan(&turn.TenantID, &turn.Orphans)
	if errors.Is(err, pgx.ErrNoRows) {
		return turn, false, nil
	}
	return turn, err == nil, pgerr.Wrap("take retention turn", err)
}

// EndRetentionTurn gives the turn back. The tenant is due again after the given time, its objects are to be compared
// after orphans if that was done.
func (d *DB) EndRetentionTurn(ctx context.Context, turn RetentionTurn, after, orphans time.Duration) error {
	_, err := d.pool.Exec(ctx, `
		UPDATE tenant_retention SET claim = NULL, claimed_until = NULL, due_at = now() + $3,
		    orphans_at = CASE WHEN $4 THEN now() + $5 ELSE orphans_at END
		WHERE tenant_id = $1 AND claim = $2`, turn.TenantID, turn.claim, after, turn.Orphans, orphans)
	return pgerr.Wrap("end retention turn", err)
}

// UseKeyVersion notes that something may be sealed under the version from now on. sealed is kept with the first note that
// has one.
func (d *DB) UseKeyVersion(ctx context.Context, version int, sealed []byte) error {
	_, err := d.pool.Exec(ctx, `INSERT INTO key_versions AS v (version, sealed) VALUES ($1, $2)
		ON CONFLICT (version) DO UPDATE SET sealed = excluded.sealed WHERE v.sealed IS NULL`, version, sealed)
	return pgerr.Wrap("note key version", err)
}

// KeyVersion is a version of the master key that something may be sealed under.
type KeyVersion struct {
	Version int
	Sealed  []byte // what was kept with the first note; nil: nothing yet
}

// SealedVersions lists the versions that something may be sealed under, with what was kept of each.
func (d *DB) SealedVersions(ctx context.Context) ([]KeyVersion, error) {
	rows, err := d.pool.Query(ctx, `SELECT version, sealed FROM key_versions ORDER BY version`)
	if err != nil {
		return nil, pgerr.Wrap("list key versions", err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[KeyVersion])
	return versions, pgerr.Wrap("list key versions", err)
}

// KeyVersions lists the versions that something may be sealed under.
func (d *DB) KeyVersions(ctx context.Context) ([]int, error) {
	rows, err := d.pool.Query(ctx, `SELECT version FROM key_versions ORDER BY version`)
	if err != nil {
		return nil, pgerr.Wrap("list key versions", err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	return versions, pgerr.Wrap("list key versions", err)
}

// ForgetKeyVersions notes that nothing is sealed under any version but the given one.
func (d *DB) ForgetKeyVersions(ctx context.Context, but int) error {
	_, err := d.pool.Exec(ctx, `DELETE FROM key_versions WHERE version <> $1`, but)
	return pgerr.Wrap("forget key versions", err)
}

// SealedRow is one sealed value of the registry.
type SealedRow struct {
	TenantID string
	Sealed   []byte
}

// The sealed columns of the registry.
const (
	SealedDSNs     = "dsn"
	SealedWebhooks = "webhook"
)

// SealedRows lists the sealed values of a kind, SealedDSNs or SealedWebhooks.
func (d *DB) SealedRows(ctx context.Context, kind string) ([]SealedRow, error) {
	query := `SELECT id, dsn_sealed FROM tenants ORDER BY id`
	if kind == SealedWebhooks {
		query = `SELECT tenant_id, sealed FROM tenant_webhooks ORDER BY tenant_id`
	}
	rows, err := d.pool.Query(ctx, query)
	if err != nil {
		return nil, pgerr.Wrap("list sealed values", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SealedRow])
	return all, pgerr.Wrap("list sealed values", err)
}

// ReplaceSealed replaces a sealed value if it still is as it was read, and reports whether.
func (d *DB) ReplaceSealed(ctx context.Context, kind string, old SealedRow, sealed []byte) (bool, error) {
	query := `UPDATE tenants SET dsn_sealed = $3 WHERE id = $1 AND dsn_sealed = $2`
	if kind == SealedWebhooks {
		query = `UPDATE tenant_webhooks SET sealed = $3 WHERE tenant_id = $1 AND sealed = $2`
	}
	tag, err := d.pool.Exec(ctx, query, old.TenantID, old.Sealed, sealed)
	return tag.RowsAffected() == 1, pgerr.Wrap("replace sealed value", err)
}
