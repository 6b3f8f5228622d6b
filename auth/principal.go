// Package auth owns the way from a token to a Principal: the identity service's keys, local verification,
// the authorisation call and the bounded caches of both.
//
// It talks to the identity service only. It promises never to let a request pass because a dependency failed.
package auth

import (
	"context"
	"log/slog"
	"time"
)

// Kind tells people from machines.
type Kind string

// The kinds of principal.
const (
	KindUser    Kind = "user"    // claim type is normal-user
	KindMachine Kind = "machine" // any other type
	KindAnon    Kind = "anonymous"
)

// Principal is a verified caller. One value serves many requests at once: it is read-only.
type Principal struct {
	Subject         string // who it is in logs and idempotency scopes: {owner}/{sub} for people, sub for machines
	TenantID        string // from the verified claim, canonical; never from the request; empty: missing or malformed
	Kind            Kind
	Account         string    // {owner}/{sub} for people
	Permissions     []string  // of the token, used in claims mode
	AuthenticatedAt time.Time // claim auth_time, else iat
	ExpiresAt       time.Time
	Token           string // the bare token, for the authorisation call only; never logged

	seal seal
}

// seal is the digest of a token, kept so that authorisation need not hash it again.
type seal struct {
	of  string
	sum digest
}

// Anonymous returns the principal that every request runs as while authentication is disabled.
func Anonymous(tenantID string) *Principal {
	return &Principal{Subject: string(KindAnon), TenantID: tenantID, Kind: KindAnon}
}

// String names the principal without its token.
func (p Principal) String() string { return string(p.Kind) + " " + p.Subject }

// GoString is String, so that %#v shows no token either.
func (p Principal) GoString() string { return p.String() }

// LogValue shows who the principal is, without its token.
func (p Principal) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("subject", p.Subject),
		slog.String("tenant", p.TenantID),
		slog.String("kind", string(p.Kind)),
	)
}

// digestFor returns the digest of the principal's token as it is now: a copy may have been given another one.
func digestFor(p *Principal) digest {
	if p.seal.of == p.Token && p.Token != "" {
		return p.seal.sum
	}
	return digestOf(p.Token)
}

type contextKey struct{}

// NewContext returns ctx with the principal.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal of the request, or nil.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}
