package handlers

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	kataraEnvironments = "/katara/v1/orgs/{org_id}/environments"
	kataraEnvironment  = kataraEnvironments + "/{environment_id}"
	kataraSources      = kataraEnvironment + "/sources"
	kataraSource       = kataraSources + "/{id}"
	kataraObject       = kataraEnvironment + "/objects/{id}"

	tagSources = "web sources"
	tagObjects = "documents"
)

// What permissions on web documents are about.
const (
	resourceEnvironments = "environments"
	resourceSources      = "sources"
	resourceMemory       = "memory"

	actionRead = "read"
)

// The permissions on web documents.
var (
	mayManageEnvironments = grant{resourceEnvironments, "manage"}
	mayReadEnvironments   = grant{resourceEnvironments, actionRead}
	mayApproveSources     = grant{resourceSources, "approve"}
	mayReadSources        = grant{resourceSources, actionRead}
	maySyncSources        = grant{resourceSources, "sync"}
	mayReadMemory         = grant{resourceMemory, actionRead}
	mayWriteMemory        = grant{resourceMemory, "write"}
	mayDeleteMemory       = grant{resourceMemory, "delete"}
)

// Documents is what can be done with a tenant's environments, web sources and documents. Its errors are as
// documents.AsError takes them.
type Documents interface {
	environments
	sources
	fetches
	objects

	Ready() error // there is a content store
}

type environments interface {
	CreateEnvironment(ctx context.Context, lease *tenant.Lease, who documents.Caller, name string, once documents.Once[store.Environment]) (documents.Reply, error)
	Environments(ctx context.Context, lease *tenant.Lease, list documents.List) (documents.Page[store.Environment], error)
	Environment(ctx context.Context, lease *tenant.Lease, id uuid.UUID) (*store.Environment, error)
}

type sources interface {
	CreateSource(ctx context.Context, lease *tenant.Lease, environment uuid.UUID, who documents.Caller, in documents.NewSource, once documents.Once[store.Source]) (documents.Reply, error)
	Sources(ctx context.Context, lease *tenant.Lease, environment uuid.UUID, list documents.List) (documents.Page[store.Source], error)
	Source(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID) (*store.Source, error)
	ReconnectSource(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID, who documents.Caller, in documents.Reconnect, once documents.Once[store.Source]) (documents.Reply, error)
	DisconnectSource(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID, who documents.Caller, revision int64, once documents.Once[store.Source]) (documents.Reply, error)
}

type fetches interface {
	Sync(ctx context.Context, lease *tenant.Lease, in documents.SyncRequest) (documents.Reply, error)
	Fetches(ctx context.Context, lease *tenant.Lease, environment, source uuid.UUID, list documents.List) (documents.Page[store.Fetch], error)
	Fetch(ctx context.Context, lease *tenant.Lease, environment, source, id uuid.UUID) (*store.Fetch, error)
	Documents(ctx context.Context, lease *tenant.Lease, environment, source uuid.UUID, url string, list documents.List) (documents.Page[store.Object], error)
}

type objects interface {
	Object(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID) (*store.Object, error)
	DeleteObject(ctx context.Context, lease *tenant.Lease, environment, id uuid.UUID, who documents.Caller, once documents.Once[struct{}]) (documents.Reply, error)
	Versions(ctx context.Context, lease *tenant.Lease, environment, object uuid.UUID, list documents.List) (documents.Page[store.DocumentVersion], error)
	Version(ctx context.Context, lease *tenant.Lease, environment, object uuid.UUID, version int64) (*store.DocumentVersion, error)
	Content(ctx context.Context, lease *tenant.Lease, environment, object uuid.UUID, version int64) (*documents.Content, error)
}

// mountKatara mounts the operations on web documents.
func (e *edge) mountKatara() {
	e.documentSession()
	e.api.OpenAPI().Tags = append(e.api.OpenAPI().Tags,
		&huma.Tag{Name: tagSources, Description: "What an organisation has approved to be fetched from the web, and the fetches."},
		&huma.Tag{Name: tagObjects, Description: "What was fetched, version by version."})
	e.mountKataraSession()
	e.mountEnvironments()
	e.mountSources()
	e.mountSync()
	e.mountFetches()
	e.mountDocuments()
	e.mountObjects()
	e.mountContent()
}

// place is where the request is about: the organisation and environment of its path.
func place(ctx context.Context) (org, environment uuid.UUID) {
	ids := exchangeOf(ctx).katara.ids
	return ids[paramOrg], ids[paramEnvironment]
}

// pathID is the id in the path that has this name.
func pathID(ctx context.Context, name string) uuid.UUID { return exchangeOf(ctx).katara.ids[name] }
