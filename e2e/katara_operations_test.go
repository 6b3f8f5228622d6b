package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit"
)

const (
	kataraOrg         = "/katara/v1/orgs/{org_id}"
	kataraEnvironment = kataraOrg + "/environments/{environment_id}"
	kataraSource      = kataraEnvironment + "/sources/{id}"
	kataraObject      = kataraEnvironment + "/objects/{id}"
)

// kataraOperation is a row of the operations table.
type kataraOperation struct {
	id, method, path string
	permissions      []string
	human, recent    bool
	success          int
}

func kataraOperations() []kataraOperation {
	manage, readEnvironments := []string{"environments:manage"}, []string{"environments:read"}
	approve, read := []string{"sources:approve"}, []string{"sources:read"}
	memory := []string{"memory:read"}
	return []kataraOperation{
		{"create-environment", "POST", kataraOrg + "/environments", manage, true, false, 201},
		{"list-environments", "GET", kataraOrg + "/environments", readEnvironments, false, false, 200},
		{"get-environment", "GET", kataraEnvironment, readEnvironments, false, false, 200},
		{"create-source", "POST", kataraEnvironment + "/sources", approve, true, true, 201},
		{"list-sources", "GET", kataraEnvironment + "/sources", read, false, false, 200},
		{"get-source", "GET", kataraSource, read, false, false, 200},
		{"reconnect-source", "POST", kataraSource + "/reconnect", approve, true, true, 200},
		{"disconnect-source", "POST", kataraSource + "/disconnect", approve, true, false, 200},
		{"sync-source", "POST", kataraSource + "/sync", []string{"sources:sync", "memory:write"}, false, false, 200},
		{"list-source-fetches", "GET", kataraSource + "/fetches", read, false, false, 200},
		{"get-source-fetch", "GET", kataraSource + "/fetches/{fetch_id}", read, false, false, 200},
		{"list-source-documents", "GET", kataraSource + "/documents", read, false, false, 200},
		{"get-object", "GET", kataraObject, memory, false, false, 200},
		{"list-object-versions", "GET", kataraObject + "/versions", memory, false, false, 200},
		{"get-object-version", "GET", kataraObject + "/versions/{version}", memory, false, false, 200},
		{"download-object-content", "GET", kataraObject + "/versions/{version}/content", memory, false, false, 200},
		{"delete-object", "DELETE", kataraObject, []string{"memory:delete"}, true, false, 204},
		{"get-session", "GET", "/katara/v1/session", nil, false, false, 200},
	}
}

// bodyOf is a body that an operation takes, if it takes one.
func bodyOf(t *testing.T, s *kataraSuite, op kataraOperation) string {
	t.Helper()
	bodies := map[string]object{
		"create-environment": {"name": unique("environment")},
		"create-source":      {"name": unique("source"), "origin": s.web.Base(), "path_prefix": "/docs"},
		"reconnect-source":   {"origin": s.web.Base(), "path_prefix": "/docs", "revision": 1},
		"disconnect-source":  {"revision": 1},
		"sync-source":        {"url": s.web.URL("/docs/page"), "object_id": uuid.NewString()},
	}
	if body := bodies[op.id]; body != nil {
		return text(t, body)
	}
	return ""
}

// of is a request for the operation with the ids put into its path, random ones where there are none.
func (op kataraOperation) of(body, org string, ids map[string]string) call {
	path := strings.Replace(op.path, "{org_id}", org, 1)
	for _, name := range []string{"environment_id", "id", "fetch_id", "version"} {
		id := ids[name]
		if id == "" {
			id = uuid.NewString()
			if name == "version" {
				id = "1"
			}
		}
		path = strings.Replace(path, "{"+name+"}", id, 1)
	}
	r := call{method: op.method, path: path, body: body}
	if op.method != http.MethodGet {
		r.headers = []string{"Idempotency-Key", uuid.NewString()}
	}
	return r
}

// testKataraOperations is the operations table: each exists under its id, wants a token, and succeeds as it says.
func testKataraOperations(t *testing.T, s *kataraSuite) {
	admin := s.agent(t, "admin")
	documented := 0
	for path, item := range s.document.Paths.Map() {
		if strings.HasPrefix(path, "/katara/") {
			documented += len(item.Operations())
		}
	}
	if documented != len(kataraOperations()) {
		t.Errorf("the document has %d operations, want %d", documented, len(kataraOperations()))
	}
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	var page synced
	admin.succeeds(t, http.StatusOK, fetching(t, source, s.web.URL("/docs/page"))).Decode(t, &page)
	last := func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
	ids := map[string]string{"environment_id": last(environment), "fetch_id": page.FetchID}
	made := map[string]string{"create-environment": "", "create-source": ""}
	for _, op := range kataraOperations() { // in the order of the table: what is deleted comes last
		item := s.document.Paths.Value(op.path)
		if item == nil || item.GetOperation(op.method) == nil || item.GetOperation(op.method).OperationID != op.id {
			t.Errorf("the document does not have %s", op.id)
			continue
		}
		for _, status := range []string{"400", "401", "403", "404", "429", "500", "503"} {
			if item.GetOperation(op.method).Responses.Value(status) == nil {
				t.Errorf("%s does not declare %s", op.id, status)
			}
		}
		ids["id"] = last(source)
		if strings.Contains(op.path, "/objects/") {
			ids["id"] = page.Content.ID
		}
		r := op.of(bodyOf(t, s, op), s.org, ids)
		if op.id == "disconnect-source" || op.id == "reconnect-source" {
			r = op.of(bodyOf(t, s, op), s.org, map[string]string{"environment_id": ids["environment_id"], "id": last(s.source(t, environment, s.web.Base()))})
		}
		nobody := admin
		nobody.token = ""
		nobody.fails(t, "authentication_required", "", r)
		got := admin.succeeds(t, op.success, r)
		location := got.Header.Get("Location")
		if _, creates := made[op.id]; creates {
			var created struct{ ID string }
			got.Decode(t, &created)
			if want := r.path + "/" + created.ID; location != want {
				t.Errorf("Location %q, want %q", location, want)
			}
			admin.succeeds(t, http.StatusOK, get(location))
		} else if location != "" {
			t.Errorf("%s: Location %q", op.id, location)
		}
		if op.human && len(r.headers) > 0 { // every mutation heeds the key
			if again := admin.succeeds(t, op.success, r); again.Header.Get("Idempotent-Replayed") != "true" || string(again.Body) != string(got.Body) {
				t.Errorf("%s again: %v %s", op.id, again.Header, again.Body)
			}
		}
	}
	var objectNow struct{ Origin *struct{} }
	if got := admin.do(t, get(environment+"/objects/"+page.Content.ID)); got.Status == http.StatusOK {
		got.Decode(t, &objectNow)
		if objectNow.Origin != nil {
			t.Errorf("a deleted document still has its page: %s", got.Body)
		}
	}
	admin.fails(t, "object_id_in_use", "object_id", fetchingAs(t, source, s.web.URL("/docs/page"), page.Content.ID, uuid.NewString()))
}

