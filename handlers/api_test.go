package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

const connectionsPath = "/v1/management/connections"

func TestAuthentication(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	_, err := s.control.SetTenantStatus(t.Context(), "globex", control.TenantSuspended)
	must(t, err)
	const invalid = `Bearer error="invalid_token"`
	mint := func(k testkit.Token) string { return s.issuer.Token(k) }
	for name, tc := range map[string]struct {
		authorization []string
		status        int
		code          string
		challenge     string
	}{
		"good":             {[]string{"Bearer " + s.token("acme")}, 200, "", ""},
		"scheme in case":   {[]string{"bEARER " + s.token("acme")}, 200, "", ""},
		"none":             {nil, 401, "FET-0006", "Bearer"},
		"other scheme":     {[]string{"Basic YTpi"}, 401, "FET-0006", "Bearer"},
		"two lines":        {[]string{"Bearer " + s.token("acme"), "Bearer " + s.token("acme")}, 401, "FET-0006", invalid},
		"garbage":          {[]string{"Bearer garbage"}, 401, "FET-0006", invalid},
		"expired":          {[]string{"Bearer " + mint(testkit.Token{TTL: -time.Hour})}, 401, "FET-0006", invalid},
		"other signature":  {[]string{"Bearer " + mint(testkit.Token{Forge: testkit.ForgeSignature})}, 401, "FET-0006", invalid},
		"other key":        {[]string{"Bearer " + mint(testkit.Token{Forge: testkit.ForgeStranger})}, 401, "FET-0006", invalid},
		"other claims":     {[]string{"Bearer " + mint(testkit.Token{Forge: testkit.ForgeTampered})}, 401, "FET-0006", invalid},
		"alg none":         {[]string{"Bearer " + mint(testkit.Token{Forge: testkit.ForgeUnsigned})}, 401, "FET-0006", invalid},
		"alg HS256":        {[]string{"Bearer " + mint(testkit.Token{Forge: testkit.ForgeHMAC})}, 401, "FET-0006", invalid},
		"other issuer":     {[]string{"Bearer " + mint(testkit.Token{Claims: map[string]any{"iss": "http://elsewhere"}})}, 401, "FET-0006", invalid},
		"no issuer":        {[]string{"Bearer " + mint(testkit.Token{Claims: map[string]any{"iss": nil}})}, 401, "FET-0006", invalid},
		"no subject":       {[]string{"Bearer " + mint(testkit.Token{Claims: map[string]any{"sub": nil}})}, 401, "FET-0006", invalid},
		"no expiry":        {[]string{"Bearer " + mint(testkit.Token{Claims: map[string]any{"exp": nil}})}, 401, "FET-0006", invalid},
		"no tenant":        {[]string{"Bearer " + mint(testkit.Token{Claims: map[string]any{"tenantId": nil}})}, 401, "FET-1080", invalid},
		"malformed tenant": {[]string{"Bearer " + mint(testkit.Token{Tenant: "../etc"})}, 401, "FET-1080", invalid},
		"unknown tenant":   {[]string{"Bearer " + s.token("nobody")}, 404, "FET-1081", ""},
		"suspended tenant": {[]string{"Bearer " + s.token("globex")}, 403, "FET-1083", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := make([]string, 0, 4)
			for _, line := range tc.authorization {
				headers = append(headers, "Authorization", line)
			}
			got := s.expect(t, tc.status, tc.code, http.MethodGet, connectionsPath, "", "", headers...)
			if diff := cmp.Diff(tc.challenge, got.header.Get("WWW-Authenticate")); diff != "" {
				t.Error("WWW-Authenticate:", diff)
			}
		})
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	id := uuid.NewString()
	for name, tc := range map[string]struct{ method, path, resource, action string }{
		"create-connection": {http.MethodPost, connectionsPath, "connections", "post"},
		"list-connections":  {http.MethodGet, connectionsPath, "connections", "get"},
		"get-connection":    {http.MethodGet, connectionsPath + "/" + id, "connections", "get"},
		"update-connection": {http.MethodPatch, connectionsPath + "/" + id, "connections", "patch"},
		"delete-connection": {http.MethodDelete, connectionsPath + "/" + id, "connections", "delete"},
		"list-unassigned":   {http.MethodGet, connectionsPath + "/unassigned", "connections", "get"},
		"assign-connection": {http.MethodPost, connectionsPath + "/" + id + "/assign", "connections", "post"},
		"test-connection":   {http.MethodPost, connectionsPath + "/" + id + "/test", "connections", "post"},
		"get-schema":        {http.MethodGet, connectionsPath + "/" + id + "/schema", "connections", "get"},
		"create-job":        {http.MethodPost, "/v1/fetcher", "fetcher", "post"},
		"validate-schema":   {http.MethodPost, connectionsPath + "/validate-schema", "connections", "post"},
		"list-jobs":         {http.MethodGet, "/v1/fetcher", "fetcher", "get"},
		"get-job":           {http.MethodGet, "/v1/fetcher/" + id, "fetcher", "get"},
		"cancel-job":        {http.MethodPost, "/v1/fetcher/" + id + "/cancel", "fetcher", "post"},
		"download":          {http.MethodGet, "/v1/fetcher/" + id + "/result", "fetcher", "get"},
		"download head":     {http.MethodHead, "/v1/fetcher/" + id + "/result", "fetcher", "get"},
		"events":            {http.MethodGet, "/v1/fetcher/" + id + "/events", "fetcher", "get"},
	} {
		// One at a time: what the service was asked last is this request's question.
		s.issuer.Deny()
		token := s.issuer.Token(testkit.Token{Subject: name})
		if got := s.do(t, tc.method, tc.path, token, ""); got.status != http.StatusForbidden {
			t.Fatalf("%s: status %d: %s", name, got.status, got.body)
		}
		calls := s.issuer.AuthorizeCalls()
		last := calls[len(calls)-1]
		if last.Resource != tc.resource || last.Action != tc.action || last.Subject != "acme/"+name {
			t.Errorf("%s: asked for %+v", name, last)
		}
	}
	s.issuer.Allow()
	s.issuer.SetAuthorize(testkit.Behaviour{Status: 500})
	got := s.expect(t, 503, "FET-0003", http.MethodGet, connectionsPath, s.token("acme"), "")
	if got.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

// TestRouting is about what comes before any operation.
func TestRouting(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	token := s.token("acme")
	denied := s.issuer.Token(testkit.Token{Subject: "denied"})
	s.issuer.Decide(func(c testkit.AuthorizeCall) bool { return c.Subject != "acme/denied" })
	big := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, tc := range map[string]struct {
		method, path, token, body string
		headers                   []string
		status                    int
		code                      string
		allow                     string
	}{
		"unknown route":                 {http.MethodGet, "/nowhere", "", "", nil, 404, "FET-0005", ""},
		"unknown below the API":         {http.MethodGet, "/v1/nowhere", "", "", nil, 404, "FET-0005", ""},
		"root":                          {http.MethodGet, "/", "", "", nil, 404, "FET-0005", ""},
		"trailing slash":                {http.MethodGet, connectionsPath + "/", token, "", nil, 404, "FET-0005", ""},
		"other case":                    {http.MethodGet, "/V1/fetcher", token, "", nil, 404, "FET-0005", ""},
		"double slash":                  {http.MethodGet, "//v1/fetcher", token, "", nil, 404, "FET-0005", ""},
		"documentation is off":          {http.MethodGet, "/swagger/docs", "", "", nil, 404, "FET-0005", ""},
		"method, no token":              {http.MethodPut, connectionsPath, "", "", nil, 401, "FET-0006", ""},
		"method":                        {http.MethodPut, connectionsPath, token, "", nil, 405, "FET-0417", "GET, POST"},
		"method before permission":      {http.MethodPut, connectionsPath, denied, "", nil, 405, "FET-0417", "GET, POST"},
		"method of an open route":       {http.MethodPost, "/health", "", "", nil, 405, "FET-0417", "GET, HEAD"},
		"method of the download":        {http.MethodPost, "/v1/fetcher/x/result", token, "", nil, 405, "FET-0417", "GET, HEAD"},
		"invented method":               {"FROB", connectionsPath, token, "", nil, 405, "FET-0417", "GET, POST"},
		"content type":                  {http.MethodPost, connectionsPath, token, "{}", []string{"Content-Type", "text/plain"}, 415, "FET-0415", ""},
		"content type before the rest":  {http.MethodPost, connectionsPath, denied, "{}", []string{"Content-Type", "text/plain"}, 415, "FET-0415", ""},
		"content type after the token":  {http.MethodPost, connectionsPath, "", "{}", []string{"Content-Type", "text/plain"}, 401, "FET-0006", ""},
		"content type before size":      {http.MethodPost, connectionsPath, token, big, []string{"Content-Type", "text/plain"}, 415, "FET-0415", ""},
		"size":                          {http.MethodPost, connectionsPath, token, big, nil, 413, "FET-0416", ""},
		"size before permission":        {http.MethodPost, connectionsPath, denied, big, nil, 413, "FET-0416", ""},
		"size where no body is taken":   {http.MethodPost, connectionsPath + "/x/test", token, big, nil, 413, "FET-0416", ""},
		"type where no body is taken":   {http.MethodGet, connectionsPath, token, "", []string{"Content-Type", "text/plain"}, 200, "", ""},
		"permission":                    {http.MethodGet, connectionsPath, denied, "", nil, 403, "FET-0007", ""},
		"permission before the header":  {http.MethodPost, connectionsPath, denied, "{", nil, 403, "FET-0007", ""},
		"header before the body":        {http.MethodPost, connectionsPath, token, "{", nil, 400, "FET-0403", ""},
		"header before an absent body":  {http.MethodPost, connectionsPath, token, "", nil, 400, "FET-0403", ""},
		"body":                          {http.MethodPost, connectionsPath, token, "{", []string{"X-Product-Name", "p"}, 400, "FET-0001", ""},
		"absent body":                   {http.MethodPost, connectionsPath, token, "", []string{"X-Product-Name", "p"}, 400, "FET-0001", ""},
		"empty object":                  {http.MethodPost, connectionsPath, token, "{}", []string{"X-Product-Name", "p"}, 400, "FET-0001", ""},
		"id form":                       {http.MethodGet, connectionsPath + "/1", token, "", nil, 400, "FET-0404", ""},
		"id in braces":                  {http.MethodGet, "/v1/fetcher/%7B" + uuid.NewString() + "%7D", token, "", nil, 400, "FET-0404", ""},
		"id as a URN":                   {http.MethodGet, "/v1/fetcher/urn:uuid:" + uuid.NewString(), token, "", nil, 400, "FET-0404", ""},
		"id without dashes":             {http.MethodGet, "/v1/fetcher/" + strings.ReplaceAll(uuid.NewString(), "-", ""), token, "", nil, 400, "FET-0404", ""},
		"id in upper case":              {http.MethodGet, "/v1/fetcher/" + strings.ToUpper(uuid.NewString()), token, "", nil, 404, "FET-1001", ""},
		"id of the test":                {http.MethodPost, connectionsPath + "/x/test", token, "", nil, 400, "FET-0404", ""},
		"id of the schema":              {http.MethodGet, connectionsPath + "/x/schema", token, "", nil, 400, "FET-0404", ""},
		"id of the result":              {http.MethodGet, "/v1/fetcher/x/result", token, "", nil, 400, "FET-0404", ""},
		"id of the events":              {http.MethodGet, "/v1/fetcher/x/events", token, "", nil, 400, "FET-0404", ""},
		"query that can't be decoded":   {http.MethodGet, connectionsPath + "?a=%zz", token, "", nil, 400, "FET-0405", ""},
		"schema details":                {http.MethodGet, connectionsPath + "/" + uuid.NewString() + "/schema?details=maybe", token, "", nil, 400, "FET-0405", ""},
		"product of a list, blank":      {http.MethodGet, connectionsPath, token, "", []string{"X-Product-Name", " "}, 400, "FET-0403", ""},
		"product of a list, twice":      {http.MethodGet, connectionsPath, token, "", []string{"X-Product-Name", "a", "X-Product-Name", "b"}, 400, "FET-0403", ""},
		"product where it is not read":  {http.MethodGet, "/v1/fetcher/" + uuid.NewString(), token, "", []string{"X-Product-Name", "!"}, 404, "FET-1001", ""},
		"product with a bad character":  {http.MethodPost, connectionsPath, token, "{}", []string{"X-Product-Name", "a b"}, 400, "FET-0403", ""},
		"product that is long":          {http.MethodPost, connectionsPath, token, "{}", []string{"X-Product-Name", strings.Repeat("a", 101)}, 400, "FET-0403", ""},
		"product of which there is one": {http.MethodGet, connectionsPath, token, "", []string{"X-Product-Name", " Ledger_1-A "}, 200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.expect(t, tc.status, tc.code, tc.method, tc.path, tc.token, tc.body, tc.headers...)
			if diff := cmp.Diff(tc.allow, got.header.Get("Allow")); diff != "" {
				t.Error("Allow:", diff)
			}
			if (got.status == http.StatusUnauthorized) != (got.header.Get("WWW-Authenticate") != "") {
				t.Errorf("WWW-Authenticate %q with status %d", got.header.Get("WWW-Authenticate"), got.status)
			}
		})
	}
}

