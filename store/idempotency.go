package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// ErrClaimTaken says that somebody else owns the idempotency record by now; nothing was changed.
var ErrClaimTaken = errors.New("store: the idempotency record has another owner")

// Idempotency are the queries on the answers that are kept for repeated requests. All times are the database's.
type Idempotency struct{ db *gorm.DB }

// NewIdempotency returns the queries on db, which belongs to exactly one tenant.
func NewIdempotency(db *gorm.DB) Idempotency { return Idempotency{db: db} }

// Answer is what a finished request was answered with.
type Answer struct {
	Status   int
	Location string // empty: none
	ETag     string `gorm:"column:etag"` // empty: none
	Body     []byte
}

// IdempotencyRecord is the state of one key.
type IdempotencyRecord struct {
	Scope       []byte
	Token       uuid.UUID // of the attempt that owns it
	Fingerprint []byte    // of the request, sealed
	Answer      *Answer   // nil: not finished
	Lapsed      bool      // not finished, and its owner had all the time it may take
	Expired     bool      // old enough to be forgotten
}

// expiredAtOnce bounds how many old records one new one clears away: more than one, so that they can't pile up.
const expiredAtOnce = 10

// Open claims the key for the attempt named by token: it stores a record that is owned until the lease ends and kept
// until it expires, and returns nil. When there is a record already, whatever its state, that is returned and nothing
// changes.
func (s Idempotency) Open(
	ctx context.Context, scope []byte, token uuid.UUID, fingerprint []byte, lease, keep time.Duration,
) (*IdempotencyRecord, error) {
	for {
		// The token is first: GORM would spread bytes after a parenthesis into a list of parameters.
		result := s.db.WithContext(ctx).Exec(`INSERT INTO idempotency_records (token, scope, fingerprint, lease_until, expires_at)
			VALUES (?, ?, ?, now() + ? * interval '1 second', now() + ? * interval '1 second') ON CONFLICT (scope) DO NOTHING`,
			token, scope, fingerprint, lease.Seconds(), keep.Seconds())
		if result.Error != nil {
			return nil, mapped("open idempotency record", result.Error)
		}
		if result.RowsAffected == 1 {
			return nil, s.forget(ctx)
		}
		record, err := s.find(ctx, scope)
		if err != nil || record != nil {
			return record, err
		}
		// It was released between the two statements.
	}
}

// TakeOver makes token the owner of a record that was found lapsed or expired, if it still is as it was found, and
// reports whether. An expired one starts anew.
func (s Idempotency) TakeOver(
	ctx context.Context, found *IdempotencyRecord, token uuid.UUID, fingerprint []byte, lease, keep time.Duration,
) (bool, error) {
	result := s.db.WithContext(ctx).Exec(`UPDATE idempotency_records SET token = ?, fingerprint = ?, status = NULL,
			location = '', etag = '', body = NULL, lease_until = now() + ? * interval '1 second',
			expires_at = CASE WHEN expires_at <= now() THEN now() + ? * interval '1 second' ELSE expires_at END
		WHERE scope = ? AND token = ? AND (expires_at <= now() OR status IS NULL AND lease_until <= now())`,
		token, fingerprint, lease.Seconds(), keep.Seconds(), found.Scope, found.Token)
	if result.Error != nil {
		return false, mapped("take over idempotency record", result.Error)
	}
	return result.RowsAffected == 1, nil
}

// Finish stores the answer. ErrClaimTaken: token does not own an unfinished record of the key.
func (s Idempotency) Finish(ctx context.Context, scope []byte, token uuid.UUID, a Answer) error {
	result := s.db.WithContext(ctx).Exec(`UPDATE idempotency_records SET status = ?, location = ?, etag = ?, body = ?
		WHERE scope = ? AND token = ? AND status IS NULL`, a.Status, a.Location, a.ETag, a.Body, scope, token)
	if result.Error != nil {
		return mapped("finish idempotency record", result.Error)
	}
	if result.RowsAffected == 0 {
		return ErrClaimTaken
	}
	return nil
}

// Release frees the key when token owns an unfinished record of it; otherwise it does nothing.
func (s Idempotency) Release(ctx context.Context, scope []byte, token uuid.UUID) error {
	return mapped("release idempotency record", s.db.WithContext(ctx).Exec(
		"DELETE FROM idempotency_records WHERE scope = ? AND token = ? AND status IS NULL", scope, token).Error)
}

func (s Idempotency) find(ctx context.Context, scope []byte) (*IdempotencyRecord, error) {
	var rows []struct {
		Token           uuid.UUID
		Fingerprint     []byte
		Lapsed, Expired bool
		Finished        bool
		Answer          Answer `gorm:"embedded"`
	}
	err := s.db.WithContext(ctx).Raw(`SELECT token, fingerprint, status IS NULL AND lease_until <= now() AS lapsed,
			expires_at <= now() AS expired, status IS NOT NULL AS finished, coalesce(status, 0) AS status, location, etag, body
		FROM idempotency_records WHERE scope = ?`, scope).Scan(&rows).Error
	if err != nil {
		return nil, mapped("find idempotency record", err)
	}
	if len(rows) == 0 {
		return nil, nil //nolint:nilnil // none
	}
	r := rows[0]
	record := &IdempotencyRecord{Scope: scope, Token: r.Token, Fingerprint: r.Fingerprint, Lapsed: r.Lapsed, Expired: r.Expired}
	if r.Finished {
		record.Answer = &r.Answer
	}
	return record, nil
}

// forget deletes some records that have expired.
func (s Idempotency) forget(ctx context.Context) error {
	return mapped("forget idempotency records", s.db.WithContext(ctx).Exec(`DELETE FROM idempotency_records WHERE scope IN (
		SELECT scope FROM idempotency_records WHERE expires_at <= now() ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED)`,
		expiredAtOnce).Error)
}
