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
	"github.com/danielgtaylor/huma/v2/adapters/humagin"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/documents"
)

// applicationKatara is what permissions on web documents belong to.
const applicationKatara = "katara"

// kataraOperation is one row of the operations table on web documents, with what its OpenAPI entry says.
type kataraOperation struct {
	id          string
	method      string
	path        string
	tag         string
	summary     string
	description string
	permissions []grant // all of which the caller must have
	human       bool    // machines may not
	recent      bool    // the caller must have signed in within recency
	content     bool    // works on the content store
	tenantless  bool    // needs no database
	key         keyRule
	body        reflect.Type // of the request; nil: it takes none
	answer      reflect.Type // of the success; nil: it has no body, or one that is no JSON
	success     int
	params      []*huma.Param
	codes       []documents.Code // it may answer besides those every operation may
	hidden      bool             // left out of the document
}

// grant is one permission of the application.
type grant struct{ resource, action string }

// keyRule says what an operation makes of Idempotency-Key.
type keyRule int

const (
	keyIgnored keyRule = iota // it changes nothing
	keyHeeded
	keyRequired
)

// kataraHandler answers a request that passed the stages.
type kataraHandler func(ctx context.Context, out huma.Context) error

type kataraOutput struct {
	Body func(huma.Context)
}

func kataraOperationOf(ctx huma.Context) kataraOperation {
	op, _ := ctx.Operation().Metadata[operationKey].(kataraOperation)
	return op
}

// registerKatara mounts an operation behind the stages and enters it in the OpenAPI document. What handle returns as an
// error becomes the answer.
func (e *edge) registerKatara(op kataraOperation, handle kataraHandler) {
	if op.success == 0 {
		op.success = http.StatusOK
	}
	schemas := e.api.OpenAPI().Components.Schemas
	entry := huma.Operation{
		OperationID:        op.id,
		Method:             op.method,
		Path:               op.path,
		DefaultStatus:      op.success,
		Tags:               []string{op.tag},
		Summary:            op.summary,
		Description:        op.description,
		Parameters:         slices.Concat(pathParams(op.path), op.keyParams(), op.sessionParams(), op.params),
		Security:           []map[string][]string{{securityScheme: {}}, {sessionScheme: {}}},
		SkipValidateParams: true,
		SkipValidateBody:   true,
		Hidden:             op.hidden,
		Metadata:           map[string]any{operationKey: op},
		Middlewares:        e.kataraStages(op),
	}
	huma.Register(e.api, entry, func(ctx context.Context, _ *struct{}) (*kataraOutput, error) {
		return &kataraOutput{Body: func(out huma.Context) {
			if err := handle(ctx, out); err != nil {
				e.refuse(humagin.Unwrap(out), err) //nolint:contextcheck // it has the request's
			}
		}}, nil
	})
	if op.hidden {
		return
	}
	item := e.api.OpenAPI().Paths[op.path]
	documented := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodDelete: item.Delete}[op.method]
	documented.Responses = e.kataraResponses(op)
	if op.body != nil {
		documented.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			mediaJSON: {Schema: schemas.Schema(op.body, true, op.body.Name())},
		}}
	}
}

// pathParams documents the ids of a path.
func pathParams(path string) []*huma.Param {
	names := namesIn(path)
	out := make([]*huma.Param, 0, len(names))
	for _, name := range names {
		schema := &huma.Schema{Type: huma.TypeString, Format: "uuid"}
		if name == paramVersion {
			least := 1.0
			schema = &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &least}
		}
		out = append(out, &huma.Param{Name: name, In: "path", Required: true, Schema: schema})
	}
	return out
}

// namesIn are the names of the parameters of a path, in order.
func namesIn(path string) []string {
	var names []string
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// sessionParams documents what cookie callers send along with a mutation.
func (op kataraOperation) sessionParams() []*huma.Param {
	if !mutates(op.method) {
		return nil
	}
	return []*huma.Param{
		headerParam(headerCSRF, "1, from callers with a session cookie. They also send an Origin that is allowed."),
		headerParam(headerAccount, "The account of the session, from callers with a session cookie."),
	}
}

// kataraEverywhere are the codes that any operation may answer.
var kataraEverywhere = []documents.Code{
	documents.InvalidRequest, documents.AuthenticationRequired, documents.PermissionDenied, documents.NotFound,
	documents.RateLimited, documents.Unavailable, documents.Internal,
}

// allCodes are the codes that the operation may answer.
func (op kataraOperation) allCodes() []documents.Code {
	codes := slices.Concat(kataraEverywhere, op.codes)
	if mutates(op.method) {
		codes = append(codes, documents.CSRFRejected, documents.AccountChanged, documents.IdempotencyKeyReused,
			documents.IdempotencyInProgress, documents.OutcomeUnknown)
	}
	if op.human {
		codes = append(codes, documents.HumanSessionRequired)
	}
	if op.recent {
		codes = append(codes, documents.ReauthenticationRequired)
	}
	if op.content {
		codes = append(codes, documents.FeatureUnavailable)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// kataraResponses documents the answers, the errors grouped by status.
func (e *edge) kataraResponses(op kataraOperation) map[string]*huma.Response {
	schemas := e.api.OpenAPI().Components.Schemas
	envelope := schemas.Schema(reflect.TypeFor[ErrorEnvelope](), true, "ErrorEnvelope")
	out := map[string]*huma.Response{}
	add := func(status int, tells string) {
		key := strconv.Itoa(status)
		if out[key] == nil {
			out[key] = &huma.Response{
				Headers: errorHeaders(status), Content: map[string]*huma.MediaType{mediaJSON: {Schema: envelope}},
			}
		} else {
			tells = out[key].Description + "\n\n" + tells
		}
		out[key].Description = tells
	}
	for _, code := range op.allCodes() {
		info := code.Info()
		add(info.Status, fmt.Sprintf("%s: %s", code, info.Message))
	}
	add(http.StatusRequestEntityTooLarge, fmt.Sprintf("%s: The body is larger than %d bytes.", documents.InvalidRequest, maxKataraBody))
	if op.body != nil {
		add(http.StatusUnsupportedMediaType, fmt.Sprintf("%s: The body is not JSON.", documents.InvalidRequest))
	}
	success := &huma.Response{Description: http.StatusText(op.success)}
	if op.answer != nil {
		success.Content = map[string]*huma.MediaType{mediaJSON: {Schema: schemas.Schema(op.answer, true, op.answer.Name())}}
	}
	if op.success == http.StatusCreated {
		success.Headers = map[string]*huma.Header{headerLocation: stringHeader("Path of what was made.")}
	}
	out[strconv.Itoa(op.success)] = success
	if op.key != keyIgnored {
		documentReplay(out)
	}
	return out
}

// permission is a grant at the place that the request is about.
func (g grant) permission(place auth.Place) auth.Permission {
	return auth.Permission{Application: applicationKatara, Resource: g.resource, Action: g.action, Place: place}
}

func mutates(method string) bool { return method != http.MethodGet && method != http.MethodHead }
