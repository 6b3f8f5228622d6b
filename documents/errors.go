package documents

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
)

// Code is a stable, published error code of the operations on documents.
type Code string

// The catalogue. A code's meaning never changes; Info gives its status, type and action.
const (
	InvalidRequest           Code = "invalid_request"
	AuthenticationRequired   Code = "authentication_required"
	HumanSessionRequired     Code = "human_session_required"
	ReauthenticationRequired Code = "reauthentication_required"
	CSRFRejected             Code = "csrf_rejected"
	AccountChanged           Code = "account_changed"
	PermissionDenied         Code = "permission_denied"
	RouteNotFound            Code = "route_not_found"
	MethodNotAllowed         Code = "method_not_allowed"
	NotFound                 Code = "not_found"
	FeatureUnavailable       Code = "feature_unavailable"
	IdempotencyKeyReused     Code = "idempotency_key_reused"
	IdempotencyInProgress    Code = "idempotency_in_progress"
	URLNotApproved           Code = "url_not_approved"
	DestinationRefused       Code = "destination_refused"
	RedirectRefused          Code = "redirect_refused"
	UpstreamRefused          Code = "upstream_refused"
	ContentTooLarge          Code = "content_too_large"
	UnsupportedMediaType     Code = "unsupported_media_type"
	ContentTypeMismatch      Code = "content_type_mismatch"
	ContentInvalid           Code = "content_invalid"
	UpstreamUnavailable      Code = "upstream_unavailable"
	UpstreamIncomplete       Code = "upstream_incomplete"
	UpstreamTimeout          Code = "upstream_timeout"
	UpstreamProtocolError    Code = "upstream_protocol_error"
	SourceDisconnected       Code = "source_disconnected"
	ApprovalChanged          Code = "approval_changed"
	ApprovalCannotWiden      Code = "approval_cannot_widen"
	RevisionConflict         Code = "revision_conflict"
	ObjectIDInUse            Code = "object_id_in_use"
	SyncInProgress           Code = "sync_in_progress"
	RateLimited              Code = "rate_limited"
	QuotaExceeded            Code = "quota_exceeded"
	Unavailable              Code = "unavailable"
	OutcomeUnknown           Code = "outcome_unknown"
	Internal                 Code = "internal"
)

// Info is what the catalogue says of a code.
type Info struct {
	Status  int    // HTTP status the code is answered with
	Type    string // the family it belongs to
	Action  string // what the caller may do about it; empty: nothing
	Message string // one sentence, said where nothing more is known
	Keep    bool   // the answer is kept for repeated requests with one idempotency key
}

// The families and the actions.
const (
	typeAuthentication = "authentication"
	typeAvailability   = "availability"
	typeConflict       = "conflict"
	typeContent        = "content"
	typeIdempotency    = "idempotency"
	typeInternal       = "internal"
	typeLimit          = "limit"
	typePolicy         = "policy"
	typeRouting        = "routing"
	typeUpstream       = "upstream"

	actionReauthenticate = "reauthenticate"
	actionReconcile      = "reconcile"
	actionRefresh        = "refresh"
	actionRequestAccess  = "request_access"
	actionRetry          = "retry"
	actionReview         = "review"
	actionSignIn         = "sign_in"
	actionSupport        = "support"
)

// Info returns the catalogue's entry; the zero Info for a code that is not in it.
func (c Code) Info() Info { return catalogue()[c] }

// Codes returns every code of the catalogue with its entry. The caller owns the map.
func Codes() map[Code]Info { return catalogue() }

