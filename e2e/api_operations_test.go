package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit"
)

// apiOperation is a row of the operations table.
type apiOperation struct {
	id, method, path string
	resource, action string
	product          string // what becomes of X-Product-Name
	success          []int
	location         bool // the success names what it made
}

func operations() []apiOperation {
	const one = managed + "/{id}"
	return []apiOperation{
		{"create-connection", "POST", managed, "connections", "post", "required", []int{201}, true},
		{"list-connections", "GET", managed, "connections", "get", "optional", []int{200}, false},
		{"validate-schema", "POST", managed + "/validate-schema", "connections", "post", "ignored", []int{200, 422}, false},
		{"list-unassigned-connections", "GET", managed + "/unassigned", "connections", "get", "ignored", []int{200}, false},
		{"assign-connection-to-product", "POST", one + "/assign", "connections", "post", "required", []int{200}, false},
		{"get-connection", "GET", one, "connections", "get", "ignored", []int{200}, false},
		{"update-connection", "PATCH", one, "connections", "patch", "ignored", []int{200}, false},
		{"delete-connection", "DELETE", one, "connections", "delete", "ignored", []int{204}, false},
		{"test-connection", "POST", one + "/test", "connections", "post", "ignored", []int{200}, false},
		{"get-connection-schema", "GET", one + "/schema", "connections", "get", "ignored", []int{200}, false},
		{"create-fetcher-job", "POST", "/v1/fetcher", "fetcher", "post", "ignored", []int{202, 200}, true},
		{"get-fetcher-job", "GET", "/v1/fetcher/{id}", "fetcher", "get", "ignored", []int{200}, false},
		{"list-fetcher-jobs", "GET", "/v1/fetcher", "fetcher", "get", "optional", []int{200}, false},
		{"cancel-fetcher-job", "POST", "/v1/fetcher/{id}/cancel", "fetcher", "post", "ignored", []int{202}, false},
		{"download-fetcher-result", "GET", "/v1/fetcher/{id}/result", "fetcher", "get", "ignored", []int{200}, false},
		{"list-fetcher-job-events", "GET", "/v1/fetcher/{id}/events", "fetcher", "get", "ignored", []int{200}, false},
	}
}

// ready is, for every operation, a request that succeeds once. They are made for c's tenant acme.
func ready(t *testing.T, c caller) map[string]call {
	t.Helper()
	kept := c.create(t, "ledger", nil)
	job := c.completed(t, "ledger", kept.ConfigName)
	running, _, release := c.blocked(t, "ledger", kept.ConfigName)
	t.Cleanup(release)
	ids := map[string]string{
		"assign-connection-to-product": c.unassigned(t).ID, "delete-connection": c.create(t, "ledger", nil).ID,
		"cancel-fetcher-job": running, "update-connection": c.create(t, "ledger", nil).ID,
	}
	bodies := map[string]string{
		"create-connection":  text(t, c.suite.sample(unique("ready"), nil)),
		"validate-schema":    text(t, object{"mappedFields": object{kept.ConfigName: object{"order": []string{"*"}}}}),
		"update-connection":  `{"port":5}`,
		"create-fetcher-job": request(t, "ledger", kept.ConfigName, "order", "select"),
	}
	out := map[string]call{}
	for _, op := range operations() {
		id := ids[op.id]
		switch {
		case id != "":
		case op.resource == "fetcher":
			id = job
		default:
			id = kept.ID
		}
		out[op.id] = call{method: op.method, path: at(op.path, id), body: bodies[op.id]}
		if op.product == "required" {
			out[op.id] = call{method: op.method, path: at(op.path, id), body: bodies[op.id], headers: []string{"X-Product-Name", "ledger"}}
		}
	}
	return out
}

