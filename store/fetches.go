package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// admissionLock is the advisory lock under which a tenant's fetches are let in, one after the other.
const admissionLock = 0x66657463_0050

// Admission are the limits under which a fetch may start. They hold for all processes together.
type Admission struct {
	Lease     time.Duration // for which the fetch holds its slot and its page unless it ends
	Slots     int           // fetches at once
	PerMinute int           // fetches started within any minute; 0: not limited
	Lapsed    string        // error code of fetches whose lease has ended
}

// Entry tells whether a fetch was let in.
type Entry string

// What can come of Admit.
const (
	EntryGranted Entry = "granted"
	EntryPage    Entry = "page" // another fetch of the page runs
	EntryRate    Entry = "rate" // too many in the last minute
	EntryFull    Entry = "full" // every slot is taken
)

// Admit stores f as running if the limits allow it, and sets its StartedAt. wait tells for EntryRate when there is room
// again. It runs in a transaction, and holds back all other admissions of the tenant until that ends.
func (s Documents) Admit(ctx context.Context, f *Fetch, a Admission) (entry Entry, wait time.Duration, err error) {
	if err = s.db.WithContext(ctx).Exec("SELECT pg_advisory_xact_lock(?)", int64(admissionLock)).Error; err != nil {
		return "", 0, mapped("admit fetch", err)
	}
	if err = s.SettleFetches(ctx, a.Lapsed); err != nil {
		return "", 0, err
	}
	var found struct {
		Page    bool
		Running int
		Wait    *float64 // seconds
	}
	err = s.db.WithContext(ctx).Raw(`SELECT
			EXISTS (SELECT FROM fetches WHERE source_id = @source AND url = @url AND status = 'running') AS page,
			(SELECT count(*) FROM fetches WHERE status = 'running') AS running,
			(SELECT extract(epoch FROM started_at - clock_timestamp())::float8 + 60 FROM fetches
				WHERE @most > 0 AND started_at > clock_timestamp() - interval '60 seconds'
				ORDER BY started_at DESC OFFSET greatest(@most - 1, 0) LIMIT 1) AS wait`,
		map[string]any{"source": f.SourceID, "url": f.URL, "most": a.PerMinute}).Scan(&found).Error
	switch {
	case err != nil:
		return "", 0, mapped("admit fetch", err)
	case found.Page:
		return EntryPage, 0, nil
	case found.Wait != nil:
		return EntryRate, max(time.Duration(*found.Wait*float64(time.Second)), time.Millisecond), nil
	case found.Running >= a.Slots:
		return EntryFull, 0, nil
	}
	return EntryGranted, 0, s.startFetch(ctx, f, a.Lease)
}

func (s Documents) startFetch(ctx context.Context, f *Fetch, lease time.Duration) error {
	f.Status = FetchRunning
	err := s.db.WithContext(ctx).Raw(`INSERT INTO fetches
			(id, environment_id, source_id, url, object_id, attempt, status, approval_id, actor, started_at, lease_until)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, clock_timestamp(), clock_timestamp() + ? * interval '1 second') RETURNING started_at`,
		f.ID, f.EnvironmentID, f.SourceID, f.URL, f.ObjectID, f.Attempt, f.Status, f.ApprovalID, f.Actor, lease.Seconds()).
		Scan(&f.StartedAt).Error
	return mapped("start fetch", err)
}

// RunningFetches counts the fetches that hold a slot.
func (s Documents) RunningFetches(ctx context.Context) (int, error) {
	var n int
	err := s.db.WithContext(ctx).
		Raw("SELECT count(*) FROM fetches WHERE status = 'running' AND lease_until > clock_timestamp()").Scan(&n).Error
	return n, mapped("count running fetches", err)
}

// SettleFetches ends those running fetches as failed whose lease has ended, so that they can't end in another way. One
// that is just about to end is left to do so.
func (s Documents) SettleFetches(ctx context.Context, code string) error {
	return mapped("settle fetches", s.db.WithContext(ctx).Exec(`UPDATE fetches
		SET status = 'failed', error_code = ?, finished_at = clock_timestamp() WHERE id IN (
			SELECT id FROM fetches WHERE status = 'running' AND lease_until <= clock_timestamp() FOR UPDATE SKIP LOCKED)`, code).Error)
}

// HoldFetch sees to it that a running fetch stays so until the transaction ends. ErrLostAttempt: it has ended already.
func (s Documents) HoldFetch(ctx context.Context, f *Fetch) error {
	var held []uuid.UUID
	err := s.db.WithContext(ctx).Raw("SELECT id FROM fetches WHERE id = ? AND attempt = ? AND status = 'running' FOR UPDATE",
		f.ID, f.Attempt).Scan(&held).Error
	if err == nil && len(held) == 0 {
		return ErrLostAttempt
	}
	return mapped("hold fetch", err)
}

// EndFetch stores how a running fetch ended, and sets its FinishedAt. ErrLostAttempt: it has ended already.
func (s Documents) EndFetch(ctx context.Context, f *Fetch) error {
	var ended []time.Time
	err := s.db.WithContext(ctx).Raw(`UPDATE fetches SET status = ?, object_id = ?, changed = ?, version = ?, media_type = ?,
			size_bytes = ?, error_code = ?, upstream_status = ?, finished_at = clock_timestamp()
		WHERE id = ? AND attempt = ? AND status = 'running' RETURNING finished_at`,
		f.Status, f.ObjectID, f.Changed, f.Version, f.MediaType, f.SizeBytes, f.ErrorCode, f.UpstreamStatus, f.ID, f.Attempt).
		Scan(&ended).Error
	switch {
	case err != nil:
		return mapped("end fetch", err)
	case len(ended) == 0:
		return ErrLostAttempt
	}
	f.FinishedAt = &ended[0]
	return nil
}

// Fetch returns the fetch of the source, or FET-1001.
func (s Documents) Fetch(ctx context.Context, source, id uuid.UUID) (*Fetch, error) {
	return take[Fetch](s.db.WithContext(ctx).Where("id = ? AND source_id = ?", id, source), "fetch")
}

// Fetches returns at most limit of the source's fetches after the position.
func (s Documents) Fetches(ctx context.Context, source uuid.UUID, after Position, limit int) ([]Fetch, error) {
	return list[Fetch](after.after(s.db.WithContext(ctx).Where("source_id = ?", source), "started_at", limit), "fetches")
}
