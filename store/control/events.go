package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// EventMark says that a tenant may have events to send, and that the caller is the one to look for a while.
type EventMark struct {
	TenantID string
	Webhook  []byte // sealed; nil: none is set

	claim      uuid.UUID
	generation int64
}

// Backlog is how a tenant's outbox was left, or all of them together.
type Backlog struct {
	Pending int64         // events that some transport has not taken yet
	Parked  int64         // events that were given up, until they are replayed
	Oldest  time.Duration // age of the oldest pending one
	Next    time.Duration // until the next delivery is due, when there are pending ones
}

// mark is the statement that notes a tenant named by a query. A row that is due and that nobody looks at says it already:
// whoever looks next sees what was committed before.
const mark = `
	INSERT INTO event_marks AS m (tenant_id) %s
	ON CONFLICT (tenant_id) DO UPDATE SET generation = m.generation + 1, due_at = least(m.due_at, now()),
	    marked_at = CASE WHEN m.pending = 0 THEN now() ELSE m.marked_at END
	WHERE m.claim IS NOT NULL OR m.due_at > now()`

// MarkEvents notes that the tenant may have events to send.
func (d *DB) MarkEvents(ctx context.Context, tenantID string) error {
	_, err := d.pool.Exec(ctx, marking(`VALUES ($1)`), tenantID)
	return pgerr.Wrap("mark events", err)
}

// MarkEventsIn is MarkEvents in tx.
func (d *DB) MarkEventsIn(ctx context.Context, tx pgx.Tx, tenantID string) error {
	_, err := tx.Exec(ctx, marking(`VALUES ($1)`), tenantID)
	return pgerr.Wrap("mark events", err)
}

// EndLease is DropLease for a job that has ended: in the same statement it notes that the tenant has an event to send.
func (d *DB) EndLease(ctx context.Context, token uuid.UUID) error {
	_, err := d.pool.Exec(ctx, `WITH gone AS (DELETE FROM job_leases WHERE token = $1 RETURNING tenant_id)`+
		marking(`SELECT tenant_id FROM gone`), token)
	return pgerr.Wrap("end lease", err)
}

// ClaimEventMarks makes the caller the one who looks at up to limit tenants that are due, for ttl.
func (d *DB) ClaimEventMarks(ctx context.Context, ttl time.Duration, limit int) ([]EventMark, error) {
	claim := uuid.New()
	rows, err := d.pool.Query(ctx, `
		WITH due AS (
		    SELECT tenant_id FROM event_marks
		    WHERE due_at <= now() AND (claimed_until IS NULL OR claimed_until < now())
		    ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED),
		claimed AS (
		    UPDATE event_marks m SET claim = $1, claimed_until = now() + $2 FROM due
		    WHERE m.tenant_id = due.tenant_id RETURNING m.tenant_id, m.generation)
		SELECT c.tenant_id, c.generation, w.sealed FROM claimed c LEFT JOIN tenant_webhooks w USING (tenant_id)`,
		claim, ttl, limit)
	if err != nil {
		return nil, pgerr.Wrap("claim event marks", err)
	}
	marks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (EventMark, error) {
		m := EventMark{claim: claim}
		return m, row.Scan(&m.TenantID, &m.generation, &m.Webhook)
	})
	return marks, pgerr.Wrap("claim event marks", err)
}

// SettleEventMark gives a claimed mark back. The tenant is due again when it was marked meanwhile, else when its next
// delivery is; with nothing left the mark goes. A claim that somebody else has taken over is left alone.
func (d *DB) SettleEventMark(ctx context.Context, m EventMark, left Backlog) error {
	const ours = `tenant_id = $1 AND claim = $2`
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM event_marks WHERE `+ours+` AND generation = $3 AND $4::bigint = 0 AND $5::bigint = 0`,
		m.TenantID, m.claim, m.generation, left.Pending, left.Parked)
	batch.Queue(`
		UPDATE event_marks SET claim = NULL, claimed_until = NULL, pending = $4, parked = $5,
		    oldest_at = CASE WHEN $4::bigint > 0 THEN now() - $6::interval END,
		    due_at = CASE WHEN generation <> $3 THEN now() WHEN $4::bigint = 0 THEN 'infinity' ELSE now() + $7::interval END
		WHERE `+ours, m.TenantID, m.claim, m.generation, left.Pending, left.Parked, left.Oldest, left.Next)
	return pgerr.Wrap("settle event mark", d.pool.SendBatch(ctx, batch).Close())
}

// DeferEventMark gives a claimed mark back for the tenant to be looked at again after the given time.
func (d *DB) DeferEventMark(ctx context.Context, m EventMark, after time.Duration) error {
	_, err := d.pool.Exec(ctx, `
		UPDATE event_marks SET claim = NULL, claimed_until = NULL, due_at = now() + $3
		WHERE tenant_id = $1 AND claim = $2`, m.TenantID, m.claim, after)
	return pgerr.Wrap("defer event mark", err)
}

// DropEventMark removes the claimed mark of a tenant that does not exist.
func (d *DB) DropEventMark(ctx context.Context, m EventMark) error {
	_, err := d.pool.Exec(ctx, `DELETE FROM event_marks WHERE tenant_id = $1 AND claim = $2`, m.TenantID, m.claim)
	return pgerr.Wrap("drop event mark", err)
}

// EventBacklog returns the backlogs of all tenants together, as far as dispatchers have told. Next has no meaning.
func (d *DB) EventBacklog(ctx context.Context) (Backlog, error) {
	var (
		all    Backlog
		oldest float64
	)
	err := d.pool.QueryRow(ctx, `
		SELECT coalesce(sum(pending), 0)::bigint, coalesce(sum(parked), 0)::bigint,
		       coalesce(extract(epoch FROM now() - min(CASE WHEN due_at < 'infinity' THEN coalesce(oldest_at, marked_at) END)), 0)::float8
		FROM event_marks`).Scan(&all.Pending, &all.Parked, &oldest)
	all.Oldest = max(0, time.Duration(oldest*float64(time.Second)))
	return all, pgerr.Wrap("measure events", err)
}

// TenantsWithParkedEvents lists the tenants whose outboxes were left with parked events.
func (d *DB) TenantsWithParkedEvents(ctx context.Context) ([]string, error) {
	rows, err := d.pool.Query(ctx, `SELECT tenant_id FROM event_marks WHERE parked > 0 ORDER BY tenant_id COLLATE "C"`)
	if err != nil {
		return nil, pgerr.Wrap("list parked events", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, pgerr.Wrap("list parked events", err)
}

func marking(tenants string) string { return fmt.Sprintf(mark, tenants) }
