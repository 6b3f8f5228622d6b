package handlers

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/tenant"
)

// Session is who the caller is.
type Session struct {
	AccountID       string     `json:"account_id" doc:"What mutations with a cookie name in X-Katara-Account-ID."`
	Kind            string     `json:"kind" enum:"user,machine,anonymous"`
	OrgID           uuid.UUID  `json:"org_id" format:"uuid"`
	AuthenticatedAt *time.Time `json:"authenticated_at" required:"true" nullable:"true" doc:"When a person signed in."`
}

func (e *edge) mountKataraSession() {
	e.registerKatara(kataraOperation{
		id: "get-session", method: http.MethodGet, path: "/katara/v1/session", tag: tagSources,
		summary: "Tell who the caller is", tenantless: true, answer: reflect.TypeFor[Session](),
	}, func(ctx context.Context, out huma.Context) error {
		p := exchangeOf(ctx).principal
		session := Session{AccountID: accountOf(p), Kind: string(p.Kind), OrgID: tenant.OrgID(p.TenantID)}
		if !p.AuthenticatedAt.IsZero() {
			at := p.AuthenticatedAt.UTC()
			session.AuthenticatedAt = &at
		}
		return sendJSON(out, session)
	})
}
