package handlers

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/problem"
)

const (
	problemMediaType = "application/problem+json"

	// statusClientGone is logged for requests whose client left before the answer; nobody reads the answer itself.
	statusClientGone = 499

	retryUnavailable = 5 * time.Second
	retryRateLimited = time.Second
)

// Problem is the body of every error answer (RFC 9457).
type Problem struct { //nolint:errname // a body first; an error only because huma wants one
	Type     string          `json:"type" doc:"URI reference of the code's page." example:"/problems/FET-1001"`
	Title    string          `json:"title" doc:"The text of the HTTP status." example:"Not Found"`
	Status   int             `json:"status" doc:"The HTTP status." example:"404"`
	Detail   string          `json:"detail" doc:"What went wrong, for a person." example:"connection not found"`
	Instance string          `json:"instance" doc:"The request path, # and the request id."`
	Code     problem.Code    `json:"code" doc:"Stable code." pattern:"^FET-[0-9]{4}$" example:"FET-1001"`
	Errors   []problem.Field `json:"errors,omitempty" required:"false" doc:"The faulty parts of the request, by location."`

	headers http.Header
}

// Error makes a Problem the error that huma writes as the answer.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// GetStatus tells huma the status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders tells huma the headers that go with the answer.
func (p *Problem) GetHeaders() http.Header { return p.headers }

// ContentType tells huma the media type.
func (p *Problem) ContentType(string) string { return problemMediaType }

// answer turns any error into the answer for this request. It is the only place where that happens, and the one that
// logs the cause. Errors that carry no code are FET-0002; what is said of a 5xx is the same for every cause.
func (e *edge) answer(ctx context.Context, err error) *Problem {
	ex := exchangeOf(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return &Problem{Title: "Client Closed Request", Status: statusClientGone, Instance: ex.path + "#" + ex.id}
	}
	fault, ok := errors.AsType[*problem.Error](err)
	if !ok {
		fault = problem.Wrap(err, problem.Internal, "")
	}
	info := fault.Code.Info()
	if info.Status == 0 { // a code that only jobs know has no business here
		fault = problem.Wrap(err, problem.Internal, "")
		info = fault.Code.Info()
	}
	p := &Problem{
		Type:     strings.TrimSuffix(e.opts.ProblemBaseURI, "/") + "/" + string(fault.Code),
		Title:    http.StatusText(info.Status),
		Status:   info.Status,
		Detail:   fault.Detail,
		Instance: ex.path + "#" + ex.id,
		Code:     fault.Code,
		Errors:   sortedFields(fault.Fields),
		headers:  http.Header{},
	}
	if p.Detail == "" || p.Status >= http.StatusInternalServerError {
		p.Detail = info.Meaning
	}
	if p.Status >= http.StatusInternalServerError {
		p.Errors = nil
	}
	retryAfter(p.headers, p.Status, fault.RetryAfter)
	setChallenge(p, err)
	if fault, ok := errors.AsType[*rangeError](err); ok {
		p.headers.Set(headerContentRange, "bytes */"+strconv.FormatInt(fault.size, 10))
	}
	e.logCause(ctx, err, fault, p.Status)
	return p
}

func sortedFields(fields []problem.Field) []problem.Field {
	out := slices.Clone(fields)
	slices.SortStableFunc(out, func(a, b problem.Field) int { return strings.Compare(a.Location, b.Location) })
	return out
}

// retryAfter sets when a retry may succeed; statuses that always tell have a usual time.
func retryAfter(header http.Header, status int, after time.Duration) {
	if after <= 0 {
		switch status {
		case http.StatusServiceUnavailable:
			after = retryUnavailable
		case http.StatusTooManyRequests:
			after = retryRateLimited
		default:
			return
		}
	}
	header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(after.Seconds())), 10))
}

func setChallenge(p *Problem, err error) {
	switch {
	case p.Status != http.StatusUnauthorized:
	case errors.Is(err, auth.ErrNoToken):
		p.headers.Set("WWW-Authenticate", "Bearer")
	default:
		p.headers.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
}

// logCause writes the internal cause, which the caller never sees, once.
func (e *edge) logCause(ctx context.Context, err error, fault *problem.Error, status int) {
	level := slog.LevelInfo
	switch {
	case status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case status >= http.StatusInternalServerError:
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

// refuse ends the request with the answer to err. When part of another answer is already on the wire, the connection
// is cut instead, so that the client can't take it for a whole one.
func (e *edge) refuse(c *gin.Context, err error) {
	c.Abort()
	if isKatara(c.Request.URL.Path) {
		e.refuseKatara(c, err)
		return
	}
	p := e.answer(c.Request.Context(), err)
	if c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	header := c.Writer.Header()
	for _, name := range []string{headerLength, headerETag, headerLocation, headerReprDigest} {
		header.Del(name)
	}
	maps.Copy(header, p.headers)
	header.Set(headerType, problemMediaType)
	c.Status(p.Status)
	if err := writeJSON(c.Writer, p); err != nil {
		panic(err)
	}
}

// useOurErrors makes huma's own complaints ours. Its variables are the only way to say so.
func useOurErrors() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if e := exchangeOf(ctx.Context()).edge; e != nil {
			if isKatara(ctx.URL().Path) {
				return e.envelope(ctx.Context(), errors.Join(append([]error{errors.New(msg)}, errs...)...))
			}
			return e.answer(ctx.Context(), humaFault(status, msg, errs))
		}
		return huma.NewError(status, msg, errs...)
	}
	huma.NewError = func(status int, _ string, _ ...error) huma.StatusError {
		return &Problem{Status: status, Title: http.StatusText(status)}
	}
}

// humaFault maps what huma found to a code. Our operations leave it nothing to validate, so this is the last resort.
func humaFault(status int, msg string, errs []error) error {
	cause := errors.Join(append([]error{errors.New(msg)}, errs...)...)
	if status >= http.StatusInternalServerError {
		return problem.Wrap(cause, problem.Internal, "")
	}
	return problem.Wrap(cause, problem.Malformed, "the request can't be read")
}