func catalogue() map[Code]Info {
	return map[Code]Info{
		InvalidRequest:           {http.StatusBadRequest, "validation", "", "The request is not valid.", false},
		AuthenticationRequired:   {http.StatusUnauthorized, typeAuthentication, actionSignIn, "The request carries no valid credentials.", false},
		HumanSessionRequired:     {http.StatusForbidden, typeAuthentication, actionSignIn, "Only a person may do this.", false},
		ReauthenticationRequired: {http.StatusUnauthorized, typeAuthentication, actionReauthenticate, "The sign-in is too long ago for this.", false},
		CSRFRejected:             {http.StatusForbidden, typeAuthentication, actionRefresh, "The request can't be told from a forged one.", false},
		AccountChanged:           {http.StatusConflict, typeConflict, actionRefresh, "The session belongs to another account.", false},
		PermissionDenied:         {http.StatusForbidden, "authorization", actionRequestAccess, "The caller may not do this.", false},
		RouteNotFound:            {http.StatusNotFound, typeRouting, "", "There is no such route.", false},
		MethodNotAllowed:         {http.StatusMethodNotAllowed, typeRouting, "", "The route does not support this method.", false},
		NotFound:                 {http.StatusNotFound, "resource", "", "There is no such resource.", false},
		FeatureUnavailable:       {http.StatusNotImplemented, typeAvailability, actionSupport, "Documents are not configured here.", false},
		IdempotencyKeyReused:     {http.StatusUnprocessableEntity, typeIdempotency, actionReview, "The idempotency key was used for another request.", false},
		IdempotencyInProgress:    {http.StatusConflict, typeIdempotency, actionRetry, "A request with this idempotency key is being processed.", false},
		URLNotApproved:           {http.StatusForbidden, typePolicy, actionRequestAccess, "The URL is outside of what the source's approval admits.", false},
		DestinationRefused:       {http.StatusForbidden, typePolicy, actionSupport, "The origin's host may not be connected to.", true},
		RedirectRefused:          {http.StatusUnprocessableEntity, typePolicy, actionReview, "The origin answered with a redirect, which is never followed.", true},
		UpstreamRefused:          {http.StatusUnprocessableEntity, typeUpstream, actionReview, "The origin refused the request.", true},
		ContentTooLarge:          {http.StatusUnprocessableEntity, typeContent, actionReview, "The content is larger than allowed.", true},
		UnsupportedMediaType:     {http.StatusUnprocessableEntity, typeContent, actionReview, "Content of this media type is not stored.", true},
		ContentTypeMismatch:      {http.StatusUnprocessableEntity, typeContent, actionReview, "The content is not of the declared media type.", true},
		ContentInvalid:           {http.StatusUnprocessableEntity, typeContent, actionReview, "The content is not valid for its media type.", true},
		UpstreamUnavailable:      {http.StatusBadGateway, typeUpstream, actionRetry, "The origin can't be reached or can't answer.", false},
		UpstreamIncomplete:       {http.StatusBadGateway, typeUpstream, actionRetry, "The origin's answer did not arrive whole.", false},
		UpstreamTimeout:          {http.StatusGatewayTimeout, typeUpstream, actionRetry, "The origin took too long.", false},
		UpstreamProtocolError:    {http.StatusBadGateway, typeUpstream, actionSupport, "The origin's answer breaks the protocol.", true},
		SourceDisconnected:       {http.StatusConflict, typePolicy, actionReview, "The source is disconnected.", false},
		ApprovalChanged:          {http.StatusConflict, typePolicy, actionReview, "The approval was narrowed while the page was fetched.", false},
		ApprovalCannotWiden:      {http.StatusConflict, typePolicy, actionReview, "An approval can only stay as it is or become narrower.", false},
		RevisionConflict:         {http.StatusConflict, typeConflict, actionRefresh, "The source has changed since it was read.", false},
		ObjectIDInUse:            {http.StatusConflict, typeConflict, actionReview, "The object_id belongs to another document.", true},
		SyncInProgress:           {http.StatusConflict, typeConflict, actionRetry, "The page is being fetched already.", false},
		RateLimited:              {http.StatusTooManyRequests, typeLimit, actionRetry, "Too many requests.", false},
		QuotaExceeded:            {http.StatusForbidden, typeLimit, actionSupport, "A quota is used up.", false},
		Unavailable:              {http.StatusServiceUnavailable, typeAvailability, actionRetry, "A part of the service is unavailable.", false},
		OutcomeUnknown:           {http.StatusServiceUnavailable, typeInternal, actionReconcile, "It is not known whether the operation took effect.", false},
		Internal:                 {http.StatusInternalServerError, typeInternal, actionSupport, "Something unforeseen happened.", false},
	}
}

// Error is a failure with a code of the catalogue. Every member but Err may be shown to the caller.
type Error struct {
	Code           Code
	Message        string        // a sentence that quotes nothing; empty: the catalogue's
	Status         int           // for a code that has several; 0: the catalogue's
	Action         string        // for a code that has several; empty: the catalogue's
	Param          string        // the faulty part of the request: a member, a header, a query parameter; empty: none
	UpstreamStatus int           // that the origin answered with; 0: none
	OperationID    uuid.UUID     // the fetch it is about; zero: none
	SnapshotRef    uuid.UUID     // the approval that decided; zero: none
	RetryAfter     time.Duration // > 0: when a retry may succeed
	Err            error         // the cause; never leaves the process
}

// Fault returns an error with the code and the catalogue's message.
func Fault(code Code) *Error { return &Error{Code: code} }

// Invalid returns an InvalidRequest about one part of the request.
func Invalid(param, message string) *Error {
	return &Error{Code: InvalidRequest, Param: param, Message: message}
}

// Text is the message that is shown.
func (e *Error) Text() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Code.Info().Message
}

// leastFailure is the first status that blames nobody outside.
const leastFailure = http.StatusInternalServerError

// status is what the error is answered with.
func (e *Error) status() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Code.Info().Status
}

// sentence makes a sentence of an error whose text is safe to show.
func sentence(err error) string {
	text := err.Error()
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Error describes the failure for logs, with its cause.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Text()
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", s, e.Err)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same code, so that errors.Is(err, Fault(NotFound)) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// AsError returns err as callers may see it: an *Error of its chain, the counterpart of a *problem.Error of authentication,
// tenant routing and databases, else Internal. It returns nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	coded, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return &Error{Code: Internal, Err: err}
	}
	out := &Error{Code: Internal, RetryAfter: coded.RetryAfter, Err: err}
	switch coded.Code {
	case problem.Unauthenticated, problem.TenantMissing:
		out.Code = AuthenticationRequired
	case problem.Forbidden:
		out.Code = PermissionDenied
	case problem.TenantSuspended:
		out.Code, out.Action, out.Message = PermissionDenied, actionSupport, "The tenant is suspended."
	case problem.TenantUnknown, problem.NotFoundInTenant:
		out.Code = NotFound
	case problem.RateLimited:
		out.Code = RateLimited
	case problem.Unavailable, problem.TenantUnavailable:
		out.Code = Unavailable
		if out.RetryAfter <= 0 {
			out.RetryAfter = retryUnavailable
		}
	}
	return out
}

// retryUnavailable is what a caller is told when nothing better is known.
const retryUnavailable = 2 * time.Second
