package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Outbox are the queries of whoever sends a tenant's events. All times are the database's. Any number of callers may
// work on one outbox; an event may then be sent more than once, and is never forgotten.
type Outbox struct{ db *gorm.DB }

// NewOutbox returns the queries on db, which belongs to exactly one tenant.
func NewOutbox(db *gorm.DB) Outbox { return Outbox{db: db} }

// Delivery is one event on its way through one transport.
type Delivery struct {
	Event

	JobID    uuid.UUID
	Attempts int // that failed
}

// listAtOnce bounds how many new events one call lists.
const listAtOnce = 1000

// List makes the deliveries of events that nobody has looked at yet, through each of the transports, and reports whether
// there may be more such events. Transports that are added later get none of them.
func (s Outbox) List(ctx context.Context, transports []string) (more bool, err error) {
	result := s.db.WithContext(ctx).Exec(`
		WITH fresh AS (
		    UPDATE outbox_events SET dispatched_at = now() WHERE id IN (
		        SELECT id FROM outbox_events WHERE dispatched_at IS NULL ORDER BY created_at LIMIT ? FOR UPDATE SKIP LOCKED)
		    RETURNING id),
		listed AS (
		    INSERT INTO event_deliveries (event_id, transport)
		    SELECT id, transport FROM fresh CROSS JOIN unnest(?::text[]) AS transport ON CONFLICT DO NOTHING)
		SELECT FROM fresh`, listAtOnce, textArray(transports))
	return result.RowsAffected >= listAtOnce, mapped("list deliveries", result.Error)
}

// Due returns up to limit deliveries through the transport that are due, the longest first, and how often in a row the
// transport has failed. A transport that rests has none due.
func (s Outbox) Due(ctx context.Context, transport string, limit int) (due []Delivery, failures int, err error) {
	var state []struct {
		Failures int
		Paused   bool
	}
	err = s.db.WithContext(ctx).Raw(`SELECT failures, paused_until > now() AS paused FROM event_transports WHERE transport = ?`,
		transport).Scan(&state).Error
	if err != nil {
		return nil, 0, mapped("find transport", err)
	}
	if len(state) == 1 {
		failures = state[0].Failures
		if state[0].Paused {
			return nil, failures, nil
		}
	}
	var rows []struct {
		ID       string
		JobID    uuid.UUID
		Type     string
		Time     time.Time
		Data     []byte
		Trace    string
		Attempts int
	}
	err = s.db.WithContext(ctx).Raw(`
		SELECT e.id, e.job_id, e.type, e.time, e.data, e.trace, d.attempts
		FROM event_deliveries d JOIN outbox_events e ON e.id = d.event_id
		WHERE d.transport = ? AND d.delivered_at IS NULL AND d.parked_at IS NULL AND d.next_attempt_at <= now()
		ORDER BY d.next_attempt_at, e.created_at LIMIT ?`, transport, limit).Scan(&rows).Error
	if err != nil {
		return nil, 0, mapped("find due deliveries", err)
	}
	for _, r := range rows {
		ev := Event{ID: r.ID, Type: r.Type, Time: r.Time, Data: r.Data, Trace: r.Trace}
		due = append(due, Delivery{Event: ev, JobID: r.JobID, Attempts: r.Attempts})
	}
	return due, failures, nil
}

// Delivered notes that the transport has taken the events, and that it works.
func (s Outbox) Delivered(ctx context.Context, transport string, ids []string) error {
	err := s.db.WithContext(ctx).Exec(`
		WITH well AS (DELETE FROM event_transports WHERE transport = ?)
		UPDATE event_deliveries SET delivered_at = now(), reason = '' WHERE transport = ? AND event_id = ANY(?) AND delivered_at IS NULL`,
		transport, transport, textArray(ids)).Error
	return mapped("note deliveries", err)
}

// Failed notes an attempt that failed, for the given reason. The next one is due after the given time; an event that has
// been tried for longer than patience is parked instead, and Failed reports that.
func (s Outbox) Failed(ctx context.Context, transport, id, reason string, retry, patience time.Duration) (parked bool, err error) {
	var rows []bool
	err = s.db.WithContext(ctx).Raw(`
		UPDATE event_deliveries SET attempts = attempts + 1, reason = ?, next_attempt_at = now() + ? * interval '1 second',
		    parked_at = CASE WHEN begun_at <= now() - ? * interval '1 second' THEN now() END
		WHERE transport = ? AND event_id = ? AND delivered_at IS NULL AND parked_at IS NULL
		RETURNING parked_at IS NOT NULL`, reason, retry.Seconds(), patience.Seconds(), transport, id).Scan(&rows).Error
	return len(rows) == 1 && rows[0], mapped("note failed delivery", err)
}

// Pause lets the transport rest for the given time, for all events: it failed for a reason that is not theirs. Events
// that have been waiting for it for longer than patience are parked; Pause returns how many.
func (s Outbox) Pause(ctx context.Context, transport, reason string, rest, patience time.Duration) (parked int64, err error) {
	err = s.db.WithContext(ctx).Exec(`
		INSERT INTO event_transports AS t (transport, failures, paused_until) VALUES (?, 1, now() + ? * interval '1 second')
		ON CONFLICT (transport) DO UPDATE SET failures = t.failures + 1, paused_until = excluded.paused_until`,
		transport, rest.Seconds()).Error
	if err != nil {
		return 0, mapped("pause transport", err)
	}
	result := s.db.WithContext(ctx).Exec(`
		UPDATE event_deliveries SET parked_at = now(), reason = ?
		WHERE transport = ? AND delivered_at IS NULL AND parked_at IS NULL AND begun_at <= now() - ? * interval '1 second'`,
		reason, transport, patience.Seconds())
	return result.RowsAffected, mapped("park deliveries", result.Error)
}

