package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// ResultRef is a stored result.
type ResultRef struct {
	JobID         uuid.UUID
	Path          string // key of its object, or of the one that lists its objects
	SealedVersion int    // of the key that it is encrypted under
}

// Retention are the queries of whoever clears away what has expired. All times are the database's.
type Retention struct{ db *gorm.DB }

// NewRetention returns the queries on db, which belongs to exactly one tenant.
func NewRetention(db *gorm.DB) Retention { return Retention{db: db} }

// ExpiredResults returns up to limit results whose time is over, the longest first.
func (s Retention) ExpiredResults(ctx context.Context, limit int) ([]ResultRef, error) {
	return s.results(ctx, `result_expires_at <= now() ORDER BY result_expires_at`, limit)
}

// ResultsOfOldJobs returns up to limit results of jobs that ended longer than keep ago.
func (s Retention) ResultsOfOldJobs(ctx context.Context, keep time.Duration, limit int) ([]ResultRef, error) {
	return s.results(ctx, `completed_at <= now() - ? * interval '1 second' ORDER BY completed_at`, limit, keep.Seconds())
}

// SealedResults returns up to limit results that have not expired and are encrypted under another version, by id.
func (s Retention) SealedResults(ctx context.Context, but int, after uuid.UUID, limit int) ([]ResultRef, error) {
	return s.results(ctx, `result_expires_at > now() AND coalesce(result_sealed_version, result_key_version) <> ? AND id > ? ORDER BY id`,
		limit, but, after)
}

func (s Retention) results(ctx context.Context, where string, limit int, args ...any) ([]ResultRef, error) {
	found := []ResultRef{}
	err := s.db.WithContext(ctx).Raw(`SELECT id AS job_id, result_path AS path, coalesce(result_sealed_version, result_key_version) AS sealed_version
		FROM jobs WHERE status = 'completed' AND result_path IS NOT NULL AND `+where+` LIMIT ?`, append(args, limit)...).Scan(&found).Error
	return found, mapped("find results", err)
}

// SealedUnder notes that the result is encrypted under that version now.
func (s Retention) SealedUnder(ctx context.Context, ref ResultRef, version int) error {
	return mapped("note result's key", s.db.WithContext(ctx).Exec(
		`UPDATE jobs SET result_sealed_version = ? WHERE id = ? AND result_path = ?`, version, ref.JobID, ref.Path).Error)
}

// ForgetResult removes the facts of a result whose objects are deleted. When it expired, and its format, stay.
func (s Retention) ForgetResult(ctx context.Context, ref ResultRef) error {
	return mapped("forget result", s.db.WithContext(ctx).Exec(`
		UPDATE jobs SET result_path = NULL, result_hmac = NULL, result_sha256 = NULL, result_size_bytes = NULL, result_row_count = NULL,
		    result_key_version = NULL, result_sealed_version = NULL, result_tables = NULL, result_manifest_bytes = NULL,
		    result_expires_at = least(coalesce(result_expires_at, now()), now())
		WHERE id = ? AND result_path = ?`, ref.JobID, ref.Path).Error)
}

// DeleteJobs deletes up to limit jobs that ended longer than keep ago, with their events, and returns how many. It
// spares those with a result or with an event that may still be delivered.
func (s Retention) DeleteJobs(ctx context.Context, keep time.Duration, limit int) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`
		DELETE FROM jobs WHERE id IN (
		    SELECT id FROM jobs j WHERE completed_at <= now() - ? * interval '1 second' AND result_path IS NULL
		        AND NOT EXISTS (SELECT FROM outbox_events e WHERE e.job_id = j.id AND e.published_at IS NULL AND e.parked_at IS NULL)
		    ORDER BY completed_at LIMIT ?)`, keep.Seconds(), limit)
	return result.RowsAffected, mapped("delete jobs", result.Error)
}

// Unreferenced returns those of the jobs whose objects nobody refers to and nobody will: there is no such job, it failed,
// or its result was deleted.
func (s Retention) Unreferenced(ctx context.Context, jobs []uuid.UUID) ([]uuid.UUID, error) {
	names := make(textArray, 0, len(jobs))
	for _, id := range jobs {
		names = append(names, id.String())
	}
	found := []uuid.UUID{}
	err := s.db.WithContext(ctx).Raw(`
		SELECT o.id FROM unnest(?::uuid[]) AS o (id) LEFT JOIN jobs j ON j.id = o.id
		WHERE j.id IS NULL OR j.status = 'failed' OR j.status = 'completed' AND j.result_path IS NULL`, names).Scan(&found).Error
	return found, mapped("find unreferenced objects", err)
}
