package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Columns every transition sets.
const (
	colStatus        = "status"
	colNextAttemptAt = "next_attempt_at"
	colProgress      = "progress"

	colCancelRequestedAt = "cancel_requested_at"
)

// Claim starts the next attempt of a pending or processing job and returns the job as it stands then, with the
// attempt number that guards every later call.
//
// The caller holds the job's lease in the control database, so nobody else claims at the same time; should two
// claims meet all the same, each gets a number of its own and only the later one can commit.
// ErrNoJob: there is no such row. ErrTerminal: it has ended. ErrExhausted: maxAttempts claims, without the
// returned ones, are spent. ErrTooEarly: the job waits for its NextAttemptAt, which is after at. The row is left alone
// then; the last three also return the job.
func (s Jobs) Claim(ctx context.Context, id uuid.UUID, at time.Time, maxAttempts int) (*Job, error) {
	for {
		var claimed []Job
		err := s.db.WithContext(ctx).Model(&claimed).Clauses(clause.Returning{}).
			Where("id = ? AND status IN ?", id, []JobStatus{JobPending, JobProcessing}).
			Where("attempt - attempts_returned < ?", maxAttempts).
			Where("next_attempt_at IS NULL OR next_attempt_at <= ?", at).
			Updates(map[string]any{
				colStatus:        JobProcessing,
				"attempt":        gorm.Expr("attempt + 1"),
				"started_at":     at,
				colNextAttemptAt: nil,
				colProgress:      nil,
			}).Error
		if err != nil {
			return nil, mapped("claim job", err)
		}
		if len(claimed) == 1 {
			return &claimed[0], nil
		}
		job, err := s.find(ctx, id)
		switch {
		case err != nil:
			return nil, mapped("claim job", err)
		case job.Status.Terminal():
			return job, ErrTerminal
		case job.Attempt-job.AttemptsReturned >= maxAttempts:
			return job, ErrExhausted
		case job.NextAttemptAt != nil && job.NextAttemptAt.After(at):
			return job, ErrTooEarly
		}
		// It became claimable between the two statements.
	}
}

// SaveProgress stores how far the attempt has come; progress is JSON. ErrLostAttempt: the attempt is over.
// ErrCancelRequested: it has to end as canceled.
func (s Jobs) SaveProgress(ctx context.Context, id uuid.UUID, attempt int, progress []byte) error {
	result := unasked(s.current(ctx, id, attempt)).Update(colProgress, progress)
	return s.guarded(ctx, "save progress", id, attempt, result)
}

// Release puts a processing job back to pending. next is when it may be claimed again; nil: at once. returned says that
// the attempt was not spent. ErrLostAttempt: the attempt is over. ErrCancelRequested: it has to end as canceled.
func (s Jobs) Release(ctx context.Context, id uuid.UUID, attempt int, next *time.Time, returned bool) error {
	values := map[string]any{colStatus: JobPending, colNextAttemptAt: next, colProgress: nil}
	if returned {
		values["attempts_returned"] = gorm.Expr("attempts_returned + 1")
	}
	return s.guarded(ctx, "release job", id, attempt, unasked(s.current(ctx, id, attempt)).Updates(values))
}

// Complete ends the attempt with a result and writes ev to the outbox, both or neither.
// ErrLostAttempt: the job is not processing in this attempt; ErrCancelRequested: it has to end as canceled. Nothing was
// written then.
func (s Jobs) Complete(ctx context.Context, id uuid.UUID, attempt int, f CompleteFacts, ev Event) error {
	return s.end(ctx, "complete job", id, attempt, ev, func(tx Jobs) *gorm.DB {
		return unasked(tx.current(ctx, id, attempt)).Updates(map[string]any{
			colStatus:            JobCompleted,
			"completed_at":       ev.Time,
			colProgress:          nil,
			"result_path":        f.Path,
			"result_hmac":        f.HMAC,
			"result_sha256":      f.SHA256,
			"result_format":      f.Format,
			"result_size_bytes":  f.SizeBytes,
			"result_row_count":   f.RowCount,
			"result_key_version": f.KeyVersion,
			"result_tables":      f.Tables,
			"result_expires_at":  f.ExpiresAt,

			"result_manifest_bytes": f.ManifestBytes,
		})
	})
}

// Fail ends the job without a result and writes ev to the outbox, both or neither. It serves the attempt that is
// running and, for jobs refused or canceled before they ran, the pending job whose last attempt has that number.
// ErrLostAttempt: the job is in neither; ErrCancelRequested: f is another failure than FET-1025, but the job has to end
// as canceled. Nothing was written then.
func (s Jobs) Fail(ctx context.Context, id uuid.UUID, attempt int, f Failure, ev Event) error {
	return s.end(ctx, "fail job", id, attempt, ev, func(tx Jobs) *gorm.DB {
		return f.unlessCanceled(tx.in(ctx, id, attempt, JobPending, JobProcessing)).Updates(map[string]any{
			colStatus:          JobFailed,
			"completed_at":     ev.Time,
			colNextAttemptAt:   nil,
			colProgress:        nil,
			"error_code":       f.Code,
			"error_message":    f.Message,
			"error_datasource": orNull(f.Datasource),
			"error_table":      orNull(f.Table),
		})
	})
}

// end runs the guarded transition and writes its event in one transaction.
func (s Jobs) end(ctx context.Context, op string, id uuid.UUID, attempt int, ev Event, transition func(Jobs) *gorm.DB) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		jobs := Jobs{db: tx}
		if err := jobs.guarded(ctx, op, id, attempt, transition(jobs)); err != nil {
			return err
		}
		return insertEvent(tx, id, ev)
	})
	return mapped(op, err)
}

// current addresses the job while it is processing in that attempt.
func (s Jobs) current(ctx context.Context, id uuid.UUID, attempt int) *gorm.DB {
	return s.in(ctx, id, attempt, JobProcessing)
}

func (s Jobs) in(ctx context.Context, id uuid.UUID, attempt int, statuses ...JobStatus) *gorm.DB {
	return s.db.WithContext(ctx).Model(&Job{}).
		Where("id = ? AND attempt = ? AND status IN ?", id, attempt, statuses)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
