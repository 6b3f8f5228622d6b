package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/problem"
)

// Cancel asks the job to end and returns it as it stands then. A pending job fails at once, with the event that ended
// makes of it, in one transaction guarded by its attempt. A processing one is marked: its attempt learns of that from
// ErrCancelRequested at its next write, and can end in no other way than canceled. Marking it again changes nothing.
// ErrTerminal: the job has ended, and is returned as well. FET-1001: there is no such job.
func (s Jobs) Cancel(ctx context.Context, id uuid.UUID, f Failure, ended func(*Job) (Event, error)) (*Job, error) {
	for {
		job, err := s.Get(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case job.Status.Terminal():
			return job, ErrTerminal
		case job.Status == JobPending:
			err = s.cancelPending(ctx, job, f, ended)
		default:
			err = s.requestCancel(ctx, job)
		}
		if err == nil {
			return s.Get(ctx, id)
		}
		if !errors.Is(err, ErrLostAttempt) {
			return nil, err
		}
		// It was claimed, released or ended in between.
	}
}

func (s Jobs) cancelPending(ctx context.Context, job *Job, f Failure, ended func(*Job) (Event, error)) error {
	ev, err := ended(job)
	if err != nil {
		return err
	}
	return s.Fail(ctx, job.ID, job.Attempt, f, ev)
}

func (s Jobs) requestCancel(ctx context.Context, job *Job) error {
	const op = "request cancel"
	result := s.in(ctx, job.ID, job.Attempt, JobProcessing).
		Update(colCancelRequestedAt, gorm.Expr("coalesce("+colCancelRequestedAt+", ?)", now()))
	if result.Error != nil {
		return mapped(op, result.Error)
	}
	if result.RowsAffected == 0 {
		return ErrLostAttempt
	}
	return nil
}

// unasked narrows an update to jobs that nobody asked to stop.
func unasked(q *gorm.DB) *gorm.DB { return q.Where(colCancelRequestedAt + " IS NULL") }

// guarded turns an update of the attempt that met no row into the reason for that: ErrCancelRequested if the attempt
// is current but was asked to stop, which is never taken back, else ErrLostAttempt.
func (s Jobs) guarded(ctx context.Context, op string, id uuid.UUID, attempt int, result *gorm.DB) error {
	if result.Error != nil {
		return mapped(op, result.Error)
	}
	if result.RowsAffected > 0 {
		return nil
	}
	var asked int64
	err := s.current(ctx, id, attempt).Where(colCancelRequestedAt + " IS NOT NULL").Count(&asked).Error
	switch {
	case err != nil:
		return mapped(op, err)
	case asked > 0:
		return ErrCancelRequested
	}
	return ErrLostAttempt
}

// unlessCanceled lets a failure other than the cancellation happen only to jobs that nobody asked to stop.
func (f Failure) unlessCanceled(q *gorm.DB) *gorm.DB {
	if f.Code == string(problem.JobCanceled) {
		return q
	}
	return unasked(q)
}
