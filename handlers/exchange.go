package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/telemetry"
)

const (
	headerRequestID = "X-Request-Id"
	headerETag      = "ETag"
	headerType      = "Content-Type"
	headerLength    = "Content-Length"
	headerLocation  = "Location"

	mediaJSON = "application/json"
)

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// exchange is what the stages of one request learn and the later ones, the error answer and the access log need.
// It belongs to the request's own goroutine.
type exchange struct {
	edge      *edge
	request   *http.Request // as it came: for headers and query
	id        string
	path      string     // escaped, without the query
	params    gin.Params // of the path
	principal *auth.Principal
	body      []byte             // read and bounded, for operations that take one
	claim     *idempotency.Claim // on the request's key; nil: it has none, or it is settled
	katara    kataraCall         // what the stages of an operation on web documents found
}

type exchangeKey struct{}

// exchangeContext is a context with an exchange: one allocation for both.
type exchangeContext struct {
	context.Context

	exchange exchange
}

// Value returns the exchange for its key.
func (c *exchangeContext) Value(key any) any {
	if _, ok := key.(exchangeKey); ok {
		return &c.exchange
	}
	return c.Context.Value(key)
}

// exchangeOf returns the request's exchange; an empty one where there is none, so that callers need no check.
func exchangeOf(ctx context.Context) *exchange {
	if ex, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return ex
	}
	return &exchange{}
}

// begin is the first stage: it gives the request its id and its exchange.
func (e *edge) begin(c *gin.Context) {
	id := e.opts.NewRequestID()
	if sent := c.Request.Header.Values(headerRequestID); len(sent) == 1 && requestIDForm.MatchString(sent[0]) { //nolint:canonicalheader // the published spelling
		id = sent[0]
	}
	c.Header(headerRequestID, id)
	ctx := c.Request.Context()
	if e.untraced != nil {
		ctx = e.untraced.context(ctx, c.Request.Header)
	}
	ctx = telemetry.WithAttrs(ctx, slog.String("request_id", id)) // in every line logged for the request
	c.Request = c.Request.WithContext(&exchangeContext{Context: ctx, exchange: exchange{
		edge: e, request: c.Request, id: id, path: c.Request.URL.EscapedPath(), params: c.Params,
	}})
	if c.Request.Body != nil && c.Request.Body != http.NoBody {
		// Also bounds the draining of a body that no stage reads. Writers that know no deadline are those of tests.
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(e.bodyTimeout))
	}
	c.Next()
}
