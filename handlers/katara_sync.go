package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// SyncSource is the body of sync-source.
type SyncSource struct {
	URL      *string `json:"url" required:"true" nullable:"false" minLength:"12" maxLength:"2048" doc:"https, without query and fragment." example:"https://docs.example.com/docs/start"`
	ObjectID *string `json:"object_id" required:"true" nullable:"false" format:"uuid" doc:"The id of the document, if the page has none yet."`
}

// Synced is a page that was fetched.
type Synced struct {
	FetchID   uuid.UUID `json:"fetch_id" format:"uuid"`
	URL       string    `json:"url" doc:"In canonical form."`
	Changed   bool      `json:"changed" doc:"The version is new."`
	Content   Content   `json:"content"`
	MediaType string    `json:"media_type" doc:"As the origin declared it."`
	SizeBytes int64     `json:"size_bytes" doc:"As fetched."`
}

func (e *edge) mountSync() {
	e.registerKatara(kataraOperation{
		id: "sync-source", method: http.MethodPost, path: kataraSource + "/sync", tag: tagSources,
		summary: "Fetch one page of a source",
		description: "The page is fetched once, now. Its first fetch makes the document object_id with version 1; later ones add a " +
			"version to it when what is stored of the page has changed.",
		permissions: []grant{maySyncSources, mayWriteMemory}, content: true, key: keyRequired,
		body: reflect.TypeFor[SyncSource](), answer: reflect.TypeFor[Synced](),
		codes: []documents.Code{
			documents.URLNotApproved, documents.DestinationRefused, documents.RedirectRefused, documents.UpstreamRefused,
			documents.ContentTooLarge, documents.UnsupportedMediaType, documents.ContentTypeMismatch, documents.ContentInvalid,
			documents.UpstreamUnavailable, documents.UpstreamIncomplete, documents.UpstreamTimeout, documents.UpstreamProtocolError,
			documents.SourceDisconnected, documents.ApprovalChanged, documents.ObjectIDInUse, documents.SyncInProgress,
			documents.QuotaExceeded,
		},
	}, e.syncSource)
}

func (e *edge) syncSource(ctx context.Context, out huma.Context) error {
	in, err := decodeStrict[SyncSource](ctx)
	if err != nil {
		return err
	}
	object, ok := parseUUID(*in.ObjectID)
	if !ok {
		return documents.Invalid("object_id", "The object_id must be a UUID.")
	}
	key, err := requiredKey(ctx)
	if err != nil {
		return err
	}
	org, environment := place(ctx)
	reply, err := e.opts.Documents.Sync(ctx, tenant.FromContext(ctx), documents.SyncRequest{
		EnvironmentID: environment, SourceID: pathID(ctx, paramID), URL: *in.URL, ObjectID: object, Caller: callerOf(ctx), Key: key,
		Render: func(r documents.SyncResult) (store.Answer, error) {
			body, failed := encodeJSON(viewSynced(org, r))
			return store.Answer{Status: http.StatusOK, Body: body}, failed
		},
		RenderError: renderError,
	})
	if !reply.Replayed {
		e.metrics.fetched(ctx, syncOutcome(reply, err))
	}
	if err != nil {
		return err
	}
	return e.reply(ctx, out, reply)
}

func viewSynced(org uuid.UUID, r documents.SyncResult) Synced {
	return Synced{
		FetchID: r.FetchID, URL: r.URL, Changed: r.Changed, Content: viewContent(org, r.Version), MediaType: r.MediaType, SizeBytes: r.SizeBytes,
	}
}

// syncOutcome is the code that a sync ended with; ok: it held.
func syncOutcome(reply documents.Reply, err error) string {
	if err != nil {
		return string(documents.AsError(err).Code)
	}
	var v ErrorEnvelope
	if reply.Status < http.StatusBadRequest || json.Unmarshal(reply.Body, &v) != nil {
		return outcomeOK
	}
	return string(v.Fault.Code)
}
