package auth

import "context"

// Disabled stands in for an Authenticator while authentication is off: every request runs as the anonymous principal of
// one tenant, which may do everything.
type Disabled struct {
	TenantID string
}

// Authenticate returns the anonymous principal, whatever the header says.
func (d Disabled) Authenticate(context.Context, []string) (*Principal, error) {
	return Anonymous(d.TenantID), nil
}

// Verify returns the anonymous principal, whatever the token.
func (d Disabled) Verify(context.Context, string) (*Principal, error) {
	return Anonymous(d.TenantID), nil
}

// AuthorizeFor is Authorize.
func (d Disabled) AuthorizeFor(ctx context.Context, p *Principal, _ Permission) error {
	return d.Authorize(ctx, p, "", "")
}

// Authorize permits the anonymous principal everything, and others nothing: problem.Forbidden.
func (d Disabled) Authorize(_ context.Context, p *Principal, _, _ string) error {
	if p == nil || p.Kind != KindAnon || p.TenantID != d.TenantID {
		return forbidden()
	}
	return nil
}

// Status reports that there is no identity service to be had.
func (Disabled) Status(context.Context) Status { return Status{State: StateNone} }
