package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// ErrOutcomeUnknown says that the database was lost while it committed: what was to be stored is stored, or not.
var ErrOutcomeUnknown = errors.New("store: it is unknown whether the transaction took effect")

// Documents are the queries on a tenant's environments, approved sources and the documents fetched from them. All times
// are the database's. What changes more than one row runs inside Atomically.
type Documents struct{ db *gorm.DB }

// NewDocuments returns the queries on db, which belongs to exactly one tenant.
func NewDocuments(db *gorm.DB) Documents { return Documents{db: db} }

// boundTransaction bounds how long the transaction waits for a lock, and how long a client that is gone without a word
// can hold one.
const boundTransaction = `SELECT set_config('lock_timeout', '3s', true),
	set_config('idle_in_transaction_session_timeout', '15s', true)`

// Atomically runs fn with queries of one transaction, which takes effect if fn returns nil and otherwise not at all. It
// waits for rows that others change no longer than 3 s at a time (FET-0003). An error of fn's is returned as it is.
// ErrOutcomeUnknown: the database was lost after fn.
func (s Documents) Atomically(ctx context.Context, fn func(Documents) error) error {
	var refused error
	done := false
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(boundTransaction).Error; err != nil {
			return err
		}
		refused = fn(Documents{db: tx})
		done = refused == nil
		return refused
	})
	switch {
	case err == nil:
		return nil
	case refused != nil:
		return refused
	case done && pgerr.State(err) == "": // the server didn't say no
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, mapped("commit", err))
	}
	return mapped("run transaction", err)
}

// Position is where a listing goes on: after the row that was created then and has that id. The zero Position is before
// all rows.
type Position struct {
	At time.Time
	ID uuid.UUID
}

// after narrows q to the rows behind the position, in the order of the columns.
func (p Position) after(q *gorm.DB, created string, limit int) *gorm.DB {
	if p != (Position{}) {
		q = q.Where("("+created+", id) > (?, ?)", p.At, p.ID)
	}
	return q.Order(created + ", id").Limit(limit)
}

func missing(what string) error { return problem.New(problem.NotFoundInTenant, what+" not found") }

// take returns the only row of q, or FET-1001 when there is none.
func take[T any](q *gorm.DB, what string) (*T, error) {
	var row T
	err := q.Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, missing(what)
	}
	if err != nil {
		return nil, mapped("get "+what, err)
	}
	return &row, nil
}

// list returns the rows of q.
func list[T any](q *gorm.DB, what string) ([]T, error) {
	rows := []T{}
	if err := q.Find(&rows).Error; err != nil {
		return nil, mapped("list "+what, err)
	}
	return rows, nil
}

// CreateEnvironment stores e and sets its CreatedAt.
func (s Documents) CreateEnvironment(ctx context.Context, e *Environment) error {
	err := s.db.WithContext(ctx).Raw(`INSERT INTO environments (id, name, created_at) VALUES (?, ?, clock_timestamp())
		RETURNING created_at`, e.ID, e.Name).Scan(&e.CreatedAt).Error
	return mapped("create environment", err)
}

// Environment returns the environment, or FET-1001.
func (s Documents) Environment(ctx context.Context, id uuid.UUID) (*Environment, error) {
	return take[Environment](s.db.WithContext(ctx).Where("id = ?", id), "environment")
}

// Environments returns at most limit environments after the position.
func (s Documents) Environments(ctx context.Context, after Position, limit int) ([]Environment, error) {
	return list[Environment](after.after(s.db.WithContext(ctx), "created_at", limit), "environments")
}

// Audit stores the event, with the time of the transaction.
func (s Documents) Audit(ctx context.Context, e *AuditEvent) error {
	return mapped("audit", s.db.WithContext(ctx).Omit("At").Create(e).Error)
}

// Now returns the database's clock, which goes on within a transaction.
func (s Documents) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.db.WithContext(ctx).Raw("SELECT clock_timestamp()").Scan(&now).Error
	return now, mapped("ask the time", err)
}
