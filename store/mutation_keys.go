package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// KeyRecord is the state of one idempotency key of a mutation of documents.
type KeyRecord struct {
	Fingerprint []byte    // of the request
	OperationID uuid.UUID // of the attempt that owns the key
	Attempt     int       // counts the attempts, from 1
	Answer      *Answer   // nil: not finished
	Lapsed      bool      // not finished, and its owner had all the time it may take
	Expired     bool      // old enough to be forgotten
}

// ClaimKey claims the key for the operation: it stores a record that is owned until the lease ends and kept until it
// expires, and returns nil. When there is a record already, whatever its state, that is returned, and it stays as it is
// until the transaction ends. It waits for transactions that claim the same key.
func (s Documents) ClaimKey(
	ctx context.Context, scope, fingerprint []byte, operation uuid.UUID, lease, keep time.Duration,
) (*KeyRecord, error) {
	for {
		// The id is first: GORM would spread bytes after a parenthesis into a list of parameters.
		result := s.db.WithContext(ctx).Exec(`INSERT INTO mutation_keys (operation_id, scope, fingerprint, attempt, lease_until,
				expires_at)
			VALUES (?, ?, ?, 1, clock_timestamp() + ? * interval '1 second', clock_timestamp() + ? * interval '1 second')
			ON CONFLICT (scope) DO NOTHING`, operation, scope, fingerprint, lease.Seconds(), keep.Seconds())
		if result.Error != nil {
			return nil, mapped("claim key", result.Error)
		}
		if result.RowsAffected == 1 {
			return nil, s.forgetKeys(ctx)
		}
		record, err := s.lockKey(ctx, scope)
		if err != nil || record != nil {
			return record, err
		}
		// It was released between the two statements.
	}
}

// lockKey returns the record of the key and locks it, or nil.
func (s Documents) lockKey(ctx context.Context, scope []byte) (*KeyRecord, error) {
	var rows []struct {
		Fingerprint               []byte
		OperationID               uuid.UUID
		Attempt                   int
		Lapsed, Expired, Finished bool
		Answer                    Answer `gorm:"embedded"`
	}
	err := s.db.WithContext(ctx).Raw(`SELECT fingerprint, operation_id, attempt,
			status IS NULL AND lease_until <= clock_timestamp() AS lapsed, expires_at <= clock_timestamp() AS expired,
			status IS NOT NULL AS finished, coalesce(status, 0) AS status, location, etag, body
		FROM mutation_keys WHERE scope = ? FOR UPDATE`, scope).Scan(&rows).Error
	if err != nil {
		return nil, mapped("find key", err)
	}
	if len(rows) == 0 {
		return nil, nil //nolint:nilnil // none
	}
	r := rows[0]
	record := &KeyRecord{
		Fingerprint: r.Fingerprint, OperationID: r.OperationID, Attempt: r.Attempt, Lapsed: r.Lapsed, Expired: r.Expired,
	}
	if r.Finished {
		record.Answer = &r.Answer
	}
	return record, nil
}

// RenewKey makes the operation the owner of a key whose record ClaimKey returned in this transaction, as its next
// attempt, whose number is returned. An expired record starts anew.
func (s Documents) RenewKey(
	ctx context.Context, scope, fingerprint []byte, operation uuid.UUID, lease, keep time.Duration,
) (attempt int, err error) {
	err = s.db.WithContext(ctx).Raw(`UPDATE mutation_keys SET operation_id = ?, fingerprint = ?, attempt = attempt + 1,
			status = NULL, location = '', etag = '', body = NULL, lease_until = clock_timestamp() + ? * interval '1 second',
			expires_at = CASE WHEN expires_at <= clock_timestamp() THEN clock_timestamp() + ? * interval '1 second'
				ELSE expires_at END
		WHERE scope = ? RETURNING attempt`, operation, fingerprint, lease.Seconds(), keep.Seconds(), scope).Scan(&attempt).Error
	return attempt, mapped("renew key", err)
}

// FinishKey stores the answer. ErrClaimTaken: the attempt does not own an unfinished record of the key.
func (s Documents) FinishKey(ctx context.Context, scope []byte, operation uuid.UUID, attempt int, a Answer) error {
	result := s.db.WithContext(ctx).Exec(`UPDATE mutation_keys SET status = ?, location = ?, etag = ?, body = ?
		WHERE scope = ? AND operation_id = ? AND attempt = ? AND status IS NULL`,
		a.Status, a.Location, a.ETag, a.Body, scope, operation, attempt)
	if result.Error != nil {
		return mapped("finish key", result.Error)
	}
	if result.RowsAffected == 0 {
		return ErrClaimTaken
	}
	return nil
}

// ReleaseKey frees the key when the attempt owns an unfinished record of it; otherwise it does nothing.
func (s Documents) ReleaseKey(ctx context.Context, scope []byte, operation uuid.UUID, attempt int) error {
	return mapped("release key", s.db.WithContext(ctx).Exec(`DELETE FROM mutation_keys
		WHERE scope = ? AND operation_id = ? AND attempt = ? AND status IS NULL`, scope, operation, attempt).Error)
}

// forgetKeys deletes some records that have expired.
func (s Documents) forgetKeys(ctx context.Context) error {
	return mapped("forget keys", s.db.WithContext(ctx).Exec(`DELETE FROM mutation_keys WHERE scope IN (
		SELECT scope FROM mutation_keys WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT ?
		FOR UPDATE SKIP LOCKED)`, expiredAtOnce).Error)
}
