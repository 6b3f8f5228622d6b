package handlers

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// CreateEnvironment is the body of create-environment.
type CreateEnvironment struct {
	Name *string `json:"name" required:"true" nullable:"false" minLength:"1" maxLength:"255"`
}

// Environment is an environment as it is answered.
type Environment struct {
	ID        uuid.UUID `json:"id" format:"uuid"`
	OrgID     uuid.UUID `json:"org_id" format:"uuid"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

func viewEnvironment(org uuid.UUID) func(store.Environment) Environment {
	return func(row store.Environment) Environment {
		return Environment{ID: row.ID, OrgID: org, Name: row.Name, CreatedAt: row.CreatedAt.UTC()}
	}
}

func (e *edge) mountEnvironments() {
	e.registerKatara(kataraOperation{
		id: "create-environment", method: http.MethodPost, path: kataraEnvironments, tag: tagSources,
		summary: "Create an environment", permissions: []grant{mayManageEnvironments}, human: true, key: keyHeeded,
		body: reflect.TypeFor[CreateEnvironment](), answer: reflect.TypeFor[Environment](), success: http.StatusCreated,
	}, e.createEnvironment)
	e.registerKatara(kataraOperation{
		id: "list-environments", method: http.MethodGet, path: kataraEnvironments, tag: tagSources,
		summary: "List environments", permissions: []grant{mayReadEnvironments}, params: listParams(),
		answer: reflect.TypeFor[listed[Environment]](),
	}, e.listEnvironments)
	e.registerKatara(kataraOperation{
		id: "get-environment", method: http.MethodGet, path: kataraEnvironment, tag: tagSources,
		summary: "Read an environment", permissions: []grant{mayReadEnvironments}, answer: reflect.TypeFor[Environment](),
	}, e.getEnvironment)
}

func (e *edge) createEnvironment(ctx context.Context, out huma.Context) error {
	in, err := decodeStrict[CreateEnvironment](ctx)
	if err != nil {
		return err
	}
	org, _ := place(ctx)
	once, err := onceOf(ctx, http.StatusCreated, viewEnvironment(org), func(made store.Environment) string {
		return fill(kataraEnvironment, org, made.ID)
	})
	if err != nil {
		return err
	}
	reply, err := e.opts.Documents.CreateEnvironment(ctx, tenant.FromContext(ctx), callerOf(ctx), *in.Name, once)
	if err != nil {
		return err
	}
	return e.reply(ctx, out, reply)
}

func (e *edge) listEnvironments(ctx context.Context, out huma.Context) error {
	list, _, err := listFrom(ctx)
	if err != nil {
		return err
	}
	page, err := e.opts.Documents.Environments(ctx, tenant.FromContext(ctx), list)
	if err != nil {
		return err
	}
	org, _ := place(ctx)
	return sendJSON(out, listOf(page, viewEnvironment(org)))
}

func (e *edge) getEnvironment(ctx context.Context, out huma.Context) error {
	org, id := place(ctx)
	found, err := e.opts.Documents.Environment(ctx, tenant.FromContext(ctx), id)
	if err != nil {
		return err
	}
	return sendJSON(out, viewEnvironment(org)(*found))
}

// fill puts ids into the places of a path, in order.
func fill(path string, ids ...uuid.UUID) string {
	for i, name := range namesIn(path) {
		path = strings.Replace(path, "{"+name+"}", ids[i].String(), 1)
	}
	return path
}
