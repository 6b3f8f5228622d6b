package control

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// QueueEntry is a row of the queue that stands for a job. Its arguments hold the members "tenantId" and "jobId",
// by which the queries here find it; entries without them are not ours.
type QueueEntry struct {
	ID        int64
	TenantID  string
	JobID     uuid.UUID
	ClaimedAt time.Time // when a worker took it
}

// Depth is how much the queue holds.
type Depth struct {
	Available int64         // waiting for a worker
	Scheduled int64         // waiting for their time
	Running   int64         // taken by a worker
	Oldest    time.Duration // how long the oldest available entry has waited
}

// StrayEntries returns up to limit entries that were taken longer than olderThan ago and whose job is under no live
// lease: the worker died between taking the entry and taking the lease, or after dropping it.
func (d *DB) StrayEntries(ctx context.Context, olderThan time.Duration, limit int) ([]QueueEntry, error) {
	rows, err := d.pool.Query(ctx, `
		SELECT q.id, q.args ->> 'tenantId', (q.args ->> 'jobId')::uuid, q.attempted_at
		FROM river_job q
		WHERE q.state = 'running' AND q.attempted_at < now() - $1::interval
		  AND q.args ? 'tenantId' AND q.args ? 'jobId'
		  AND NOT EXISTS (SELECT FROM job_leases l WHERE l.queue_id = q.id AND l.expires_at >= now())
		ORDER BY q.attempted_at LIMIT $2`, olderThan, limit)
	if err != nil {
		return nil, pgerr.Wrap("find stray entries", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e QueueEntry, err error) {
		err = row.Scan(&e.ID, &e.TenantID, &e.JobID, &e.ClaimedAt)
		e.ClaimedAt = e.ClaimedAt.UTC()
		return e, err
	})
	return entries, pgerr.Wrap("find stray entries", err)
}

// ErrEntryNotRunning says that the queue entry was finished, put back or discarded in the meantime.
var ErrEntryNotRunning = errors.New("control: the queue entry is not running")

// DiscardEntry takes a running entry out of the queue in tx, so that a late finish of the old run changes nothing.
// ErrEntryNotRunning: it is not running any more, so whatever else tx does about it must be rolled back.
func (d *DB) DiscardEntry(ctx context.Context, tx pgx.Tx, id int64) error {
	tag, err := tx.Exec(ctx, `
		UPDATE river_job SET state = 'discarded', finalized_at = now()
		WHERE id = $1 AND state = 'running'`, id)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrEntryNotRunning
	}
	return pgerr.Wrap("discard entry", err)
}

// QueueDepth returns how much waits and how much runs.
func (d *DB) QueueDepth(ctx context.Context) (Depth, error) {
	var (
		depth  Depth
		oldest float64
	)
	err := d.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state = 'available'),
		       count(*) FILTER (WHERE state IN ('scheduled', 'retryable')),
		       count(*) FILTER (WHERE state = 'running'),
		       coalesce(extract(epoch FROM now() - min(scheduled_at) FILTER (WHERE state = 'available')), 0)::float8
		FROM river_job WHERE state IN ('available', 'scheduled', 'retryable', 'running')`).
		Scan(&depth.Available, &depth.Scheduled, &depth.Running, &oldest)
	depth.Oldest = max(0, time.Duration(oldest*float64(time.Second)))
	return depth, pgerr.Wrap("measure queue", err)
}
