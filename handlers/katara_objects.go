package handlers

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Object is one document as it is answered.
type Object struct {
	ID            uuid.UUID              `json:"id" format:"uuid"`
	OrgID         uuid.UUID              `json:"org_id" format:"uuid"`
	EnvironmentID uuid.UUID              `json:"environment_id" format:"uuid"`
	Version       int64                  `json:"version" doc:"The newest."`
	Origin        nullable[ObjectOrigin] `json:"origin" required:"true"`
	CreatedAt     time.Time              `json:"created_at"`
}

// ObjectOrigin is the page whose versions a document holds.
type ObjectOrigin struct {
	SourceID uuid.UUID `json:"source_id" format:"uuid"`
	URL      string    `json:"url"`
}

// Content is what is stored of one fetch.
type Content struct {
	OrgID         uuid.UUID `json:"org_id" format:"uuid"`
	EnvironmentID uuid.UUID `json:"environment_id" format:"uuid"`
	ID            uuid.UUID `json:"id" format:"uuid" doc:"Of the document."`
	Version       int64     `json:"version" minimum:"1"`
	Integrity     string    `json:"integrity" pattern:"^sha256:[0-9a-f]{64}$" doc:"Of the bytes that the download serves."`
	MediaType     string    `json:"media_type" doc:"As stored."`
	SizeBytes     int64     `json:"size_bytes" minimum:"0"`
}

// Version is one version of a document.
type Version struct {
	Content

	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	FetchID   uuid.UUID `json:"fetch_id" format:"uuid"`
}

func viewObject(org uuid.UUID, row *store.Object) Object {
	out := Object{ID: row.ID, OrgID: org, EnvironmentID: row.EnvironmentID, Version: row.Version, CreatedAt: row.CreatedAt.UTC()}
	if row.Bound {
		out.Origin.value = &ObjectOrigin{SourceID: row.SourceID, URL: row.URL}
	}
	return out
}

func viewContent(org uuid.UUID, row store.DocumentVersion) Content {
	return Content{
		OrgID: org, EnvironmentID: row.EnvironmentID, ID: row.ObjectID, Version: row.Version,
		Integrity: documents.Integrity(row), MediaType: row.MediaType, SizeBytes: row.SizeBytes,
	}
}

func viewVersion(org uuid.UUID) func(store.DocumentVersion) Version {
	return func(row store.DocumentVersion) Version {
		return Version{Content: viewContent(org, row), CreatedAt: row.CreatedAt.UTC(), CreatedBy: row.CreatedBy, FetchID: row.FetchID}
	}
}

func (e *edge) mountObjects() {
	read := kataraOperation{method: http.MethodGet, tag: tagObjects, permissions: []grant{mayReadMemory}, content: true}

	op := read
	op.id, op.path, op.summary, op.answer = "get-object", kataraObject, "Read a document", reflect.TypeFor[Object]()
	e.registerKatara(op, e.getObject)

	op = read
	op.id, op.path, op.summary, op.answer = "list-object-versions", kataraObject+"/versions", "List the versions of a document", reflect.TypeFor[listed[Version]]()
	op.params = listParams()
	e.registerKatara(op, e.listVersions)

	op = read
	op.id, op.path, op.summary, op.answer = "get-object-version", kataraObject+"/versions/{version}", "Read about one version", reflect.TypeFor[Version]()
	e.registerKatara(op, e.getVersion)

	e.registerKatara(kataraOperation{
		id: "delete-object", method: http.MethodDelete, path: kataraObject, tag: tagObjects, summary: "Delete a document",
		description: "Its page can become another document's; the id stays taken.",
		permissions: []grant{mayDeleteMemory}, human: true, content: true, key: keyHeeded, success: http.StatusNoContent,
	}, e.deleteObject)
}

func (e *edge) getObject(ctx context.Context, out huma.Context) error {
	org, environment := place(ctx)
	found, err := e.opts.Documents.Object(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID))
	if err != nil {
		return err
	}
	return sendJSON(out, viewObject(org, found))
}

func (e *edge) listVersions(ctx context.Context, out huma.Context) error {
	list, _, err := listFrom(ctx)
	if err != nil {
		return err
	}
	org, environment := place(ctx)
	page, err := e.opts.Documents.Versions(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), list)
	if err != nil {
		return err
	}
	return sendJSON(out, listOf(page, viewVersion(org)))
}

func (e *edge) getVersion(ctx context.Context, out huma.Context) error {
	org, environment := place(ctx)
	found, err := e.opts.Documents.Version(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), exchangeOf(ctx).katara.version)
	if err != nil {
		return err
	}
	return sendJSON(out, viewVersion(org)(*found))
}

func (e *edge) deleteObject(ctx context.Context, out huma.Context) error {
	key, err := optionalKey(ctx)
	if err != nil {
		return err
	}
	_, environment := place(ctx)
	once := documents.Once[struct{}]{Key: key, Render: func(struct{}) (store.Answer, error) {
		return store.Answer{Status: http.StatusNoContent}, nil
	}}
	reply, err := e.opts.Documents.DeleteObject(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), callerOf(ctx), once)
	if err != nil {
		return err
	}
	return e.reply(ctx, out, reply)
}
