package documents

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents/weburl"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Fetches lists the source's fetches, running ones too.
func (s *Service) Fetches(
	ctx context.Context, lease *tenant.Lease, environment, source uuid.UUID, list List,
) (Page[store.Fetch], error) {
	rows, err := s.settled(ctx, lease, environment, source)
	if err != nil {
		return Page[store.Fetch]{}, err
	}
	return paged(list, func(after store.Position, limit int) ([]store.Fetch, error) {
		return rows.Fetches(ctx, source, after, limit)
	}, func(f store.Fetch) (time.Time, uuid.UUID) { return f.StartedAt, f.ID })
}

// Fetch returns one of the source's fetches, or NotFound.
func (s *Service) Fetch(ctx context.Context, lease *tenant.Lease, environment, source, id uuid.UUID) (*store.Fetch, error) {
	rows, err := s.settled(ctx, lease, environment, source)
	if err != nil {
		return nil, err
	}
	return rows.Fetch(ctx, source, id)
}

// settled returns the queries once the source is known to exist and no dead fetch passes for a running one.
func (s *Service) settled(ctx context.Context, lease *tenant.Lease, environment, source uuid.UUID) (store.Documents, error) {
	rows := store.NewDocuments(lease.DB(ctx))
	if _, err := rows.Source(ctx, environment, source); err != nil {
		return rows, err
	}
	return rows, rows.SettleFetches(ctx, string(lapsed))
}

// Documents lists the pages of a source that have a document. url, unless empty, picks one.
func (s *Service) Documents(
	ctx context.Context, lease *tenant.Lease, environment, source uuid.UUID, url string, list List,
) (Page[store.Object], error) {
	if url != "" {
		u, err := weburl.Parse(url)
		if err != nil {
			return Page[store.Object]{}, Invalid("url", sentence(err))
		}
		url = u.String()
	}
	rows := store.NewDocuments(lease.DB(ctx))
	if _, err := rows.Source(ctx, environment, source); err != nil {
		return Page[store.Object]{}, err
	}
	return paged(list, func(after store.Position, limit int) ([]store.Object, error) {
		return rows.Pages(ctx, source, url, after, limit)
	}, func(o store.Object) (time.Time, uuid.UUID) { return o.CreatedAt, o.ID })
}

// Object returns one document of the environment, deleted or not, or NotFound.
func (s *Service) Object(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID) (*store.Object, error) {
	if err := s.Ready(); err != nil {
		return nil, err
	}
	return store.NewDocuments(lease.DB(ctx)).Object(ctx, environment, id)
}

// DeleteObject takes the page from the document: the next fetch of the page makes another one. The id stays taken, and
// the versions can still be read. A deleted document stays as it is.
func (s *Service) DeleteObject(
	ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID, who Caller, once Once[struct{}],
) (Reply, error) {
	if err := s.Ready(); err != nil {
		return Reply{}, err
	}
	return mutation[struct{}]{
		operation: opDeleteObject, environment: environment, who: who, once: once,
		content: []string{environment.String(), id.String()},
		change: func(rows store.Documents, operation uuid.UUID) (struct{}, error) {
			o, err := rows.LockObject(ctx, environment, id)
			if err != nil || !o.Bound {
				return struct{}{}, err
			}
			if err := rows.Unbind(ctx, o); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, rows.Audit(ctx, who.did("object.deleted", operation, store.AuditEvent{
				EnvironmentID: environment, SourceID: &o.SourceID, ObjectID: &o.ID,
			}))
		},
	}.run(ctx, s, lease)
}

// Versions lists the versions of a document.
func (s *Service) Versions(
	ctx context.Context, lease *tenant.Lease, environment, object uuid.UUID, list List,
) (Page[store.DocumentVersion], error) {
	none := Page[store.DocumentVersion]{}
	if _, err := s.Object(ctx, lease, environment, object); err != nil {
		return none, err
	}
	after, _, limit, err := list.bounds()
	if err != nil {
		return none, err
	}
	rows, err := store.NewDocuments(lease.DB(ctx)).DocumentVersions(ctx, environment, object, after, limit+1)
	if err != nil {
		return none, err
	}
	return cut(rows, limit, func(v store.DocumentVersion) string { return cursor(v.Version, uuid.Nil) }), nil
}

// Version returns one version of a document, or NotFound.
func (s *Service) Version(
	ctx context.Context, lease *tenant.Lease, environment, object uuid.UUID, version int64,
) (*store.DocumentVersion, error) {
	if err := s.Ready(); err != nil {
		return nil, err
	}
	return store.NewDocuments(lease.DB(ctx)).DocumentVersion(ctx, environment, object, version)
}