func TestProblemShape(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	got := s.expect(t, 400, "FET-0405", http.MethodGet, connectionsPath+"?limit=0&token=secret", s.token("acme"), "",
		"X-Request-Id", "my.request-1")
	want := problemBody{
		Type: "/problems/FET-0405", Title: "Bad Request", Status: 400, Detail: "the query parameter limit is not valid",
		Instance: connectionsPath + "#my.request-1", Code: "FET-0405",
	}
	p := got.problem(t)
	if len(p.Errors) != 1 || p.Errors[0].Location != "query.limit" || p.Errors[0].Message == "" {
		t.Errorf("errors %+v", p.Errors)
	}
	p.Errors = nil
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	for header, want := range map[string]string{
		"X-Request-Id": "my.request-1", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Strict-Transport-Security": "",
	} {
		if diff := cmp.Diff(want, got.header.Get(header)); diff != "" {
			t.Error(header, diff)
		}
	}
	other := s.do(t, http.MethodGet, "/nowhere", "", "", "X-Request-Id", "not a valid id")
	id := other.header.Get("X-Request-Id") //nolint:canonicalheader // the published spelling
	if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 7 {
		t.Errorf("generated id %q", id)
	}
	if p := other.problem(t); p.Instance != "/nowhere#"+id || len(p.Errors) != 0 || strings.Contains(other.body, "errors") {
		t.Errorf("got %s", other.body)
	}
	logs := s.logs.String()
	if !strings.Contains(logs, "my.request-1") || strings.Contains(logs, "secret") {
		t.Errorf("the log lacks the request id or has the query: %s", logs)
	}
}
