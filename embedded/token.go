package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Roles of development tokens.
const (
	RoleAdmin    = "admin"    // everything
	RoleOperator = "operator" // reads, creates, changes, tests, runs jobs, fetches documents
	RoleViewer   = "viewer"   // reads
	RoleMachine  = "machine"  // a program: what an operator may
)

// Types of development tokens. Any other type is a program too.
const (
	TypeUser        = "normal-user"
	TypeApplication = "application"
)

// Audience is the claim aud of every development token.
const Audience = "fetcher"

const defaultTTL = 24 * time.Hour

// TokenRequest says what a token shall claim. The zero value of a member leaves its default.
type TokenRequest struct {
	Tenant      string        // claim tenantId; empty leaves the claim out
	Role        string        // RoleAdmin by default; RoleMachine implies TypeApplication
	Type        string        // TypeUser by default
	Subject     string        // the role by default
	Owner       string        // the tenant by default; people only
	Permissions []string      // claim permissions, left out when empty
	AuthTime    time.Time     // claim auth_time; for people by default the time of issue, for programs left out
	TTL         time.Duration // 24 h by default; negative for a token that has expired already
}

// Mint signs a token in the name of the service that runs, or last ran, in the issuer's directory.
func (i *Issuer) Mint(r TokenRequest) (string, error) {
	url := i.URL()
	if url == "" {
		return "", ErrNoIssuer
	}
	r, err := r.withDefaults()
	if err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, r.claims(url, i.now()))
	token.Header["kid"] = i.kid
	signed, err := token.SignedString(i.key)
	if err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	return signed, nil
}

func (r TokenRequest) withDefaults() (TokenRequest, error) {
	if r.Role == "" {
		r.Role = RoleAdmin
	}
	switch r.Role {
	case RoleAdmin, RoleOperator, RoleViewer, RoleMachine:
	default:
		return r, errors.New("mint token: the role is one of admin, operator, viewer, machine")
	}
	if r.Type == "" {
		r.Type = TypeUser
		if r.Role == RoleMachine {
			r.Type = TypeApplication
		}
	}
	if r.Subject == "" {
		r.Subject = r.Role
	}
	if r.Owner == "" && r.Type == TypeUser {
		r.Owner = r.Tenant
	}
	if r.TTL == 0 {
		r.TTL = defaultTTL
	}
	return r, nil
}

func (r TokenRequest) claims(issuer string, now time.Time) jwt.MapClaims {
	expires := now.Add(r.TTL)
	issued := now
	if expires.Before(issued) {
		issued = expires.Add(-time.Hour) // an expired token was once valid
	}
	claims := jwt.MapClaims{
		"iss":  issuer,
		"aud":  Audience,
		"sub":  r.Subject,
		"type": r.Type,
		"role": r.Role,
		"iat":  issued.Unix(),
		"exp":  expires.Unix(),
		"jti":  uuid.NewString(),
	}
	if r.Type == TypeUser && r.AuthTime.IsZero() {
		r.AuthTime = issued
	}
	if !r.AuthTime.IsZero() {
		claims["auth_time"] = r.AuthTime.Unix()
	}
	for name, value := range map[string]string{"tenantId": r.Tenant, "owner": r.Owner} {
		if value != "" {
			claims[name] = value
		}
	}
	if len(r.Permissions) > 0 {
		claims["permissions"] = r.Permissions
	}
	return claims
}
