package documents

import (
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const maxName = 255

// checkName refuses names nobody could read.
func checkName(name string) error {
	valid, blank := utf8.ValidString(name), true
	for _, r := range name {
		valid = valid && !unicode.IsControl(r)
		blank = blank && unicode.IsSpace(r)
	}
	if !valid || blank || utf8.RuneCountInString(name) > maxName {
		return Invalid("name", "The name must have 1 to 255 characters, not only blanks and no control characters.")
	}
	return nil
}

// CreateEnvironment makes an environment.
func (s *Service) CreateEnvironment(
	ctx context.Context, lease *tenant.Lease, who Caller, name string, once Once[store.Environment],
) (Reply, error) {
	if err := checkName(name); err != nil {
		return Reply{}, err
	}
	return mutation[store.Environment]{
		operation: opCreateEnvironment, who: who, content: []string{name}, once: once,
		change: func(rows store.Documents, operation uuid.UUID) (store.Environment, error) {
			id, err := s.opts.NewID()
			if err != nil {
				return store.Environment{}, fmt.Errorf("make an id: %w", err)
			}
			e := store.Environment{ID: id, Name: name}
			if err := rows.CreateEnvironment(ctx, &e); err != nil {
				return e, err
			}
			return e, rows.Audit(ctx, who.did("environment.created", operation, store.AuditEvent{EnvironmentID: id}))
		},
	}.run(ctx, s, lease)
}

// did completes an audit event.
func (c Caller) did(action string, operation uuid.UUID, e store.AuditEvent) *store.AuditEvent {
	e.ID, e.Action, e.Actor, e.ActorKind = operation, action, c.Subject, c.Kind
	return &e
}

// Environments lists the tenant's environments.
func (s *Service) Environments(ctx context.Context, lease *tenant.Lease, list List) (Page[store.Environment], error) {
	rows := store.NewDocuments(lease.DB(ctx))
	return paged(list, func(after store.Position, limit int) ([]store.Environment, error) {
		return rows.Environments(ctx, after, limit)
	}, func(e store.Environment) (time.Time, uuid.UUID) { return e.CreatedAt, e.ID })
}

// Environment returns one environment, or NotFound.
func (s *Service) Environment(ctx context.Context, lease *tenant.Lease, id uuid.UUID) (*store.Environment, error) {
	return store.NewDocuments(lease.DB(ctx)).Environment(ctx, id)
}