// Remaining is what an outbox still holds.
type Remaining struct {
	Pending int64
	Parked  int64
	Oldest  time.Duration // age of the oldest pending event
	Next    time.Duration // until a delivery is due; 0: now
}

// Settle marks events published that every one of the transports has taken, and parked those that each of the others has
// given up, and returns what is left. Deliveries through transports that are none any more hold up nothing.
func (s Outbox) Settle(ctx context.Context, transports []string) (Remaining, error) {
	err := s.db.WithContext(ctx).Exec(`
		UPDATE outbox_events e SET
		    published_at = CASE WHEN NOT s.open THEN now() END,
		    parked_at = CASE WHEN s.open THEN now() END
		FROM (
		    SELECT e.id, count(d.event_id) > 0 AS open, count(d.event_id) = count(d.parked_at) AS settled
		    FROM outbox_events e LEFT JOIN event_deliveries d
		        ON d.event_id = e.id AND d.delivered_at IS NULL AND d.transport = ANY(?)
		    WHERE e.published_at IS NULL AND e.parked_at IS NULL AND e.dispatched_at IS NOT NULL GROUP BY e.id) s
		WHERE e.id = s.id AND s.settled AND e.published_at IS NULL AND e.parked_at IS NULL`, textArray(transports)).Error
	if err != nil {
		return Remaining{}, mapped("settle events", err)
	}
	var left struct {
		Pending, Parked int64
		Oldest, Next    float64
	}
	err = s.db.WithContext(ctx).Raw(`
		SELECT (SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND parked_at IS NULL) AS pending,
		    (SELECT count(*) FROM outbox_events WHERE parked_at IS NOT NULL) AS parked,
		    coalesce((SELECT extract(epoch FROM now() - min(created_at)) FROM outbox_events
		        WHERE published_at IS NULL AND parked_at IS NULL), 0)::float8 AS oldest,
		    CASE WHEN EXISTS (SELECT FROM outbox_events WHERE dispatched_at IS NULL) THEN 0 ELSE
		    coalesce((SELECT extract(epoch FROM min(greatest(d.next_attempt_at, t.paused_until)) - now())
		        FROM event_deliveries d LEFT JOIN event_transports t USING (transport)
		        WHERE d.delivered_at IS NULL AND d.parked_at IS NULL AND d.transport = ANY(?)), 0)::float8 END AS next`,
		textArray(transports)).Scan(&left).Error
	return Remaining{
		Pending: left.Pending, Parked: left.Parked,
		Oldest: seconds(left.Oldest), Next: seconds(left.Next),
	}, mapped("count events", err)
}

func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }

// ParkedEvent is an event that was given up.
type ParkedEvent struct {
	ID        string
	JobID     uuid.UUID
	Transport string
	Attempts  int
	ParkedAt  time.Time
	Reason    string // of the last failure
}

// Parked lists parked deliveries, of one job unless that is nil, the oldest first.
func (s Outbox) Parked(ctx context.Context, job *uuid.UUID) ([]ParkedEvent, error) {
	parked := []ParkedEvent{}
	err := s.db.WithContext(ctx).Raw(`
		SELECT e.id, e.job_id, d.transport, d.attempts, d.parked_at, d.reason
		FROM event_deliveries d JOIN outbox_events e ON e.id = d.event_id
		WHERE d.parked_at IS NOT NULL AND (?::uuid IS NULL OR e.job_id = ?::uuid)
		ORDER BY d.parked_at, e.id, d.transport`, job, job).Scan(&parked).Error
	return parked, mapped("list parked events", err)
}

// Replay makes parked events due again, as if they were new, of one job unless that is nil, and returns how many.
func (s Outbox) Replay(ctx context.Context, job *uuid.UUID) (int64, error) {
	var n int64
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(`
			UPDATE event_deliveries d SET parked_at = NULL, attempts = 0, begun_at = now(), next_attempt_at = now()
			FROM outbox_events e WHERE e.id = d.event_id AND d.parked_at IS NOT NULL AND (?::uuid IS NULL OR e.job_id = ?::uuid)`,
			job, job).Error; err != nil {
			return err
		}
		result := tx.Exec(`UPDATE outbox_events SET parked_at = NULL WHERE parked_at IS NOT NULL AND (?::uuid IS NULL OR job_id = ?::uuid)`, job, job)
		if n = result.RowsAffected; result.Error != nil {
			return result.Error
		}
		return tx.Exec(`DELETE FROM event_transports`).Error
	})
	return n, mapped("replay events", err)
}

// Purge deletes up to limit events that were published longer than keep ago, and returns how many.
func (s Outbox) Purge(ctx context.Context, keep time.Duration, limit int) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`
		DELETE FROM outbox_events WHERE id IN (
		    SELECT id FROM outbox_events WHERE published_at <= now() - ? * interval '1 second' ORDER BY published_at LIMIT ?)`,
		keep.Seconds(), limit)
	return result.RowsAffected, mapped("purge events", result.Error)
}

// Open reports whether an event is neither published nor parked.
func (s Outbox) Open(ctx context.Context) (bool, error) {
	var open bool
	err := s.db.WithContext(ctx).Raw(`SELECT EXISTS (SELECT FROM outbox_events WHERE published_at IS NULL AND parked_at IS NULL)`).Scan(&open).Error
	return open, mapped("look for events", err)
}
