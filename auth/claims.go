package auth

import (
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/fetcherhq/fetcher/tenantid"
)

// userType is the value of the claim type that marks a person.
const userType = "normal-user"

// maxTime is the last second of the year 9999. Dates beyond it are mistakes, and overflow arithmetic.
const maxTime = 253402300799

// principalOf reads a principal from verified claims. Claim names are compared exactly.
func principalOf(claims jwt.MapClaims, tenantClaim string) (*Principal, error) {
	expires, ok := timeClaim(claims, "exp")
	if !ok {
		return nil, errClaims
	}
	sub := stringClaim(claims, "sub")
	if sub == "" {
		return nil, errSubject
	}
	p := &Principal{
		Subject:     sub,
		Kind:        KindMachine,
		TenantID:    tenantOf(claims, tenantClaim),
		Permissions: permissionsOf(claims),
		ExpiresAt:   expires,
	}
	if stringClaim(claims, "type") == userType {
		owner := stringClaim(claims, "owner")
		if owner == "" {
			return nil, errOwner
		}
		p.Kind, p.Account = KindUser, owner+"/"+sub
		p.Subject = p.Account
	}
	if p.AuthenticatedAt, ok = timeClaim(claims, "auth_time"); !ok {
		p.AuthenticatedAt, _ = timeClaim(claims, "iat")
	}
	return p, nil
}

// tenantOf returns the canonical tenant id, or nothing if the claim is missing or malformed. The first claim that is
// there decides: a malformed one does not fall through to the next.
func tenantOf(claims jwt.MapClaims, name string) string {
	names := []string{"tenantId", "tenant_id"}
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		if v, ok := claims[n]; ok {
			id, _ := v.(string)
			canonical, _ := tenantid.Canonical(id)
			return canonical
		}
	}
	return ""
}

// permissionsOf joins the claims permissions (an array) and scope (separated by spaces).
func permissionsOf(claims jwt.MapClaims) []string {
	var granted []string
	granted = append(granted, strings.Fields(stringClaim(claims, "scope"))...)
	list, _ := claims["permissions"].([]any)
	for _, v := range list {
		if s, ok := v.(string); ok && s != "" {
			granted = append(granted, s)
		}
	}
	return granted
}

func stringClaim(claims jwt.MapClaims, name string) string {
	s, _ := claims[name].(string)
	return s
}

func timeClaim(claims jwt.MapClaims, name string) (time.Time, bool) {
	seconds, ok := claims[name].(float64)
	if !ok || seconds < 0 || seconds > maxTime {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0).UTC(), true
}
