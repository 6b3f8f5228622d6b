package handlers

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Fetch is one attempt to get one page as it is answered.
type Fetch struct {
	ID         uuid.UUID            `json:"id" format:"uuid"`
	SourceID   uuid.UUID            `json:"source_id" format:"uuid"`
	URL        string               `json:"url"`
	ObjectID   uuid.UUID            `json:"object_id" format:"uuid"`
	Status     string               `json:"status" enum:"running,succeeded,refused,failed"`
	Changed    *bool                `json:"changed" required:"true" nullable:"true"`
	Version    *int64               `json:"version" required:"true" nullable:"true"`
	MediaType  *string              `json:"media_type" required:"true" nullable:"true" doc:"As the origin declared it."`
	SizeBytes  *int64               `json:"size_bytes" required:"true" nullable:"true" doc:"As fetched."`
	Error      nullable[FetchFault] `json:"error" required:"true"`
	ApprovalID uuid.UUID            `json:"approval_id" format:"uuid"`
	Actor      string               `json:"actor"`
	StartedAt  time.Time            `json:"started_at"`
	FinishedAt *time.Time           `json:"finished_at" required:"true" nullable:"true"`
}

// FetchFault is why a fetch did not succeed.
type FetchFault struct {
	Code           string `json:"code"`
	UpstreamStatus *int   `json:"upstream_status" required:"true" nullable:"true"`
}

func viewFetch(row store.Fetch) Fetch {
	out := Fetch{
		ID: row.ID, SourceID: row.SourceID, URL: row.URL, ObjectID: row.ObjectID, Status: string(row.Status), Changed: row.Changed,
		Version: row.Version, MediaType: row.MediaType, SizeBytes: row.SizeBytes, ApprovalID: row.ApprovalID, Actor: row.Actor,
		StartedAt: row.StartedAt.UTC(),
	}
	if row.ErrorCode != nil {
		out.Error.value = &FetchFault{Code: *row.ErrorCode, UpstreamStatus: row.UpstreamStatus}
	}
	if row.FinishedAt != nil {
		at := row.FinishedAt.UTC()
		out.FinishedAt = &at
	}
	return out
}

func (e *edge) mountFetches() {
	e.registerKatara(kataraOperation{
		id: "list-source-fetches", method: http.MethodGet, path: kataraSource + "/fetches", tag: tagSources,
		summary: "List the fetches of a source", permissions: []grant{mayReadSources}, params: listParams(),
		answer: reflect.TypeFor[listed[Fetch]](),
	}, e.listFetches)
	e.registerKatara(kataraOperation{
		id: "get-source-fetch", method: http.MethodGet, path: kataraSource + "/fetches/{fetch_id}", tag: tagSources,
		summary: "Read a fetch", permissions: []grant{mayReadSources}, answer: reflect.TypeFor[Fetch](),
	}, e.getFetch)
}

func (e *edge) listFetches(ctx context.Context, out huma.Context) error {
	list, _, err := listFrom(ctx)
	if err != nil {
		return err
	}
	_, environment := place(ctx)
	page, err := e.opts.Documents.Fetches(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), list)
	if err != nil {
		return err
	}
	return sendJSON(out, listOf(page, viewFetch))
}

func (e *edge) getFetch(ctx context.Context, out huma.Context) error {
	_, environment := place(ctx)
	found, err := e.opts.Documents.Fetch(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), pathID(ctx, paramFetch))
	if err != nil {
		return err
	}
	return sendJSON(out, viewFetch(*found))
}
