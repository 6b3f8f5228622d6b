package control

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// Lease is the right to run one job. It lasts until it expires, is dropped or, once expired, is taken by another.
type Lease struct {
	TenantID  string
	JobID     uuid.UUID
	Token     uuid.UUID // of this holding, made by the holder
	QueueID   int64     // the queue entry that is being worked
	WorkerID  string
	ExpiresAt time.Time // by the database's clock; ignored when taking one

	MaxRunning int // jobs of the tenant at once, when taking one; 0: any number
}

const takeLease = `
	INSERT INTO job_leases AS held (tenant_id, job_id, token, queue_id, worker_id, expires_at)
	VALUES ($1, $2, $3, $4, $5, now() + $6)
	ON CONFLICT (tenant_id, job_id) DO UPDATE
	SET token = excluded.token, queue_id = excluded.queue_id, worker_id = excluded.worker_id,
	    taken_at = now(), expires_at = excluded.expires_at
	WHERE held.expires_at < now()`

// TakeLease takes the job's lease for ttl, also in place of an expired one.
// False: somebody else holds a live one. ErrTenantFull: the tenant runs as many jobs as it may.
func (d *DB) TakeLease(ctx context.Context, l Lease, ttl time.Duration) (bool, error) {
	if l.MaxRunning > 0 {
		return d.takeLeaseWithin(ctx, l, ttl)
	}
	tag, err := d.pool.Exec(ctx, takeLease, l.TenantID, l.JobID, l.Token, l.QueueID, l.WorkerID, ttl)
	return tag.RowsAffected() == 1, pgerr.Wrap("take lease", err)
}

// RenewLease makes the lease last for ttl from now. One that has expired without anybody noticing comes back to
// life. False: it is gone, and whatever was done under it must not be committed.
func (d *DB) RenewLease(ctx context.Context, token uuid.UUID, ttl time.Duration) (bool, error) {
	tag, err := d.pool.Exec(ctx, `UPDATE job_leases SET expires_at = now() + $2 WHERE token = $1`, token, ttl)
	return tag.RowsAffected() == 1, pgerr.Wrap("renew lease", err)
}

// DropLease gives the lease back. Dropping one that is gone is no error.
func (d *DB) DropLease(ctx context.Context, token uuid.UUID) error {
	_, err := d.pool.Exec(ctx, `DELETE FROM job_leases WHERE token = $1`, token)
	return pgerr.Wrap("drop lease", err)
}

// ExpiredLeases returns up to limit leases past their time, the longest first.
func (d *DB) ExpiredLeases(ctx context.Context, limit int) ([]Lease, error) {
	rows, err := d.pool.Query(ctx, `
		SELECT tenant_id, job_id, token, queue_id, worker_id, expires_at
		FROM job_leases WHERE expires_at < now() ORDER BY expires_at LIMIT $1`, limit)
	if err != nil {
		return nil, pgerr.Wrap("find expired leases", err)
	}
	leases, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Lease, err error) {
		err = row.Scan(&l.TenantID, &l.JobID, &l.Token, &l.QueueID, &l.WorkerID, &l.ExpiresAt)
		l.ExpiresAt = l.ExpiresAt.UTC()
		return l, err
	})
	return leases, pgerr.Wrap("find expired leases", err)
}

// DropExpiredLease removes the lease in tx if it is still past its time, and reports whether it did. False: its
// holder renewed it after all, or somebody else removed it; then the job must not be put back.
func (d *DB) DropExpiredLease(ctx context.Context, tx pgx.Tx, token uuid.UUID) (bool, error) {
	tag, err := tx.Exec(ctx, `DELETE FROM job_leases WHERE token = $1 AND expires_at < now()`, token)
	return tag.RowsAffected() == 1, pgerr.Wrap("drop expired lease", err)
}
