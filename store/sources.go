package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// sourceRow is a source with its approval and its last fetch in one row.
type sourceRow struct {
	ID, EnvironmentID    uuid.UUID
	Name                 string
	Status               SourceStatus
	ApprovalID           uuid.UUID
	Revision             int64
	CreatedAt, UpdatedAt time.Time

	Origin, PathPrefix, ApprovedBy string
	ApprovedAt                     time.Time

	LastID     *uuid.UUID
	LastAt     *time.Time
	LastStatus *FetchStatus
}

func (r sourceRow) source() Source {
	s := Source{
		ID: r.ID, EnvironmentID: r.EnvironmentID, Name: r.Name, Status: r.Status, Revision: r.Revision,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Approval: Approval{
			ID: r.ApprovalID, SourceID: r.ID, Origin: r.Origin, PathPrefix: r.PathPrefix,
			ApprovedBy: r.ApprovedBy, ApprovedAt: r.ApprovedAt,
		},
	}
	if r.LastID != nil && r.LastAt != nil && r.LastStatus != nil {
		s.LastFetch = &LastFetch{ID: *r.LastID, At: *r.LastAt, Outcome: *r.LastStatus}
	}
	return s
}

// sourceColumns are those of sourceRow. The newest ended fetch is found by going back over the few that run.
const (
	sourceColumns = `s.id, s.environment_id, s.name, s.status, s.approval_id, s.revision, s.created_at, s.updated_at,
		a.origin, a.path_prefix, a.approved_by, a.approved_at`
	sourceQuery = `SELECT ` + sourceColumns + `, f.id AS last_id, f.finished_at AS last_at, f.status AS last_status
		FROM sources s JOIN approvals a ON a.id = s.approval_id
		LEFT JOIN LATERAL (SELECT id, finished_at, status FROM fetches WHERE source_id = s.id AND status <> 'running'
			ORDER BY started_at DESC, id DESC LIMIT 1) f ON true
		WHERE s.environment_id = @environment`
)

// CreateSource stores s, connected, with its first approval, in the transaction s runs in. The times and the revision
// show in s.
func (s Documents) CreateSource(ctx context.Context, source *Source) error {
	source.Status, source.Revision, source.Approval.SourceID = SourceConnected, 1, source.ID
	err := s.db.WithContext(ctx).Raw(`INSERT INTO sources
			(id, environment_id, name, status, approval_id, revision, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, now(), now()) RETURNING created_at`, source.ID, source.EnvironmentID, source.Name, source.Status,
		source.Approval.ID, source.Revision).Scan(&source.CreatedAt).Error
	if err != nil {
		return mapped("create source", err)
	}
	source.UpdatedAt = source.CreatedAt
	return s.addApproval(ctx, &source.Approval)
}

func (s Documents) addApproval(ctx context.Context, a *Approval) error {
	err := s.db.WithContext(ctx).Raw(`INSERT INTO approvals (id, source_id, origin, path_prefix, approved_by, approved_at)
		VALUES (?, ?, ?, ?, ?, now()) RETURNING approved_at`, a.ID, a.SourceID, a.Origin, a.PathPrefix, a.ApprovedBy).
		Scan(&a.ApprovedAt).Error
	return mapped("store approval", err)
}

// Source returns the environment's source, or FET-1001.
func (s Documents) Source(ctx context.Context, environment, id uuid.UUID) (*Source, error) {
	return s.oneSource(ctx, sourceQuery+` AND s.id = @id`, environment, id)
}

// LockSource returns the environment's source without its last fetch, or FET-1001. Until the transaction ends nobody
// else changes it.
func (s Documents) LockSource(ctx context.Context, environment, id uuid.UUID) (*Source, error) {
	return s.lockSource(ctx, environment, id, "UPDATE")
}

// HoldSource is LockSource for those who don't change the source: they don't wait for each other.
func (s Documents) HoldSource(ctx context.Context, environment, id uuid.UUID) (*Source, error) {
	return s.lockSource(ctx, environment, id, "SHARE")
}

// lockSource locks the row first and reads the approval then: in one statement, a row that was waited for would come
// with the approval it had before.
func (s Documents) lockSource(ctx context.Context, environment, id uuid.UUID, strength string) (*Source, error) {
	var locked []uuid.UUID
	err := s.db.WithContext(ctx).Raw(`SELECT id FROM sources WHERE environment_id = ? AND id = ? FOR `+strength, environment, id).
		Scan(&locked).Error
	if err != nil {
		return nil, mapped("lock source", err)
	}
	return s.oneSource(ctx, `SELECT `+sourceColumns+` FROM sources s JOIN approvals a ON a.id = s.approval_id
		WHERE s.environment_id = @environment AND s.id = @id`, environment, id)
}

func (s Documents) oneSource(ctx context.Context, query string, environment, id uuid.UUID) (*Source, error) {
	var rows []sourceRow
	err := s.db.WithContext(ctx).Raw(query, map[string]any{"environment": environment, "id": id}).Scan(&rows).Error
	if err != nil {
		return nil, mapped("get source", err)
	}
	if len(rows) == 0 {
		return nil, missing("source")
	}
	source := rows[0].source()
	return &source, nil
}

// Sources returns at most limit of the environment's sources after the position.
func (s Documents) Sources(ctx context.Context, environment uuid.UUID, after Position, limit int) ([]Source, error) {
	query, args := sourceQuery, map[string]any{"environment": environment, "limit": limit}
	if after != (Position{}) {
		query += ` AND (s.created_at, s.id) > (@at, @after)`
		args["at"], args["after"] = after.At, after.ID
	}
	var rows []sourceRow
	err := s.db.WithContext(ctx).Raw(query+` ORDER BY s.created_at, s.id LIMIT @limit`, args).Scan(&rows).Error
	if err != nil {
		return nil, mapped("list sources", err)
	}
	sources := make([]Source, 0, len(rows))
	for _, r := range rows {
		sources = append(sources, r.source())
	}
	return sources, nil
}

// Approve connects a source that LockSource returned under another approval, whose time is the transaction's.
func (s Documents) Approve(ctx context.Context, source uuid.UUID, a Approval) error {
	a.SourceID = source
	if err := s.addApproval(ctx, &a); err != nil {
		return err
	}
	return s.changeSource(ctx, source, map[string]any{"approval_id": a.ID, colStatus: SourceConnected})
}

// Disconnect disconnects a source that LockSource returned.
func (s Documents) Disconnect(ctx context.Context, source uuid.UUID) error {
	return s.changeSource(ctx, source, map[string]any{colStatus: SourceDisconnected})
}

func (s Documents) changeSource(ctx context.Context, source uuid.UUID, values map[string]any) error {
	values["revision"], values["updated_at"] = gorm.Expr("revision + 1"), gorm.Expr("now()")
	return mapped("change source", s.db.WithContext(ctx).Table("sources").Where("id = ?", source).Updates(values).Error)
}