// testOperations is the operations table: each exists under its id, wants a token, and succeeds as it says.
func testOperations(t *testing.T, s *apiSuite) {
	c := s.admin()
	calls := ready(t, c)
	documented := 0
	for path, item := range s.document.Paths.Map() {
		if strings.HasPrefix(path, "/v1/") {
			documented += len(item.Operations())
		}
	}
	if documented != len(operations()) {
		t.Errorf("the document has %d operations, want %d", documented, len(operations()))
	}
	for _, op := range operations() {
		t.Run(op.id, func(t *testing.T) {
			t.Parallel()
			r := calls[op.id]
			item := s.document.Paths.Value(op.path)
			if item == nil || item.GetOperation(op.method) == nil || item.GetOperation(op.method).OperationID != op.id {
				t.Fatalf("the document does not have it")
			}
			for _, status := range []string{"401", "403"} {
				if item.GetOperation(op.method).Responses.Value(status) == nil {
					t.Errorf("the document does not declare %s", status)
				}
			}
			nobody := c
			nobody.token = ""
			nobody.fails(t, "FET-0006", r)
			if got := nobody.do(t, r).Header.Get("WWW-Authenticate"); got != "Bearer" {
				t.Errorf("WWW-Authenticate %q", got)
			}
			if strings.Contains(op.path, "{id}") {
				unknown := r
				unknown.path = at(op.path, "01a22ef4-44e7-7853-a1ec-394dc71d3d9b")
				c.fails(t, "FET-1001", unknown)
			}
			got := c.succeeds(t, op.success[0], r)
			if op.location {
				made := got.Header.Get("Location")
				if !strings.HasPrefix(made, op.path+"/") {
					t.Fatalf("Location %q", made)
				}
				c.succeeds(t, http.StatusOK, get(made))
			} else if got.Header.Get("Location") != "" {
				t.Errorf("Location %q", got.Header.Get("Location"))
			}
		})
	}
}

// testAuthorisation looks at what the identity service is asked, and what becomes of its answers.
func testAuthorisation(t *testing.T, s *apiSuite) {
	issuer := testkit.Issuer(t)
	issuer.Deny()
	c := s.manager(t, "PLUGIN_AUTH_ADDRESS="+issuer.URL(), "PLUGIN_AUTH_CACHE_TTL=0")
	claims := s.manager(t, "PLUGIN_AUTH_ADDRESS="+issuer.URL(), "PLUGIN_AUTH_AUTHORIZATION=claims")
	var every []string
	for _, op := range operations() {
		if permission := "fetcher:" + op.resource + ":" + op.action; !slices.Contains(every, permission) {
			every = append(every, permission)
		}
	}
	const id = "01a22ef4-44e7-7853-a1ec-394dc71d3d9b"
	for _, op := range operations() {
		r := call{method: op.method, path: at(op.path, id)}
		c.token = issuer.Token(testkit.Token{})
		before := len(issuer.AuthorizeCalls())
		c.fails(t, "FET-0007", r)
		machine := c
		machine.token = issuer.Token(testkit.Token{Type: "application"})
		machine.fails(t, "FET-0007", r)
		want := []testkit.AuthorizeCall{
			{Token: c.token, Subject: "acme/user", Resource: op.resource, Action: op.action, Product: "fetcher"},
			{Token: machine.token, Subject: "admin/fetcher-editor-role", Resource: op.resource, Action: op.action},
		}
		if diff := cmp.Diff(want, issuer.AuthorizeCalls()[before:]); diff != "" {
			t.Errorf("%s: questions (-want +got): %s", op.id, diff)
		}

		needed := "fetcher:" + op.resource + ":" + op.action
		claims.token = issuer.Token(testkit.Token{Permissions: slices.DeleteFunc(slices.Clone(every), func(p string) bool { return p == needed })})
		claims.fails(t, "FET-0007", r)
		for _, permission := range []string{needed, "fetcher:" + op.resource + ":*", "fetcher:*"} {
			claims.token = issuer.Token(testkit.Token{Permissions: []string{permission}})
			if got := claims.do(t, r); got.Status == http.StatusForbidden || got.Status == http.StatusUnauthorized {
				t.Errorf("%s with %s: %s", op.id, permission, got.Body)
			}
		}
	}
	claims.token = issuer.Token(testkit.Token{Claims: map[string]any{"scope": "openid fetcher:connections:get"}})
	claims.succeeds(t, http.StatusOK, get(managed))
	claims.fails(t, "FET-0007", post(managed, ""))

	r := get(managed)
	c.token = issuer.Token(testkit.Token{Claims: map[string]any{"owner": nil}})
	c.fails(t, "FET-0006", r)
	c.token = issuer.Token(testkit.Token{})
	for status, code := range map[int]string{401: "FET-0006", 403: "FET-0007", 404: "FET-0003", 500: "FET-0003", 503: "FET-0003"} {
		issuer.SetAuthorize(testkit.Behaviour{Status: status})
		c.fails(t, code, r)
	}
	issuer.SetAuthorize(testkit.Behaviour{})
	issuer.Allow()
	c.succeeds(t, http.StatusOK, r)
	issuer.Down()
	c.fails(t, "FET-0003", r)
	c.fails(t, "FET-0005", get("/v1/nowhere"))
}

