package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/problem"
)

// Jobs are the queries on a tenant's jobs and on the outbox that tells of their end.
type Jobs struct {
	db      *gorm.DB
	holding []ConnectionRef
	then    func(Idempotency, *Job) error
}

// NewJobs returns the queries on db, which belongs to exactly one tenant.
func NewJobs(db *gorm.DB) Jobs { return Jobs{db: db} }

// lockTimeout bounds the wait for another request that creates the same job.
const lockTimeout = "SET LOCAL lock_timeout = '3s'"

// CreateOnce stores job as pending, unless a duplicate stands in its way, which it then returns.
//
// A duplicate has the same request hash and is pending or processing, or was completed and is not older than window;
// a failed job never is one. Of any number of concurrent calls with one hash exactly one stores its job.
// enqueue runs inside the decision, before the row is written, and commits on its own: when it fails nothing is
// stored, and when what follows fails an entry is left behind that has no row.
func (s Jobs) CreateOnce(ctx context.Context, job *Job, window time.Duration, enqueue func(context.Context) error) (*Job, error) {
	var (
		existing *Job
		refused  error // enqueue's own error, which is not the tenant database's
	)
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(lockTimeout).Error; err != nil {
			return err
		}
		if err := tx.Exec("SELECT pg_advisory_xact_lock(hashtextextended(?, 1))", job.RequestHash).Error; err != nil {
			return err
		}
		var err error
		if existing, err = findDuplicate(tx, job.RequestHash, window); err != nil || existing != nil {
			return err
		}
		if err = s.hold(tx); err != nil {
			return err
		}
		if refused = enqueue(ctx); refused != nil {
			return refused
		}
		if err = insertJob(tx, job); err != nil || s.then == nil {
			return err
		}
		return s.then(Idempotency{db: tx}, job)
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, mapped("create job", err)
	}
	return existing, nil
}

func insertJob(tx *gorm.DB, job *Job) error {
	names, err := datasourceNames(job.MappedFields)
	if err != nil {
		return err
	}
	row := jobRow{Job: *job, Datasources: names}
	if row.Status == "" {
		row.Status = JobPending
	}
	if row.CreatedAt.IsZero() {
		row.CreatedAt = now()
	}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	*job = row.Job
	return nil
}

// FindDuplicate returns the newest job that suppresses another with the same hash, as CreateOnce has it, or nil.
func (s Jobs) FindDuplicate(ctx context.Context, hash string, window time.Duration) (*Job, error) {
	job, err := findDuplicate(s.db.WithContext(ctx), hash, window)
	if err != nil {
		return nil, mapped("find duplicate job", err)
	}
	return job, nil
}

func findDuplicate(q *gorm.DB, hash string, window time.Duration) (*Job, error) {
	var found []Job
	err := q.Where("request_hash = ? AND status <> ?", hash, JobFailed).
		Where("status <> ? OR created_at >= ?", JobCompleted, elapsed(window)).
		Order("created_at DESC, id DESC").Limit(1).Find(&found).Error
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Get returns the job, or FET-1001 when there is none with that id.
func (s Jobs) Get(ctx context.Context, id uuid.UUID) (*Job, error) {
	job, err := s.find(ctx, id)
	if errors.Is(err, ErrNoJob) {
		return nil, problem.New(problem.NotFoundInTenant, "job not found")
	}
	if err != nil {
		return nil, mapped("get job", err)
	}
	return job, nil
}

// Find returns the job, or ErrNoJob when there is none with that id.
func (s Jobs) Find(ctx context.Context, id uuid.UUID) (*Job, error) {
	job, err := s.find(ctx, id)
	return job, mapped("find job", err)
}

func (s Jobs) find(ctx context.Context, id uuid.UUID) (*Job, error) {
	var job Job
	err := s.db.WithContext(ctx).Where("id = ?", id).Take(&job).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, ErrNoJob
	}
	if err != nil {
		return nil, err
	}
	return &job, nil
}