// testKataraPermissions looks at what the identity service is asked, what becomes of its answers, and at grants in
// tokens, the limited ones too.
func testKataraPermissions(t *testing.T, s *kataraSuite) {
	issuer := testkit.Issuer(t)
	issuer.Deny()
	asked := s.manager(t, "PLUGIN_AUTH_ADDRESS="+issuer.URL(), "PLUGIN_AUTH_CACHE_TTL=0")
	claims := s.manager(t, "PLUGIN_AUTH_ADDRESS="+issuer.URL(), "PLUGIN_AUTH_AUTHORIZATION=claims")
	environment, id := uuid.NewString(), uuid.NewString()
	for _, op := range kataraOperations() {
		if len(op.permissions) == 0 {
			continue
		}
		r := op.of(bodyOf(t, s, op), s.org, map[string]string{"environment_id": environment, "id": id})
		asked.token = issuer.Token(testkit.Token{})
		before := len(issuer.AuthorizeCalls())
		asked.fails(t, "permission_denied", "", r)
		resource, action, _ := strings.Cut(op.permissions[0], ":")
		want := []testkit.AuthorizeCall{{Token: asked.token, Subject: "acme/user", Resource: resource, Action: action, Product: "katara"}}
		if diff := cmp.Diff(want, issuer.AuthorizeCalls()[before:]); diff != "" {
			t.Errorf("%s: questions (-want +got): %s", op.id, diff)
		}
		machine := asked
		machine.token = issuer.Token(testkit.Token{Type: "application"})
		if op.human {
			machine.fails(t, "human_session_required", "", r)
		} else {
			machine.fails(t, "permission_denied", "", r)
		}
		allowed := func(grants ...string) bool {
			claims.token = issuer.Token(testkit.Token{Permissions: grants})
			return claims.do(t, r).Status != http.StatusForbidden
		}
		var needed, here, elsewhere []string
		for _, p := range op.permissions {
			needed = append(needed, "katara:"+p)
			here = append(here, "katara:"+p+"@environment/"+strings.ToUpper(environment))
			elsewhere = append(elsewhere, "katara:"+p+"@environment/"+id)
		}
		inside := strings.Contains(op.path, "{environment_id}")
		atSource := strings.Contains(op.path, "/sources/{id}")
		for _, tc := range []struct {
			grants []string
			want   bool
		}{
			{needed, true},
			{needed[1:], false},
			{[]string{"katara:*"}, true},
			{[]string{"fetcher:*", "*"}, false},
			{here, inside},
			{elsewhere, false},
			{[]string{"katara:*@source/" + id}, atSource},
			{[]string{"katara:*@source/" + environment}, false},
		} {
			if got := allowed(tc.grants...); got != tc.want {
				t.Errorf("%s with %v: allowed is %v", op.id, tc.grants, got)
			}
		}
	}
	issuer.Allow()
	issuer.Down()
	asked.token = issuer.Token(testkit.Token{})
	asked.fails(t, "unavailable", "", get("/katara/v1/orgs/"+s.org+"/environments"))

	// The roles of development tokens.
	for role, may := range map[string][]string{
		"viewer":   {"environments:read", "sources:read", "memory:read"},
		"operator": {"environments:read", "sources:read", "memory:read", "sources:sync", "memory:write"},
		"machine":  {"environments:read", "sources:read", "memory:read", "sources:sync", "memory:write"},
	} {
		for _, op := range kataraOperations() {
			lacks := slices.ContainsFunc(op.permissions, func(p string) bool { return !slices.Contains(may, p) })
			got := s.agent(t, role).do(t, op.of(bodyOf(t, s, op), s.org, nil))
			if (got.Status == http.StatusForbidden) != lacks {
				t.Errorf("%s as %s: %s", op.id, role, got.Body)
			}
		}
	}
}

// manager starts another manager on the same databases and returns acme's administrator there.
func (s *kataraSuite) manager(t *testing.T, env ...string) agent {
	t.Helper()
	c := s.apiSuite.manager(t, env...)
	return agent{suite: s, base: c.base, token: s.freshToken(t, "acme")}
}