// testProductHeader is section 3.
func testProductHeader(t *testing.T, s *apiSuite) {
	c := s.admin()
	const name = "X-Product-Name"
	invalid := map[string][]string{
		"blank": {name, ""}, "blanks": {name, "  "}, "space inside": {name, "a b"}, "dot": {name, "a.b"},
		"too long": {name, strings.Repeat("a", 101)}, "not ASCII": {name, "é"}, "comma": {name, "a,b"},
	}
	required := map[string][]string{"absent": nil, "two lines": {name, "ledger", name, "ledger"}, "two different": {name, "a", name, "b"}}
	loose := c.unassigned(t)
	for label, headers := range invalid {
		c.fails(t, "FET-0403", get(managed, headers...), "header.X-Product-Name")
		c.fails(t, "FET-0403", get("/v1/fetcher", headers...), "header.X-Product-Name")
		required[label] = headers
	}
	for _, headers := range required {
		c.fails(t, "FET-0403", post(managed, `{"not even`, headers...), "header.X-Product-Name") // before the body
		c.fails(t, "FET-0403", post(managed+"/"+loose.ID+"/assign", "", headers...), "header.X-Product-Name")
	}
	longest := strings.Repeat("a-_9", 25)
	for sent, kept := range map[string]string{"  LedGer\t": "ledger", longest: longest, "x": "x"} {
		if made := c.create(t, sent, nil); made.ProductName == nil || *made.ProductName != kept {
			t.Errorf("product %q became %v", sent, made.ProductName)
		}
	}
	var assigned connection
	c.succeeds(t, http.StatusOK, post(managed+"/"+loose.ID+"/assign", "", name, " MiXed ")).Decode(t, &assigned)
	if assigned.ProductName == nil || *assigned.ProductName != "mixed" {
		t.Errorf("assigned to %v", assigned.ProductName)
	}

	product := unique("scope")
	mine := c.create(t, product, nil)
	job := c.completed(t, product, mine.ConfigName)
	listed := func(path string, headers ...string) []string {
		var page struct {
			Items []struct{ ID, ConfigName string }
		}
		c.succeeds(t, http.StatusOK, get(path, headers...)).Decode(t, &page)
		var ids []string
		for _, item := range page.Items {
			if item.ConfigName != internalDown { // not scoped
				ids = append(ids, item.ID)
			}
		}
		return ids
	}
	if diff := cmp.Diff([]string{mine.ID}, listed(managed, name, strings.ToUpper(product))); diff != "" {
		t.Error("connections of the product:", diff)
	}
	if diff := cmp.Diff([]string{job}, listed("/v1/fetcher", name, " "+strings.ToUpper(product))); diff != "" {
		t.Error("jobs of the product:", diff)
	}
	if got := listed(managed); len(got) < 2 {
		t.Errorf("without the header: %v", got)
	}
	ids := map[string]string{"connections": mine.ID, "fetcher": job}
	for _, op := range operations() {
		if op.product != "ignored" || op.method == http.MethodDelete {
			continue
		}
		for _, headers := range [][]string{{name, "!!"}, {name, ""}, {name, "a", name, "b"}} {
			r := call{method: op.method, path: at(op.path, ids[op.resource]), headers: headers}
			if got := c.do(t, r); strings.Contains(string(got.Body), "FET-0403") {
				t.Errorf("%s heeds the header: %s", op.id, got.Body)
			}
		}
	}
}
