package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/store"
)

// keyParams documents Idempotency-Key.
func (op kataraOperation) keyParams() []*huma.Param {
	if op.key == keyIgnored {
		return nil
	}
	return []*huma.Param{{
		Name: idempotency.Header, In: inHeader, Required: op.key == keyRequired,
		Description: "Makes the request take effect once: for 72 hours the same request with the same key is given the same " +
			"answer, with `" + headerReplayed + ": true`.",
		Schema: &huma.Schema{Type: huma.TypeString, Format: "uuid"},
	}}
}

// optionalKey reads Idempotency-Key; nil when there is none.
func optionalKey(ctx context.Context) (*uuid.UUID, error) {
	lines := exchangeOf(ctx).request.Header.Values(idempotency.Header)
	if len(lines) == 0 {
		return nil, nil //nolint:nilnil // no key is a value of its own
	}
	if len(lines) == 1 {
		if key, ok := parseUUID(lines[0]); ok {
			return &key, nil
		}
	}
	return nil, documents.Invalid(idempotency.Header, "The header must be a UUID, given once.")
}

// requiredKey is optionalKey where a key has to be.
func requiredKey(ctx context.Context) (uuid.UUID, error) {
	key, err := optionalKey(ctx)
	if err != nil {
		return uuid.UUID{}, err
	}
	if key == nil {
		return uuid.UUID{}, documents.Invalid(idempotency.Header, "The header is required.")
	}
	return *key, nil
}

// onceOf is how a mutation that heeds the key renders its answer. location, if not nil, is the path of what was made.
func onceOf[T, V any](ctx context.Context, status int, view func(T) V, location func(T) string) (documents.Once[T], error) {
	key, err := optionalKey(ctx)
	render := func(made T) (store.Answer, error) {
		answer := store.Answer{Status: status}
		if location != nil {
			answer.Location = location(made)
		}
		body, failed := encodeJSON(view(made))
		answer.Body = body
		return answer, failed
	}
	return documents.Once[T]{Key: key, Render: render}, err
}

// renderError is an error as it is kept for its idempotency key.
func renderError(fault *documents.Error) (store.Answer, error) {
	v := enveloped(fault, "")
	body, err := encodeJSON(v)
	return store.Answer{Status: v.status, Body: body}, err
}

// reply gives the answer to a mutation.
func (e *edge) reply(ctx context.Context, out huma.Context, r documents.Reply) error {
	if r.Status >= http.StatusBadRequest {
		body, err := readdress(r.Body, exchangeOf(ctx).id)
		if err != nil {
			return err
		}
		r.Body = body
	}
	c := humagin.Unwrap(out)
	header := c.Writer.Header()
	if r.Location != "" {
		header.Set(headerLocation, r.Location)
	}
	if r.Replayed {
		header.Set(headerReplayed, "true")
	}
	if len(r.Body) > 0 {
		header.Set(headerType, mediaJSON)
		header.Set(headerLength, strconv.Itoa(len(r.Body)))
	}
	c.Status(r.Status)
	c.Writer.WriteHeaderNow()
	_, _ = c.Writer.Write(r.Body) // a failed write is the client's leaving
	return nil
}

// readdress gives a kept error the id of the request that it answers now.
func readdress(kept []byte, requestID string) ([]byte, error) {
	var v ErrorEnvelope
	if err := json.Unmarshal(kept, &v); err != nil {
		return nil, fmt.Errorf("read a kept error: %w", err)
	}
	v.Fault.RequestID = requestID
	return encodeJSON(&v)
}

// sendJSON gives the answer to a read.
func sendJSON(out huma.Context, body any) error {
	c := humagin.Unwrap(out)
	text, err := encodeJSON(body)
	if err != nil {
		return err
	}
	header := c.Writer.Header()
	header.Set(headerType, mediaJSON)
	header.Set(headerLength, strconv.Itoa(len(text)))
	c.Status(http.StatusOK)
	_, _ = c.Writer.Write(text) // a failed write is the client's leaving
	return nil
}
