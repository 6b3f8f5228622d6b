package handlers

import (
	"context"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/problem"
)

const (
	headerCSRF    = "X-Katara-CSRF"
	headerAccount = "X-Katara-Account-ID"

	sessionScheme = "session"
	maxAccount    = 512
)

// kataraIdentify verifies the bearer token or, where there is no Authorization at all, the session cookie, and that
// either names a tenant.
func (e *edge) kataraIdentify(ctx context.Context, _ kataraOperation) error {
	ex := exchangeOf(ctx)
	p, session, err := e.kataraCaller(ctx, ex)
	if err != nil {
		return err
	}
	ex.principal, ex.katara.session = p, session
	if p.TenantID == "" {
		return problem.New(problem.TenantMissing, "the token names no valid tenant")
	}
	return nil
}

func (e *edge) kataraCaller(ctx context.Context, ex *exchange) (p *auth.Principal, session bool, err error) {
	lines := ex.request.Header.Values("Authorization")
	cookies := ex.request.CookiesNamed(e.opts.SessionCookie)
	if len(lines) > 0 || len(cookies) == 0 {
		p, err = e.opts.Auth.Authenticate(ctx, lines)
		return p, false, err
	}
	if len(cookies) > 1 { // nobody can tell which one the browser was given by us
		return nil, false, documents.Fault(documents.AuthenticationRequired)
	}
	p, err = e.opts.Auth.Verify(ctx, cookies[0].Value)
	if err != nil {
		return nil, false, err
	}
	return p, p.Kind != auth.KindAnon, nil
}

// checkForgery refuses mutations with a cookie that a page of another origin may have sent.
func (e *edge) checkForgery(ctx context.Context, _ kataraOperation) error {
	ex := exchangeOf(ctx)
	if !ex.katara.session {
		return nil
	}
	header := ex.request.Header
	marks, origins := header.Values(headerCSRF), header.Values("Origin") //nolint:canonicalheader // the published spelling
	if len(marks) != 1 || marks[0] != "1" || len(origins) != 1 || !slices.Contains(e.opts.AllowedOrigins, origins[0]) {
		return documents.Fault(documents.CSRFRejected)
	}
	if slices.ContainsFunc(header.Values("Sec-Fetch-Site"), func(site string) bool { return strings.EqualFold(site, "cross-site") }) {
		return documents.Fault(documents.CSRFRejected)
	}
	return nil
}

// checkAccount makes sure that a page's mutation is meant for the account whose cookie the browser has by now.
func checkAccount(ctx context.Context, _ kataraOperation) error {
	ex := exchangeOf(ctx)
	if !ex.katara.session {
		return nil
	}
	named := ex.request.Header.Values(headerAccount) //nolint:canonicalheader // the published spelling
	switch {
	case len(named) == 1 && named[0] == accountOf(ex.principal):
		return nil
	case len(named) != 1 || !isAccount(named[0]):
		return documents.Invalid(headerAccount, "The header must name the account of the session once.")
	default:
		return documents.Fault(documents.AccountChanged)
	}
}

// isAccount reports whether the text could be an account at all.
func isAccount(text string) bool {
	invisible := func(r rune) bool { return r <= ' ' || r == 0x7f }
	return text != "" && len(text) <= maxAccount && !strings.ContainsFunc(text, invisible)
}

// accountOf names the caller: {owner}/{sub} of a person.
func accountOf(p *auth.Principal) string {
	if p.Account != "" {
		return p.Account
	}
	return p.Subject
}

// callerOf is who asks, as the operations take it.
func callerOf(ctx context.Context) documents.Caller {
	p := exchangeOf(ctx).principal
	return documents.Caller{Subject: p.Subject, Account: p.Account, Kind: string(p.Kind)}
}

// documentSession declares the session cookie in the document.
func (e *edge) documentSession() {
	e.api.OpenAPI().Components.SecuritySchemes[sessionScheme] = &huma.SecurityScheme{
		Type: "apiKey", In: "cookie", Name: e.opts.SessionCookie,
		Description: "The identity service's token. Mutations also need the headers " + headerCSRF + ", " + headerAccount + " and Origin.",
	}
}
