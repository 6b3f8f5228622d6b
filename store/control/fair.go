package control

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// The priorities of queue entries. Each tenant has one entry at the head, in one line with the heads of all others, and
// the rest behind. When a head is taken the tenant's next entry goes to the end of that line. So tenants take turns,
// however much each of them has queued, and what is behind is taken when no head waits.
const (
	PriorityHead   = 1
	PriorityBehind = 2
)

// ErrTenantFull says that the tenant runs as many jobs as it may.
var ErrTenantFull = errors.New("control: the tenant runs as many jobs as it may")

const (
	// waiting and held are the queue entries of a tenant that may be taken, and those that wait for another job of the
	// tenant to end. Retries wait for seconds.
	waiting = `kind = 'extract' AND state = 'available' AND scheduled_at <= now()`
	held    = `kind = 'extract' AND state = 'scheduled' AND scheduled_at > now() + interval '1 minute'`

	holdAtOnce  = 1000
	sweepAtOnce = 1000 // tenants
)

// HoldFor is how long an entry of a tenant that is full is put off, unless it is released before.
const HoldFor = time.Hour

// HasHead reports whether an entry of the tenant waits at the head.
func (d *DB) HasHead(ctx context.Context, tenantID string) (bool, error) {
	var has bool
	err := d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE `+waiting+` AND args ->> 'tenantId' = $1 AND priority = $2)`,
		tenantID, PriorityHead).Scan(&has)
	return has, pgerr.Wrap("look for the tenant's head", err)
}

// PromoteNext makes the tenant's longest waiting entry its head, at the end of the line, unless it has one.
func (d *DB) PromoteNext(ctx context.Context, tenantID string) error {
	_, err := d.pool.Exec(ctx, `
		UPDATE river_job SET priority = $2, scheduled_at = now()
		WHERE state = 'available' AND id = (
		    SELECT id FROM river_job WHERE `+waiting+` AND args ->> 'tenantId' = $1 AND priority > $2
		    ORDER BY priority, scheduled_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
		AND NOT EXISTS (SELECT FROM river_job WHERE `+waiting+` AND args ->> 'tenantId' = $1 AND priority = $2)`,
		tenantID, PriorityHead)
	return pgerr.Wrap("promote entry", err)
}

// PromoteAll does what PromoteNext does for every tenant that has entries but no head: whoever took the last one died
// before it could. It returns how many.
func (d *DB) PromoteAll(ctx context.Context) (int64, error) {
	tag, err := d.pool.Exec(ctx, `
		WITH RECURSIVE tenants_waiting AS (
		    (SELECT args ->> 'tenantId' AS id FROM river_job WHERE `+waiting+` ORDER BY 1 LIMIT 1)
		    UNION ALL
		    SELECT (SELECT args ->> 'tenantId' FROM river_job WHERE `+waiting+` AND args ->> 'tenantId' > t.id ORDER BY 1 LIMIT 1)
		    FROM tenants_waiting t WHERE t.id IS NOT NULL)
		UPDATE river_job SET priority = $1, scheduled_at = now()
		WHERE state = 'available' AND priority > $1 AND id IN (
		    SELECT (SELECT id FROM river_job WHERE `+waiting+` AND args ->> 'tenantId' = t.id ORDER BY priority, scheduled_at, id LIMIT 1)
		    FROM (SELECT id FROM tenants_waiting WHERE id IS NOT NULL LIMIT $2) t)`, PriorityHead, sweepAtOnce)
	return tag.RowsAffected(), pgerr.Wrap("promote entries", err)
}

// takeLeaseWithin is TakeLease for a tenant that may run only so many jobs at once. ErrTenantFull: it does.
func (d *DB) takeLeaseWithin(ctx context.Context, l Lease, ttl time.Duration) (taken bool, _ error) {
	ended := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 3))`, l.TenantID); err != nil {
			return err
		}
		var running int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM job_leases WHERE tenant_id = $1 AND job_id <> $2 AND expires_at >= now()`,
			l.TenantID, l.JobID).Scan(&running); err != nil {
			return err
		}
		if running >= l.MaxRunning {
			return ErrTenantFull
		}
		tag, err := tx.Exec(ctx, takeLease, l.TenantID, l.JobID, l.Token, l.QueueID, l.WorkerID, ttl)
		taken = tag.RowsAffected() == 1
		return err
	})
	if errors.Is(ended, ErrTenantFull) {
		return false, ended
	}
	return taken, pgerr.Wrap("take lease", ended)
}

// HoldEntries puts off what waits of a tenant that is full, so that no worker takes one after the other in vain.
func (d *DB) HoldEntries(ctx context.Context, tenantID string) error {
	_, err := d.pool.Exec(ctx, `
		UPDATE river_job SET state = 'scheduled', scheduled_at = now() + $2
		WHERE state = 'available' AND id IN (
		    SELECT id FROM river_job WHERE `+waiting+` AND args ->> 'tenantId' = $1 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
		tenantID, HoldFor, holdAtOnce)
	return pgerr.Wrap("hold entries", err)
}

// ReleaseEntries lets as many of the tenant's held entries be taken as it may run further jobs, the oldest first.
func (d *DB) ReleaseEntries(ctx context.Context, tenantID string, maxRunning int) error {
	_, err := d.pool.Exec(ctx, release(`$1::text`, `$2::int`), tenantID, maxRunning)
	return pgerr.Wrap("release entries", err)
}

// release is the statement that releases entries of the tenant in an expression, whose limit is another.
func release(tenant, limit string) string {
	// The limit holds for a query that runs once, which a condition of the update may not.
	return `
		WITH next AS MATERIALIZED (
		    SELECT id FROM river_job WHERE ` + held + ` AND args ->> 'tenantId' = ` + tenant + ` ORDER BY id
		    LIMIT greatest(0, ` + limit + `
		        - (SELECT count(*) FROM job_leases WHERE tenant_id = ` + tenant + ` AND expires_at >= now())
		        - (SELECT count(*) FROM (SELECT FROM river_job WHERE ` + waiting + ` AND args ->> 'tenantId' = ` + tenant + ` LIMIT ` + limit + `) w))
		    FOR UPDATE SKIP LOCKED)
		UPDATE river_job q SET state = 'available', priority = 1, scheduled_at = now()
		FROM next WHERE q.id = next.id AND q.state = 'scheduled'`
}

// HeldTenants lists the tenants with held entries, each with its own limit of running jobs, 0 for none of its own.
func (d *DB) HeldTenants(ctx context.Context) (map[string]int, error) {
	rows, err := d.pool.Query(ctx, `
		WITH RECURSIVE tenants_held AS (
		    (SELECT args ->> 'tenantId' AS id FROM river_job WHERE `+held+` ORDER BY 1 LIMIT 1)
		    UNION ALL
		    SELECT (SELECT args ->> 'tenantId' FROM river_job WHERE `+held+` AND args ->> 'tenantId' > t.id ORDER BY 1 LIMIT 1)
		    FROM tenants_held t WHERE t.id IS NOT NULL)
		SELECT h.id, coalesce(t.max_running_jobs, 0)
		FROM (SELECT id FROM tenants_held WHERE id IS NOT NULL LIMIT $1) h LEFT JOIN tenants t ON t.id = h.id`, sweepAtOnce)
	if err != nil {
		return nil, pgerr.Wrap("find held entries", err)
	}
	limits := map[string]int{}
	var id string
	var limit int
	_, err = pgx.ForEachRow(rows, []any{&id, &limit}, func() error {
		limits[id] = limit
		return nil
	})
	return limits, pgerr.Wrap("find held entries", err)
}
