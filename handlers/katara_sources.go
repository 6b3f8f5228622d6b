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

// CreateSource is the body of create-source.
type CreateSource struct {
	Name       *string `json:"name" required:"true" nullable:"false" minLength:"1" maxLength:"255"`
	Origin     *string `json:"origin" required:"true" nullable:"false" maxLength:"2048" doc:"https, host, and a port if it is not 443." example:"https://docs.example.com"`
	PathPrefix *string `json:"path_prefix" required:"true" nullable:"false" minLength:"1" maxLength:"1024" doc:"/docs admits /docs and what is below /docs/." example:"/docs"`
}

// ReconnectSource is the body of reconnect-source.
type ReconnectSource struct {
	Origin     *string `json:"origin" required:"true" nullable:"false" maxLength:"2048" doc:"That of the approval that holds."`
	PathPrefix *string `json:"path_prefix" required:"true" nullable:"false" minLength:"1" maxLength:"1024" doc:"Equal to, or inside, that of the approval that holds."`
	Revision   *int64  `json:"revision" required:"true" nullable:"false" doc:"Of the source as it was read."`
}

// DisconnectSource is the body of disconnect-source.
type DisconnectSource struct {
	Revision *int64 `json:"revision" required:"true" nullable:"false" doc:"Of the source as it was read."`
}

// Source is an approved web source as it is answered.
type Source struct {
	ID            uuid.UUID       `json:"id" format:"uuid"`
	OrgID         uuid.UUID       `json:"org_id" format:"uuid"`
	EnvironmentID uuid.UUID       `json:"environment_id" format:"uuid"`
	Name          string          `json:"name"`
	Kind          string          `json:"kind" enum:"web"`
	Status        string          `json:"status" enum:"connected,disconnected"`
	Approval      SourceApproval  `json:"approval"`
	Revision      int64           `json:"revision" doc:"Grows at every change."`
	CreatedAt     time.Time       `json:"created_at"`
	UpdatedAt     time.Time       `json:"updated_at"`
	LastFetch     nullable[Ended] `json:"last_fetch" required:"true"`
}

// SourceApproval is what somebody has approved.
type SourceApproval struct {
	ID         uuid.UUID `json:"id" format:"uuid"`
	Origin     string    `json:"origin"`
	PathPrefix string    `json:"path_prefix"`
	ApprovedBy string    `json:"approved_by"`
	ApprovedAt time.Time `json:"approved_at"`
}

// Ended is the newest of a source's fetches that has ended.
type Ended struct {
	ID      uuid.UUID `json:"id" format:"uuid"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome" enum:"succeeded,refused,failed"`
}

func viewSource(org uuid.UUID) func(store.Source) Source {
	return func(row store.Source) Source {
		a := row.Approval
		out := Source{
			ID: row.ID, OrgID: org, EnvironmentID: row.EnvironmentID, Name: row.Name, Kind: "web", Status: string(row.Status),
			Approval: SourceApproval{
				ID: a.ID, Origin: a.Origin, PathPrefix: a.PathPrefix, ApprovedBy: a.ApprovedBy, ApprovedAt: a.ApprovedAt.UTC(),
			},
			Revision: row.Revision, CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC(),
		}
		if last := row.LastFetch; last != nil {
			out.LastFetch.value = &Ended{ID: last.ID, At: last.At.UTC(), Outcome: string(last.Outcome)}
		}
		return out
	}
}

