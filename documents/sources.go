package documents

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents/weburl"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// parseApproval reads an approval as a caller sends it.
func (s *Service) parseApproval(origin, prefix string) (weburl.Approval, error) {
	o, err := weburl.ParseOrigin(origin, s.opts.AllowedPorts)
	if err != nil {
		return weburl.Approval{}, Invalid("origin", sentence(err))
	}
	p, err := weburl.ParsePrefix(prefix)
	if err != nil {
		return weburl.Approval{}, Invalid("path_prefix", sentence(err))
	}
	return weburl.Approval{Origin: o, Prefix: p}, nil
}

// admitted returns what an approval admits now. One for a port that may no longer be used admits nothing.
func (s *Service) admitted(a store.Approval) weburl.Approval {
	approval, err := s.parseApproval(a.Origin, a.PathPrefix)
	if err != nil {
		return weburl.Approval{}
	}
	return approval
}

// CreateSource makes a source with its first approval.
func (s *Service) CreateSource(
	ctx context.Context, lease *tenant.Lease, environment uuid.UUID, who Caller, in NewSource, once Once[store.Source],
) (Reply, error) {
	if err := checkName(in.Name); err != nil {
		return Reply{}, err
	}
	approval, err := s.parseApproval(in.Origin, in.PathPrefix)
	if err != nil {
		return Reply{}, err
	}
	origin, prefix := approval.Origin.String(), approval.Prefix.String()
	return mutation[store.Source]{
		operation: opCreateSource, environment: environment, who: who, once: once,
		content: []string{environment.String(), in.Name, origin, prefix},
		change: func(rows store.Documents, operation uuid.UUID) (store.Source, error) {
			if _, err = rows.Environment(ctx, environment); err != nil {
				return store.Source{}, err
			}
			source := store.Source{EnvironmentID: environment, Name: in.Name}
			if source.ID, err = s.opts.NewID(); err != nil {
				return source, fmt.Errorf("make an id: %w", err)
			}
			if source.Approval, err = s.approval(who, origin, prefix); err != nil {
				return source, err
			}
			if err := rows.CreateSource(ctx, &source); err != nil {
				return source, err
			}
			return source, rows.Audit(ctx, who.did("source.approved", operation, about(&source)))
		},
	}.run(ctx, s, lease)
}

func (s *Service) approval(who Caller, origin, prefix string) (store.Approval, error) {
	id, err := s.opts.NewID()
	if err != nil {
		return store.Approval{}, fmt.Errorf("make an id: %w", err)
	}
	return store.Approval{ID: id, Origin: origin, PathPrefix: prefix, ApprovedBy: who.Subject}, nil
}

func about(source *store.Source) store.AuditEvent {
	return store.AuditEvent{EnvironmentID: source.EnvironmentID, SourceID: &source.ID, ApprovalID: &source.Approval.ID}
}

// Sources lists the environment's sources.
func (s *Service) Sources(
	ctx context.Context, lease *tenant.Lease, environment uuid.UUID, list List,
) (Page[store.Source], error) {
	rows := store.NewDocuments(lease.DB(ctx))
	if _, err := rows.Environment(ctx, environment); err != nil {
		return Page[store.Source]{}, err
	}
	return paged(list, func(after store.Position, limit int) ([]store.Source, error) {
		return rows.Sources(ctx, environment, after, limit)
	}, func(source store.Source) (time.Time, uuid.UUID) { return source.CreatedAt, source.ID })
}

// Source returns one source of the environment, or NotFound.
func (s *Service) Source(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID) (*store.Source, error) {
	return store.NewDocuments(lease.DB(ctx)).Source(ctx, environment, id)
}

// ReconnectSource connects the source under a new approval, which is equal to or narrower than the one it has, connected
// or not.
func (s *Service) ReconnectSource(
	ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID, who Caller, in Reconnect, once Once[store.Source],
) (Reply, error) {
	wanted, err := s.parseApproval(in.Origin, in.PathPrefix)
	if err != nil {
		return Reply{}, err
	}
	origin, prefix := wanted.Origin.String(), wanted.Prefix.String()
	return mutation[store.Source]{
		operation: opReconnectSource, environment: environment, who: who, once: once,
		content: []string{environment.String(), id.String(), origin, prefix, strconv.FormatInt(in.Revision, 10)},
		change: func(rows store.Documents, operation uuid.UUID) (store.Source, error) {
			source, err := current(ctx, rows, environment, id, in.Revision)
			if err != nil {
				return store.Source{}, err
			}
			if !wanted.Narrower(s.admitted(source.Approval)) {
				return *source, &Error{Code: ApprovalCannotWiden, SnapshotRef: source.Approval.ID}
			}
			approval, err := s.approval(who, origin, prefix)
			if err != nil {
				return *source, err
			}
			if err := rows.Approve(ctx, id, approval); err != nil {
				return *source, err
			}
			return changed(ctx, rows, source, who, "source.reconnected", operation)
		},
	}.run(ctx, s, lease)
}

// DisconnectSource ends all fetching from the source. What was fetched stays. A disconnected source stays as it is.
func (s *Service) DisconnectSource(
	ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID, who Caller, revision int64, once Once[store.Source],
) (Reply, error) {
	return mutation[store.Source]{
		operation: opDisconnectSource, environment: environment, who: who, once: once,
		content: []string{environment.String(), id.String(), strconv.FormatInt(revision, 10)},
		change: func(rows store.Documents, operation uuid.UUID) (store.Source, error) {
			source, err := current(ctx, rows, environment, id, revision)
			if err != nil {
				return store.Source{}, err
			}
			if source.Status == store.SourceConnected {
				if err := rows.Disconnect(ctx, id); err != nil {
					return *source, err
				}
			}
			return changed(ctx, rows, source, who, "source.disconnected", operation)
		},
	}.run(ctx, s, lease)
}

// current locks the source, which must be at the revision.
func current(ctx context.Context, rows store.Documents, environment, id uuid.UUID, revision int64) (*store.Source, error) {
	source, err := rows.LockSource(ctx, environment, id)
	if err != nil {
		return nil, err
	}
	if source.Revision != revision {
		return nil, &Error{Code: RevisionConflict, Param: "revision"}
	}
	return source, nil
}

// changed audits a change of the source, if there was one, and returns it as it is now.
func changed(
	ctx context.Context, rows store.Documents, before *store.Source, who Caller, action string, operation uuid.UUID,
) (store.Source, error) {
	now, err := rows.Source(ctx, before.EnvironmentID, before.ID)
	if err != nil {
		return *before, err
	}
	if now.Revision == before.Revision {
		return *now, nil
	}
	return *now, rows.Audit(ctx, who.did(action, operation, about(now)))
}
