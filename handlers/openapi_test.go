package handlers_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/handlers"
)

func swagger(o *handlers.Options) { o.Swagger = true }

func loadDocument(t *testing.T, s *service) *openapi3.T {
	t.Helper()
	got := s.expect(t, http.StatusOK, "", http.MethodGet, "/swagger/openapi.json", "", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(got.body))
	must(t, err)
	return doc
}

func TestDocument(t *testing.T) {
	t.Parallel()
	s := newService(t, swagger)
	doc := loadDocument(t, s)
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	want := []string{
		"DELETE /v1/management/connections/{id} delete-connection",
		"GET /v1/fetcher list-fetcher-jobs",
		"GET /v1/fetcher/{id} get-fetcher-job",
		"GET /v1/fetcher/{id}/events list-fetcher-job-events",
		"GET /v1/fetcher/{id}/result download-fetcher-result",
		"GET /v1/management/connections list-connections",
		"GET /v1/management/connections/unassigned list-unassigned-connections",
		"GET /v1/management/connections/{id} get-connection",
		"GET /v1/management/connections/{id}/schema get-connection-schema",
		"PATCH /v1/management/connections/{id} update-connection",
		"POST /v1/fetcher create-fetcher-job",
		"POST /v1/fetcher/{id}/cancel cancel-fetcher-job",
		"POST /v1/management/connections create-connection",
		"POST /v1/management/connections/validate-schema validate-schema",
		"POST /v1/management/connections/{id}/assign assign-connection-to-product",
		"POST /v1/management/connections/{id}/test test-connection",
	}
	var got []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			got = append(got, method+" "+path+" "+op.OperationID)
			statuses := slices.Collect(maps.Keys(op.Responses.Map()))
			for _, status := range []string{"401", "403", "404", "413", "500", "503"} {
				if !slices.Contains(statuses, status) {
					t.Errorf("%s does not declare %s", op.OperationID, status)
				}
			}
			if op.Security == nil || len(*op.Security) == 0 {
				t.Errorf("%s does not declare that it needs a token", op.OperationID)
			}
			if method == http.MethodPost && strings.HasPrefix(op.OperationID, "create") &&
				(op.RequestBody == nil || !op.RequestBody.Value.Required) {
				t.Errorf("%s does not declare its body", op.OperationID)
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	asYAML := s.expect(t, http.StatusOK, "", http.MethodGet, "/swagger/openapi.yaml", "", "")
	other, err := openapi3.NewLoader().LoadFromData([]byte(asYAML.body))
	must(t, err)
	if err := other.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(doc.Paths.Map())), slices.Sorted(maps.Keys(other.Paths.Map()))); diff != "" {
		t.Error("the two documents differ:", diff)
	}
}

