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

const queryURL = "url"

// DocumentRow is the document of one page of a source.
type DocumentRow struct {
	URL       string    `json:"url"`
	ObjectID  uuid.UUID `json:"object_id" format:"uuid"`
	Version   int64     `json:"version" doc:"The newest."`
	FetchID   uuid.UUID `json:"fetch_id" format:"uuid" doc:"The newest that succeeded."`
	FetchedAt time.Time `json:"fetched_at"`
}

func viewDocument(row store.Object) DocumentRow {
	return DocumentRow{URL: row.URL, ObjectID: row.ID, Version: row.Version, FetchID: row.LastFetchID, FetchedAt: row.LastFetchedAt.UTC()}
}

func (e *edge) mountDocuments() {
	e.registerKatara(kataraOperation{
		id: "list-source-documents", method: http.MethodGet, path: kataraSource + "/documents", tag: tagSources,
		summary: "List the pages of a source that have a document", permissions: []grant{mayReadSources},
		params: append(listParams(), queryParam(queryURL, "Only this page, in canonical form.", &huma.Schema{Type: huma.TypeString})),
		answer: reflect.TypeFor[listed[DocumentRow]](),
	}, e.listDocuments)
}

func (e *edge) listDocuments(ctx context.Context, out huma.Context) error {
	list, query, err := listFrom(ctx)
	if err != nil {
		return err
	}
	page, asked := lastOf(query, queryURL)
	if asked && page == "" {
		return documents.Invalid(queryURL, "The URL is empty.")
	}
	_, environment := place(ctx)
	rows, err := e.opts.Documents.Documents(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), page, list)
	if err != nil {
		return err
	}
	return sendJSON(out, listOf(rows, viewDocument))
}
