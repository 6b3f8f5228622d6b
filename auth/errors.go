package auth

import (
	"errors"
	"time"

	"github.com/fetcherhq/fetcher/problem"
)

// ErrNoToken is the cause when a request carries no bearer token at all, as opposed to one that is not valid.
var ErrNoToken = errors.New("no bearer token")

// ErrClosed is the cause of failures after Close.
var ErrClosed = errors.New("authenticator is closed")

// What callers get to read. It says nothing of why a token was refused.
const (
	detailMissing     = "authentication is required"
	detailInvalid     = "the token is not valid"
	detailForbidden   = "the token does not permit this operation"
	detailUnavailable = "the identity service is unavailable"
)

// retryAfter is when a caller may try again after the identity service failed.
const retryAfter = 5 * time.Second

// refusal is the cause of a 401 that has a token: a bounded set, fit for logs and metrics.
type refusal string

const (
	errMalformed  refusal = "malformed"
	errAlgorithm  refusal = "algorithm"
	errCritical   refusal = "critical_header"
	errUnknownKey refusal = "unknown_key"
	errSignature  refusal = "signature"
	errExpired    refusal = "expired"
	errNotYet     refusal = "not_yet_valid"
	errIssuer     refusal = "issuer"
	errAudience   refusal = "audience"
	errSubject    refusal = "subject"
	errOwner      refusal = "owner"
	errClaims     refusal = "claims"
	errByService  refusal = "refused_by_service"
)

func refusals() []refusal {
	return []refusal{
		errMalformed, errAlgorithm, errCritical, errUnknownKey, errSignature, errExpired,
		errNotYet, errIssuer, errAudience, errSubject, errOwner, errClaims,
	}
}

func (r refusal) Error() string { return "token refused: " + string(r) }

// missing is the error of a request without a token.
func missing() error { return problem.Wrap(ErrNoToken, problem.Unauthenticated, detailMissing) }

// invalid is the error of a request with a token that is refused.
func invalid(why refusal) error { return problem.Wrap(why, problem.Unauthenticated, detailInvalid) }

func forbidden() error { return problem.New(problem.Forbidden, detailForbidden) }

func unavailable(cause error) error {
	return problem.Wrap(cause, problem.Unavailable, detailUnavailable).After(retryAfter)
}