// TestAnswersMatchDocument holds what the service answers against its own document.
func TestAnswersMatchDocument(t *testing.T) {
	t.Parallel()
	s := newService(t, swagger)
	doc := loadDocument(t, s)
	doc.Servers = openapi3.Servers{{URL: s.url}}
	router, err := legacy.NewRouter(doc)
	must(t, err)
	d := external(t)
	body := describe(t, d, "orders", map[string]any{"schema": "public", "metadata": map[string]any{"a": []any{1, nil}}})
	connection, _ := s.create(t, "acme", body)
	loose := s.unassigned(t, "acme", "loose", "")
	job := s.complete(t, "acme", []byte(`{"orders":{}}`), time.Now().Add(time.Hour)).ID.String()
	request := `{"metadata":{"source":"ledger"},"dataRequest":{"mappedFields":{"orders":{"Order":["*"]}},` +
		`"filters":{"orders":{"Order":{"id":{"in":[1,"2"]},"note":{"isNull":[false]}}}}},"output":{"format":"json"}}`
	created := s.expect(t, http.StatusAccepted, "", http.MethodPost, "/v1/fetcher", s.token("acme"), request)
	var made struct{ JobID string }
	created.decode(t, &made)
	for _, tc := range []struct {
		method, path, body string
		status             int
		headers            []string
	}{
		{http.MethodPost, connectionsPath, describe(t, d, "second", nil), 201, []string{"X-Product-Name", "ledger"}},
		{http.MethodPost, connectionsPath, describe(t, d, "second", nil), 409, []string{"X-Product-Name", "ledger"}},
		{http.MethodPost, connectionsPath, `{"configName":1}`, 400, []string{"X-Product-Name", "ledger"}},
		{http.MethodGet, connectionsPath, "", 200, nil},
		{http.MethodGet, connectionsPath + "?limit=x", "", 400, nil},
		{http.MethodGet, connectionsPath + "/" + connection, "", 200, nil},
		{http.MethodGet, connectionsPath + "/" + uuid.NewString(), "", 404, nil},
		{http.MethodPost, connectionsPath + "/" + connection + "/test", "", 200, nil},
		{http.MethodGet, connectionsPath + "/" + connection + "/schema", "", 200, nil},
		{http.MethodPost, connectionsPath, describe(t, d, "third", nil), 201, []string{"X-Product-Name", "ledger", "Idempotency-Key", "k"}},
		{http.MethodPost, connectionsPath, describe(t, d, "third", nil), 201, []string{"X-Product-Name", "ledger", "Idempotency-Key", "k"}},
		{http.MethodPost, connectionsPath, describe(t, d, "fourth", nil), 422, []string{"X-Product-Name", "ledger", "Idempotency-Key", "k"}},
		{http.MethodGet, connectionsPath + "/unassigned", "", 200, nil},
		{http.MethodPost, connectionsPath + "/" + loose + "/assign", "", 200, []string{"X-Product-Name", "ledger"}},
		{http.MethodPost, connectionsPath + "/" + loose + "/assign", "", 409, []string{"X-Product-Name", "ledger"}},
		{http.MethodPatch, connectionsPath + "/" + loose, `{"schema":null,"ssl":null,"metadata":{"a":null},"password":"p"}`, 200, []string{"If-Match", "*"}},
		{http.MethodPatch, connectionsPath + "/" + loose, `{"ssl":{"mode":"true","ca":null},"metadata":null,"port":2}`, 200, nil},
		{http.MethodPatch, connectionsPath + "/" + loose, `{"port":3}`, 412, []string{"If-Match", `"1"`}},
		{http.MethodPatch, connectionsPath + "/" + loose, `{"port":null}`, 400, nil},
		{http.MethodDelete, connectionsPath + "/" + loose, "", 204, nil},
		{http.MethodDelete, connectionsPath + "/" + loose, "", 404, nil},
		{http.MethodGet, connectionsPath + "/" + connection + "/schema?details=true", "", 200, nil},
		{http.MethodPost, "/v1/fetcher", request, 200, nil},
		{http.MethodPost, "/v1/fetcher", `{"dataRequest":{}}`, 400, nil},
		{http.MethodGet, "/v1/fetcher/" + made.JobID, "", 200, nil},
		{http.MethodGet, "/v1/fetcher/" + job, "", 200, nil},
		{http.MethodGet, "/v1/fetcher/" + job + "/events", "", 200, nil},
		{http.MethodGet, "/v1/fetcher/" + job + "/result", "", 200, nil},
		{http.MethodGet, "/v1/fetcher/" + made.JobID + "/result", "", 409, nil},
		{http.MethodGet, "/v1/fetcher/" + job + "/result", "", 206, []string{"Range", "bytes=1-3"}},
		{http.MethodGet, "/v1/fetcher/" + job + "/result", "", 416, []string{"Range", "bytes=99-"}},
		{http.MethodGet, "/v1/fetcher", "", 200, nil},
		{http.MethodGet, "/v1/fetcher?status=pending&limit=1", "", 200, []string{"X-Product-Name", "ledger"}},
		{http.MethodGet, "/v1/fetcher?status=x", "", 400, nil},
		{http.MethodPost, "/v1/fetcher/" + made.JobID + "/cancel", "", 202, nil},
		{http.MethodPost, "/v1/fetcher/" + made.JobID + "/cancel", "", 409, nil},
		{http.MethodPost, connectionsPath + "/validate-schema", `{"mappedFields":{"orders":{"Order":["*"]}}}`, 200, nil},
		{http.MethodPost, connectionsPath + "/validate-schema", `{"mappedFields":{"orders":{"Order":["nope"]}}}`, 422, nil},
		{http.MethodPost, connectionsPath + "/validate-schema", `{"mappedFields":{"nope":{"Order":["*"]}}}`, 404, nil},
	} {
		got := s.expect(t, tc.status, "", tc.method, tc.path, s.token("acme"), tc.body, tc.headers...)
		if err := matchesDocument(router, s.url, tc.method, tc.path, tc.body, tc.headers, got); err != nil {
			t.Errorf("%s %s (%d): %v", tc.method, tc.path, tc.status, err)
		}
	}
}

func matchesDocument(router routers.Router, base, method, path, body string, headers []string, got answer) error {
	req, err := http.NewRequest(method, base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	route, params, err := router.FindRoute(req)
	if err != nil {
		return err
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, QueryParams: url.Values{}, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true,
		},
	}
	in.QueryParams = req.URL.Query()
	if got.status < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(req.Context(), in); err != nil {
			return err
		}
	}
	return openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.status, Header: got.header,
		Body: io.NopCloser(strings.NewReader(got.body)), Options: in.Options,
	})
}

func TestDocumentationPages(t *testing.T) {
	t.Parallel()
	s := newService(t, swagger)
	page := s.expect(t, http.StatusOK, "", http.MethodGet, "/swagger/docs", "", "")
	if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || strings.Contains(page.body, "http://") ||
		strings.Contains(page.body, "https://") {
		t.Errorf("the page names another host or is none: %s", page.body)
	}
	policy := page.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "http") || strings.Contains(policy, "unsafe-eval") {
		t.Errorf("policy %q", policy)
	}
	for code, status := range map[string]int{"FET-1001": 200, "FET-1025": 200, "FET-9999": 404, "x": 404} {
		got := s.do(t, http.MethodGet, "/problems/"+code, "", "")
		if got.status != status || status == 200 && !strings.Contains(got.body, code) {
			t.Errorf("%s: status %d: %s", code, got.status, got.body)
		}
	}
}