func (e *edge) mountSources() {
	e.registerKatara(kataraOperation{
		id: "create-source", method: http.MethodPost, path: kataraSources, tag: tagSources,
		summary: "Approve a web origin and a path prefix below it", permissions: []grant{mayApproveSources}, human: true, recent: true,
		key: keyHeeded, body: reflect.TypeFor[CreateSource](), answer: reflect.TypeFor[Source](), success: http.StatusCreated,
		codes: []documents.Code{documents.QuotaExceeded},
	}, e.createSource)
	e.registerKatara(kataraOperation{
		id: "list-sources", method: http.MethodGet, path: kataraSources, tag: tagSources, summary: "List sources",
		permissions: []grant{mayReadSources}, params: listParams(), answer: reflect.TypeFor[listed[Source]](),
	}, e.listSources)
	e.registerKatara(kataraOperation{
		id: "get-source", method: http.MethodGet, path: kataraSource, tag: tagSources, summary: "Read a source",
		permissions: []grant{mayReadSources}, answer: reflect.TypeFor[Source](),
	}, e.getSource)
	e.registerKatara(kataraOperation{
		id: "reconnect-source", method: http.MethodPost, path: kataraSource + "/reconnect", tag: tagSources,
		summary: "Approve the same or less of a source, and connect it", permissions: []grant{mayApproveSources}, human: true, recent: true,
		key: keyHeeded, body: reflect.TypeFor[ReconnectSource](), answer: reflect.TypeFor[Source](),
		codes: []documents.Code{documents.RevisionConflict, documents.ApprovalCannotWiden},
	}, e.reconnectSource)
	e.registerKatara(kataraOperation{
		id: "disconnect-source", method: http.MethodPost, path: kataraSource + "/disconnect", tag: tagSources,
		summary: "Stop fetching from a source", description: "What was fetched stays readable.",
		permissions: []grant{mayApproveSources}, human: true, key: keyHeeded,
		body: reflect.TypeFor[DisconnectSource](), answer: reflect.TypeFor[Source](),
		codes: []documents.Code{documents.RevisionConflict},
	}, e.disconnectSource)
}

func (e *edge) createSource(ctx context.Context, out huma.Context) error {
	in, err := decodeStrict[CreateSource](ctx)
	if err != nil {
		return err
	}
	org, environment := place(ctx)
	once, err := onceOf(ctx, http.StatusCreated, viewSource(org), func(made store.Source) string {
		return fill(kataraSource, org, environment, made.ID)
	})
	if err != nil {
		return err
	}
	reply, err := e.opts.Documents.CreateSource(ctx, tenant.FromContext(ctx), environment, callerOf(ctx),
		documents.NewSource{Name: *in.Name, Origin: *in.Origin, PathPrefix: *in.PathPrefix}, once)
	if err != nil {
		return err
	}
	return e.reply(ctx, out, reply)
}

func (e *edge) listSources(ctx context.Context, out huma.Context) error {
	list, _, err := listFrom(ctx)
	if err != nil {
		return err
	}
	org, environment := place(ctx)
	page, err := e.opts.Documents.Sources(ctx, tenant.FromContext(ctx), environment, list)
	if err != nil {
		return err
	}
	return sendJSON(out, listOf(page, viewSource(org)))
}

func (e *edge) getSource(ctx context.Context, out huma.Context) error {
	org, environment := place(ctx)
	found, err := e.opts.Documents.Source(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID))
	if err != nil {
		return err
	}
	return sendJSON(out, viewSource(org)(*found))
}

func (e *edge) reconnectSource(ctx context.Context, out huma.Context) error {
	in, err := decodeStrict[ReconnectSource](ctx)
	if err != nil {
		return err
	}
	org, environment := place(ctx)
	once, err := onceOf(ctx, http.StatusOK, viewSource(org), nil)
	if err != nil {
		return err
	}
	reply, err := e.opts.Documents.ReconnectSource(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), callerOf(ctx),
		documents.Reconnect{Origin: *in.Origin, PathPrefix: *in.PathPrefix, Revision: *in.Revision}, once)
	if err != nil {
		return err
	}
	return e.reply(ctx, out, reply)
}

func (e *edge) disconnectSource(ctx context.Context, out huma.Context) error {
	in, err := decodeStrict[DisconnectSource](ctx)
	if err != nil {
		return err
	}
	org, environment := place(ctx)
	once, err := onceOf(ctx, http.StatusOK, viewSource(org), nil)
	if err != nil {
		return err
	}
	reply, err := e.opts.Documents.DisconnectSource(ctx, tenant.FromContext(ctx), environment, pathID(ctx, paramID), callerOf(ctx), *in.Revision, once)
	if err != nil {
		return err
	}
	return e.reply(ctx, out, reply)
}
