package auth

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// leeway is how far the clocks of issuer and gateway may differ.
	leeway = 30 * time.Second
	// tokenLife is how long a verified token is believed without verifying it again.
	tokenLife = time.Minute
	// maxTokens bounds the verified tokens that are kept.
	maxTokens = 8192
)

// algorithms are those a token may be signed with: none of them has a shared key.
func algorithms() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
}

// verified is a token that held under the keys of one generation.
type verified struct {
	principal  *Principal
	generation uint64
}

func (a *Authenticator) newParser(audience string) *jwt.Parser {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms()),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(a.now),
		jwt.WithStrictDecoding(),
	}
	if audience != "" {
		options = append(options, jwt.WithAudience(audience))
	}
	return jwt.NewParser(options...)
}

// Verify returns the principal of a bare token whose signature and claims hold. A missing or malformed tenant claim is
// not an error: TenantID is empty then.
//
// Errors are problem.Unauthenticated, or problem.Unavailable with RetryAfter when the key is not known and the identity
// service can't be asked. A token that held is believed for at most a minute, never past its exp and never longer than
// its key is published.
func (a *Authenticator) Verify(ctx context.Context, bearer string) (*Principal, error) {
	if len(bearer) > maxTokenBytes {
		return nil, a.refuse(errMalformed)
	}
	// Read before the token is checked: keys that change meanwhile make the outcome stale, not the reverse.
	generation := a.keys.generation()
	sum, now := digestOf(bearer), a.now()
	if v, ok := a.tokens.get(sum, now); ok && v.generation == generation {
		a.metrics.tokenCached.add()
		return v.principal, nil
	}
	p, err := a.verify(ctx, bearer)
	if err != nil {
		if why, ok := errors.AsType[refusal](err); ok {
			return nil, a.refuse(why)
		}
		a.metrics.tokenUnavailable.add()
		return nil, unavailable(err)
	}
	p.Token, p.seal = bearer, seal{of: bearer, sum: sum}
	a.metrics.tokenVerified.add()
	if until := earlier(now.Add(tokenLife), p.ExpiresAt); until.After(now) && generation > 0 {
		a.tokens.put(sum, verified{principal: p, generation: generation}, until)
	}
	return p, nil
}

func (a *Authenticator) refuse(why refusal) error {
	a.metrics.tokenRefused[why].add()
	return invalid(why)
}

// verify checks a token that is not cached. Errors are a refusal, or the cause why its key can't be had.
func (a *Authenticator) verify(ctx context.Context, bearer string) (*Principal, error) {
	if !wellFormed(bearer) {
		return nil, errMalformed
	}
	before := a.keys.generation()
	token, err := a.parser.ParseWithClaims(bearer, jwt.MapClaims{}, a.keyOf(ctx))
	if err != nil && keyless(token) && mayNeedKey(err) {
		// Without a kid, only the failure can tell that the key may be new.
		if err2 := a.keys.refreshUnknown(ctx); err2 != nil {
			return nil, err2
		}
		if a.keys.generation() != before {
			token, err = a.parser.ParseWithClaims(bearer, jwt.MapClaims{}, a.keyOf(ctx))
		}
	}
	if err != nil {
		return nil, classify(token, err)
	}
	claims, ok := token.Claims.(jwt.MapClaims)
	if !ok {
		return nil, errClaims
	}
	if issuer := a.keys.issuer(); issuer != "" && stringClaim(claims, "iss") != issuer {
		return nil, errIssuer
	}
	return principalOf(claims, a.tenantClaim)
}

// keyOf finds a token's key. Extensions that must be understood are refused first: none is.
func (a *Authenticator) keyOf(ctx context.Context) jwt.Keyfunc {
	find := a.keyfunc.KeyfuncCtx(ctx)
	return func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok {
			return nil, errCritical
		}
		key, err := find(t)
		if set, ok := key.(jwt.VerificationKeySet); ok && err == nil && len(set.Keys) == 0 {
			return nil, jwkset.ErrKeyNotFound
		}
		return key, err
	}
}

// keyless reports whether the token names no key although its algorithm needs one of ours.
func keyless(t *jwt.Token) bool {
	if !permitted(t) {
		return false
	}
	_, named := t.Header[jwkset.HeaderKID]
	return !named
}

func permitted(t *jwt.Token) bool {
	return t != nil && t.Method != nil && slices.Contains(algorithms(), t.Method.Alg())
}

func mayNeedKey(err error) bool {
	return errors.Is(err, jwt.ErrTokenSignatureInvalid) || errors.Is(err, jwkset.ErrKeyNotFound)
}

// classify turns a library's error into a refusal, or into the cause why keys can't be had. The library's text is
// dropped: it may quote the token.
func classify(t *jwt.Token, err error) error {
	var (
		why    refusal
		noKeys *keysError
	)
	switch {
	case errors.As(err, &why):
		return why
	case errors.As(err, &noKeys):
		return noKeys
	case errors.Is(err, jwkset.ErrKeyNotFound):
		return errUnknownKey
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errMalformed
	case !permitted(t), errors.Is(err, jwt.ErrTokenUnverifiable):
		return errAlgorithm
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return errExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return errNotYet
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return errAudience
	default:
		return errClaims
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
