package handlers

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/problem"
)

// apiPrefix is where the operations live. Everything below it needs a token.
const apiPrefix = "/v1/"

// The resources that permissions are about.
const (
	resourceConnections = "connections"
	resourceJobs        = "fetcher"
)

// operation is one row of the operations table, with what its OpenAPI entry says beyond the Go types.
type operation struct {
	id          string
	method      string
	path        string
	resource    string // with action: what the caller must be permitted
	action      string // empty: that of the method
	tag         string
	summary     string
	description string
	body        reflect.Type // of the request; nil: the operation takes none
	params      []*huma.Param
	success     int
	also        map[int]string // further successes
	codes       []problem.Code // it may answer besides those every operation may
	hidden      bool           // left out of the document

	// onceFor is set for operations that heed Idempotency-Key: it returns what, besides the body, says what is done.
	onceFor func(ctx context.Context) (string, error)
}

const operationKey = "operation"

func operationOf(ctx huma.Context) operation {
	op, _ := ctx.Operation().Metadata[operationKey].(operation)
	return op
}

// register mounts an operation behind the stages and enters it in the OpenAPI document. What handle returns as an
// error becomes the answer.
//
// Parameters and bodies are declared in the document but never checked by huma, whose complaints are not the
// published ones: the handlers parse queries and headers themselves and decode the body with decodeBody.
func register[I, O any](e *edge, op operation, handle func(context.Context, *I) (*O, error)) {
	if op.action == "" {
		op.action = actionOf(op.method)
	}
	if op.onceFor != nil {
		op.params = append(op.params, idempotencyParam())
		op.codes = append(op.codes, idempotencyCodes...)
	}
	entry := huma.Operation{
		OperationID:        op.id,
		Method:             op.method,
		Path:               op.path,
		DefaultStatus:      op.success,
		Tags:               []string{op.tag},
		Summary:            op.summary,
		Description:        op.description,
		Parameters:         op.params,
		Responses:          e.responses(op),
		Security:           []map[string][]string{{securityScheme: {}}},
		SkipValidateParams: true,
		SkipValidateBody:   true,
		Hidden:             op.hidden,
		Metadata:           map[string]any{operationKey: op},
		Middlewares:        e.stages(op),
	}
	huma.Register(e.api, entry, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			exchangeOf(ctx).release(ctx) // before the answer: the client may try again at once
			return nil, e.answer(ctx, err)
		}
		exchangeOf(ctx).claim = nil // settled: the answer was recorded
		return out, nil
	})
	if op.hidden {
		return
	}
	for status := range op.also {
		answers := e.api.OpenAPI().Paths[op.path].Post.Responses
		answers[strconv.Itoa(status)].Content = answers[strconv.Itoa(op.success)].Content
	}
	if op.onceFor != nil {
		documentReplay(e.api.OpenAPI().Paths[op.path].Post.Responses)
	}
	if op.body != nil {
		// Declared after the registration, so that huma does not read the body.
		item := e.api.OpenAPI().Paths[op.path]
		byMethod := map[string]*huma.Operation{http.MethodPost: item.Post, http.MethodPatch: item.Patch}
		schema := e.api.OpenAPI().Components.Schemas.Schema(op.body, true, op.body.Name())
		byMethod[op.method].RequestBody = &huma.RequestBody{
			Required: true, Content: map[string]*huma.MediaType{mediaJSON: {Schema: schema}},
		}
	}
}

// actionOf is the method in lower case; whoever may read may also ask for the headers alone.
func actionOf(method string) string {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return strings.ToLower(method)
}

// everywhere are the codes that any operation may answer.
var everywhere = []problem.Code{
	problem.Internal, problem.Unavailable, problem.Unauthenticated, problem.Forbidden, problem.RateLimited, problem.BodyTooLarge,
	problem.TenantMissing, problem.TenantUnknown, problem.TenantUnavailable, problem.TenantSuspended,
}

// responses documents the error answers, grouped by status, and what is said of the successes.
func (e *edge) responses(op operation) map[string]*huma.Response {
	codes := slices.Concat(everywhere, op.codes)
	if strings.Contains(op.path, "{id}") {
		codes = append(codes, problem.PathInvalid, problem.NotFoundInTenant)
	}
	if op.body != nil {
		codes = append(codes, problem.Malformed, problem.UnknownMember, problem.UnsupportedMediaType)
	}
	slices.Sort(codes)
	schema := e.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	out := map[string]*huma.Response{}
	for _, code := range slices.Compact(codes) {
		info := code.Info()
		status := strconv.Itoa(info.Status)
		if out[status] == nil {
			out[status] = &huma.Response{
				Headers: errorHeaders(info.Status),
				Content: map[string]*huma.MediaType{problemMediaType: {Schema: schema}},
			}
		}
		if out[status].Description != "" {
			out[status].Description += "\n\n"
		}
		out[status].Description += fmt.Sprintf("%s: %s", code, info.Meaning)
	}
	success := &huma.Response{Description: http.StatusText(op.success), Headers: map[string]*huma.Header{}}
	out[strconv.Itoa(op.success)] = success
	for status, tells := range op.also {
		out[strconv.Itoa(status)] = &huma.Response{Description: tells, Headers: success.Headers}
	}
	return out
}

func errorHeaders(status int) map[string]*huma.Header {
	switch status {
	case http.StatusUnauthorized:
		return map[string]*huma.Header{"WWW-Authenticate": stringHeader("How to authenticate.")}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return map[string]*huma.Header{"Retry-After": stringHeader("Seconds after which a retry may succeed.")}
	default:
		return nil
	}
}

func stringHeader(tells string) *huma.Header {
	return &huma.Header{Description: tells, Schema: &huma.Schema{Type: huma.TypeString}}
}
