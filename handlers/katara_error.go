package handlers

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/problem"
)

// kataraPrefix is where the operations on web documents live. Every error below it has their own envelope.
const kataraPrefix = "/katara/"

const (
	maxErrorMessage = 500

	challengeMissing = "Bearer"
	challengeInvalid = `Bearer error="invalid_token"`
	challengeStale   = `Bearer error="insufficient_user_authentication", max_age=900`
)

// ErrorEnvelope is the body of every error answer below /katara/.
type ErrorEnvelope struct { //nolint:errname // a body first; an error only because huma wants one
	Fault EnvelopedError `json:"error"`

	status  int
	headers http.Header
}

// EnvelopedError is what went wrong.
type EnvelopedError struct {
	Message        string         `json:"message" maxLength:"500" doc:"What went wrong, for a person."`
	Type           string         `json:"type" doc:"The family of the code." enum:"validation,authentication,authorization,conflict,routing,resource,availability,idempotency,policy,upstream,content,limit,internal"`
	Code           documents.Code `json:"code" doc:"Stable code." pattern:"^[a-z_]+$" example:"not_found"`
	Param          *string        `json:"param" required:"true" nullable:"true" doc:"The faulty part of the request."`
	RequestID      string         `json:"request_id" doc:"That of the header X-Request-Id."`
	UpstreamStatus *int           `json:"upstream_status" required:"true" nullable:"true" doc:"The HTTP status that the origin answered with."`
	Action         string         `json:"action,omitempty" required:"false" enum:"sign_in,reauthenticate,request_access,review,fund,retry,reconcile,refresh,support" doc:"What the caller may do about it."`
	OperationID    string         `json:"operation_id,omitempty" required:"false" format:"uuid" doc:"The fetch it is about."`
	SnapshotRef    string         `json:"snapshot_ref,omitempty" required:"false" format:"uuid" doc:"The approval that decided."`
}

// Error makes an ErrorEnvelope the error that huma writes as the answer.
func (v *ErrorEnvelope) Error() string { return string(v.Fault.Code) + ": " + v.Fault.Message }

// GetStatus tells huma the status.
func (v *ErrorEnvelope) GetStatus() int { return v.status }

// GetHeaders tells huma the headers that go with the answer.
func (v *ErrorEnvelope) GetHeaders() http.Header { return v.headers }

// enveloped is a failure as it is answered, apart from the request id.
func enveloped(fault *documents.Error, requestID string) *ErrorEnvelope {
	info := fault.Code.Info()
	v := &ErrorEnvelope{
		Fault: EnvelopedError{
			Message: cut(fault.Text(), maxErrorMessage), Type: info.Type, Code: fault.Code, RequestID: requestID, Action: info.Action,
		},
		status: info.Status, headers: http.Header{},
	}
	if fault.Status != 0 {
		v.status = fault.Status
	}
	if fault.Action != "" {
		v.Fault.Action = fault.Action
	}
	if fault.Param != "" {
		v.Fault.Param = &fault.Param
	}
	if fault.UpstreamStatus != 0 {
		v.Fault.UpstreamStatus = &fault.UpstreamStatus
	}
	if !isZero(fault.OperationID) {
		v.Fault.OperationID = fault.OperationID.String()
	}
	if !isZero(fault.SnapshotRef) {
		v.Fault.SnapshotRef = fault.SnapshotRef.String()
	}
	return v
}

func isZero[T comparable](v T) bool {
	var zero T
	return v == zero
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// envelope turns any error into the answer for this request, and logs its cause.
func (e *edge) envelope(ctx context.Context, err error) *ErrorEnvelope {
	ex := exchangeOf(ctx)
	fault := documents.AsError(err)
	v := enveloped(fault, ex.id)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		v.status = statusClientGone
		return v
	}
	retryAfter(v.headers, v.status, fault.RetryAfter)
	if v.status == http.StatusUnauthorized {
		v.headers.Set("WWW-Authenticate", challengeOf(fault, err))
	}
	if outside, ok := errors.AsType[*rangeError](err); ok {
		v.headers.Set(headerContentRange, "bytes */"+strconv.FormatInt(outside.size, 10))
	}
	e.logFault(ctx, err, fault, v.status)
	return v
}

func challengeOf(fault *documents.Error, err error) string {
	switch {
	case fault.Code == documents.ReauthenticationRequired:
		return challengeStale
	case errors.Is(err, auth.ErrNoToken):
		return challengeMissing
	default:
		return challengeInvalid
	}
}

// logFault writes the internal cause, which the caller never sees, once.
func (e *edge) logFault(ctx context.Context, err error, fault *documents.Error, status int) {
	ours := fault.Code == documents.Internal || fault.Code == documents.Unavailable || fault.Code == documents.OutcomeUnknown
	level := slog.LevelInfo
	switch {
	case ours && status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case ours:
		level = slog.LevelError
	case fault.Err == nil:
		return
	}
	attrs := []slog.Attr{slog.String("code", string(fault.Code)), slog.Any("error", err)}
	if p := exchangeOf(ctx).principal; p != nil {
		attrs = append(attrs, slog.String("tenant", p.TenantID))
	}
	e.log.LogAttrs(ctx, level, "request failed", attrs...)
}

// refuseKatara is refuse for the operations on web documents.
func (e *edge) refuseKatara(c *gin.Context, err error) {
	v := e.envelope(c.Request.Context(), err)
	if c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	header := c.Writer.Header()
	for _, name := range []string{headerLength, headerETag, headerLocation, headerReprDigest, headerDisposition, headerAcceptRanges} {
		header.Del(name)
	}
	maps.Copy(header, v.headers)
	header.Set(headerType, mediaJSON)
	c.Status(v.status)
	if err := writeJSON(c.Writer, v); err != nil {
		panic(err)
	}
}

// isKatara reports whether a path is below the prefix of the operations on web documents.
func isKatara(path string) bool { return strings.HasPrefix(path, kataraPrefix) }

// routeFault is what unknown routes and wrong methods are answered with, in the terms of their contract.
func routeFault(path string, code problem.Code, detail string) error {
	if !isKatara(path) {
		return problem.New(code, detail)
	}
	if code == problem.MethodNotAllowed {
		return documents.Fault(documents.MethodNotAllowed)
	}
	return documents.Fault(documents.RouteNotFound)
}
