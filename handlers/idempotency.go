package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const headerReplayed = "Idempotent-Replayed"

// idempotencyCodes are what an operation that heeds the key may answer because of it.
var idempotencyCodes = []problem.Code{problem.HeaderInvalid, problem.Conflict, problem.IdempotencyKeyReused}

// idempotencyParam documents the key.
func idempotencyParam() *huma.Param {
	least, most := 1, 255
	return &huma.Param{
		Name: idempotency.Header, In: inHeader,
		Description: "Makes the request take effect once: for 24 hours the same request with the same key is given the same " +
			"answer, with `" + headerReplayed + ": true`. Only successes are kept.",
		Schema: &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$"},
	}
}

// bodyOnly is for operations whose effect depends on nothing but the body.
func bodyOnly(context.Context) (string, error) { return "", nil }

// once is the stage that heeds Idempotency-Key: it gives a kept answer again, or runs the operation with a claim on the
// key, which the operation records its answer with.
func (e *edge) once(ctx huma.Context, next func(huma.Context)) {
	claim, kept, err := e.claim(ctx.Context(), operationOf(ctx))
	switch c := humagin.Unwrap(ctx); {
	case err != nil:
		e.refuse(c, err)
	case kept != nil:
		replay(c, kept)
	case claim == nil:
		next(ctx)
	default:
		ex := exchangeOf(ctx.Context())
		ex.claim = claim
		defer ex.release(ctx.Context()) // for panics; what ends in order has settled it
		next(ctx)
	}
}

// claim begins the attempt; all results are nil for a request without a key.
func (e *edge) claim(ctx context.Context, op operation) (*idempotency.Claim, *store.Answer, error) {
	ex := exchangeOf(ctx)
	key, err := idempotency.ParseKey(ex.request.Header.Values(idempotency.Header))
	if err != nil || key == "" {
		return nil, nil, err
	}
	effect, err := op.onceFor(ctx)
	if err != nil {
		return nil, nil, err
	}
	lease := tenant.FromContext(ctx)
	return e.opts.Idempotency.Begin(ctx, store.NewIdempotency(lease.DB(ctx)), idempotency.Request{
		Tenant: lease.TenantID(), Subject: auth.FromContext(ctx).Subject, Operation: op.id, Key: key,
		Content: [][]byte{[]byte(effect), ex.body},
	})
}

// release frees the key of a request that did not succeed.
func (ex *exchange) release(ctx context.Context) {
	if ex.claim == nil {
		return
	}
	err := ex.claim.Release(ctx)
	ex.claim = nil
	if err != nil { // the key stays taken until its lease ends
		ex.edge.log.LogAttrs(ctx, slog.LevelWarn, "idempotency key not released",
			slog.String("request_id", ex.id), slog.Any("error", err))
	}
}

// record keeps the answer of the request, if it has a key, through the rows of the transaction that makes what the
// answer tells of.
func record(ctx context.Context, rows store.Idempotency, status int, location, tag string, body any) error {
	claim := exchangeOf(ctx).claim
	if claim == nil {
		return nil
	}
	text, err := encodeJSON(body)
	if err != nil {
		return err
	}
	return claim.Record(ctx, rows, store.Answer{Status: status, Location: location, ETag: tag, Body: text})
}

// replay gives an answer again.
func replay(c *gin.Context, kept *store.Answer) {
	c.Abort()
	header := c.Writer.Header()
	for name, value := range map[string]string{headerLocation: kept.Location, headerETag: kept.ETag} {
		if value != "" {
			header.Set(name, value)
		}
	}
	header.Set(headerReplayed, "true")
	header.Set(headerType, mediaJSON)
	header.Set("Content-Length", strconv.Itoa(len(kept.Body)))
	c.Status(kept.Status)
	_, _ = c.Writer.Write(kept.Body) // a failed write is the client's leaving
}

// documentReplay says of the successes what the Go types can't.
func documentReplay(responses map[string]*huma.Response) {
	for status, response := range responses {
		if code, err := strconv.Atoi(status); err != nil || code >= http.StatusMultipleChoices {
			continue
		}
		if response.Headers == nil {
			response.Headers = map[string]*huma.Header{}
		}
		response.Headers[headerReplayed] = stringHeader("true: the answer to an earlier request with the same Idempotency-Key.")
	}
}
