package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit/webtest"
)

// testKataraRoutes: unknown routes and wrong methods, with and without a token.
func testKataraRoutes(t *testing.T, s *kataraSuite) {
	for _, token := range []string{"", s.agent(t, "admin").token} {
		a := s.agent(t, "admin")
		a.token = token
		for _, path := range []string{
			"/katara/", "/katara/v1", "/katara/v1/nowhere", "/katara/v2/session", "/katara/v1/session/", "/katara/v1/orgs/" + s.org,
			"/katara/v1/orgs/" + s.org + "/environments/", "/katara/V1/session", "/katara/../katara/x", "/katara/v1/orgs/" + s.org + "/environments/a%2Fb",
		} {
			a.fails(t, "route_not_found", "", get(path))
			a.fails(t, "route_not_found", "", post(path, "x", "Content-Type", "text/plain"))
		}
		in := map[string]string{"environment_id": nobodysID, "id": nobodysID}
		allowed := map[string][]string{}
		for _, op := range kataraOperations() {
			path := op.of("", s.org, in).path
			allowed[path] = append(allowed[path], op.method)
			if op.id == "download-object-content" {
				allowed[path] = append(allowed[path], http.MethodHead)
			}
		}
		for path, methods := range allowed {
			for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodOptions, http.MethodTrace, "BREW"} {
				a.fails(t, "method_not_allowed", "", call{method: method, path: path})
				got := strings.Split(a.do(t, call{method: method, path: path}).Header.Get("Allow"), ", ")
				if diff := cmp.Diff(slices.Sorted(slices.Values(methods)), got); diff != "" {
					t.Errorf("%s: Allow (-want +got): %s", path, diff)
				}
			}
		}
	}
	s.admin().fails(t, "FET-0005", get("/katara")) // not below the prefix
}

// testKataraIDs: ids in paths, in every form but the one.
func testKataraIDs(t *testing.T, s *kataraSuite) {
	admin := s.agent(t, "admin")
	malformed := []string{
		"x", "1", "{" + nobodysID + "}", "urn:uuid:" + nobodysID, strings.ReplaceAll(nobodysID, "-", ""), nobodysID + "0",
		"01a22ef4-44e7-7853-a1ec-394dc71d3d9g", "01a22ef444-e7-7853-a1ec-394dc71d3d9b", "%00", "%20" + nobodysID,
	}
	for _, op := range kataraOperations() {
		for _, name := range []string{"environment_id", "id", "fetch_id", "version"} {
			if !strings.Contains(op.path, "{"+name+"}") {
				continue
			}
			values := malformed
			if name == "version" {
				values = []string{"0", "-1", "01", "+1", "x", "1.0", "99999999999999999999", nobodysID}
			}
			for _, value := range values {
				admin.fails(t, "invalid_request", name, op.of(bodyOf(t, s, op), s.org, map[string]string{name: value}))
			}
		}
	}
	for _, value := range malformed {
		admin.fails(t, "invalid_request", "org_id", get("/katara/v1/orgs/"+value+"/environments"))
	}
	// Upper case is the same id, and answered in lower case.
	environment := s.environment(t)
	upper := strings.ToUpper(environment[strings.LastIndexByte(environment, '/')+1:])
	var found struct {
		ID    string `json:"id"`
		OrgID string `json:"org_id"`
	}
	admin.succeeds(t, http.StatusOK, get("/katara/v1/orgs/"+strings.ToUpper(s.org)+"/environments/"+upper)).Decode(t, &found)
	if found.ID != strings.ToLower(upper) || found.OrgID != s.org {
		t.Errorf("found %+v", found)
	}
}

// testKataraBodies: bodies are strict.
func testKataraBodies(t *testing.T, s *kataraSuite) {
	admin := s.agent(t, "admin")
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	good := fmt.Sprintf(`{"url":%q,"object_id":"%s"}`, s.web.URL("/docs/page"), uuid.NewString())
	send := func(body string, headers ...string) call {
		return post(source+"/sync", body, append([]string{"Idempotency-Key", uuid.NewString()}, headers...)...)
	}
	for body, param := range map[string]string{
		"": "body", " ": "body", "{": "body", "null": "body", "[]": "body", `"x"`: "body", "1": "body", good + "x": "body", good + good: "body", "\ufeff" + good: "body",
		"{\"url\":\"\xff\"}": "body", `{"url":"\ud800"}`: "body", "{}": "url",
		strings.Replace(good, "{", `{"colour":1,`, 1):                                                                       "colour",
		strings.Replace(good, "{", `{"$schema":"x",`, 1):                                                                    "$schema",
		strings.Replace(good, `"url"`, `"URL"`, 1):                                                                          "URL",
		strings.Replace(good, `"object_id"`, `"objectId"`, 1):                                                               "objectId",
		strings.Replace(good, "{", `{"url":"https://a.test/",`, 1):                                                          "url",
		strings.Replace(good, "{", `{"object_id":null,`, 1):                                                                 "object_id",
		`{"url":null,"object_id":"` + nobodysID + `"}`:                                                                      "url",
		`{"url":1,"object_id":"` + nobodysID + `"}`:                                                                         "url",
		`{"url":["https://a.test/"],"object_id":"` + nobodysID + `"}`:                                                       "url",
		`{"object_id":"` + nobodysID + `"}`:                                                                                 "url",
		`{"url":"https://docs.example.com/docs"}`:                                                                           "object_id",
		`{"url":"https://docs.example.com/docs","object_id":"x"}`:                                                           "object_id",
		`{"url":"http://docs.example.com/docs","object_id":"` + nobodysID + `"}`:                                            "url",
		fmt.Sprintf(`{"url":"%s?x","object_id":"%s"}`, s.web.URL("/docs/page"), nobodysID):                                  "url",
		fmt.Sprintf(`{"url":"%s","object_id":"%s"}`, s.web.URL("/docs/page"), strings.ReplaceAll(nobodysID, "-", "")):       "object_id",
		fmt.Sprintf(`{"url":"%s","object_id":"{%s}"}`, s.web.URL("/docs/page"), nobodysID):                                  "object_id",
		fmt.Sprintf(`{"url":"%s","object_id":"%s","x":{"url":1}}`, s.web.URL("/docs/page"), nobodysID):                      "x",
		fmt.Sprintf(`{"url":"%s","object_id":"%s"}`, "https://"+webtest.Host+"/docs/"+strings.Repeat("a", 2048), nobodysID): "url",
	} {
		admin.fails(t, "invalid_request", param, send(body))
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1"} {
		admin.failsWith(t, http.StatusUnsupportedMediaType, "invalid_request", "Content-Type", send(good, "Content-Type", media))
	}
	const frame = `{"object_id":"` + nobodysID + `","url":""}`
	largest := strings.Replace(frame, `""`, `"`+strings.Repeat("x", 16<<10-len(frame))+`"`, 1)
	admin.fails(t, "invalid_request", "url", send(largest))
	admin.failsWith(t, http.StatusRequestEntityTooLarge, "invalid_request", "body", send(largest+" "))
	for _, op := range kataraOperations() {
		if op.method == http.MethodGet {
			r := op.of(strings.Repeat("x", 16<<10+1), s.org, nil)
			admin.failsWith(t, http.StatusRequestEntityTooLarge, "invalid_request", "body", r)
			break // one read stands for all: the stage is the same
		}
	}
	for key, lines := range map[string][]string{
		"missing": nil, "empty": {""}, "no UUID": {"abc"}, "undashed": {strings.ReplaceAll(nobodysID, "-", "")}, "braces": {"{" + nobodysID + "}"},
		"two lines": {nobodysID, nobodysID}, "a list": {nobodysID + ", " + nobodysID},
	} {
		var headers []string
		for _, line := range lines {
			headers = append(headers, "Idempotency-Key", line)
		}
		admin.fails(t, "invalid_request", "Idempotency-Key", post(source+"/sync", good, headers...))
		if key != "missing" {
			admin.fails(t, "invalid_request", "Idempotency-Key", post(environment+"/sources", bodyOf(t, s, kataraOperations()[3]), headers...))
		}
	}
	for param, body := range map[string]object{
		"name":        {"name": " ", "origin": s.web.Base(), "path_prefix": "/docs"},
		"origin":      {"name": "x", "origin": s.web.Base() + "/", "path_prefix": "/docs"},
		"path_prefix": {"name": "x", "origin": s.web.Base(), "path_prefix": "docs"},
	} {
		admin.fails(t, "invalid_request", param, post(environment+"/sources", text(t, body)))
	}
	for _, revision := range []string{`"1"`, "1.5", "true", "1e0", "99999999999999999999"} {
		admin.fails(t, "invalid_request", "revision", post(source+"/disconnect", `{"revision":`+revision+`}`))
	}
}

// testKataraLists: pages of listings.
func testKataraLists(t *testing.T, s *kataraSuite) {
	admin := s.agent(t, "admin")
	environment := s.environment(t)
	var want []string
	for range 3 {
		source := s.source(t, environment, s.web.Base())
		want = append(want, source[strings.LastIndexByte(source, '/')+1:])
	}
	list := environment + "/sources"
	var got []string
	next := "?limit=2"
	for next != "" {
		var page struct {
			Items []struct {
				ID        string  `json:"id"`
				LastFetch *object `json:"last_fetch"`
			} `json:"items"`
			NextCursor *string `json:"next_cursor"`
		}
		answer := admin.succeeds(t, http.StatusOK, get(list+next))
		answer.Decode(t, &page)
		for _, item := range page.Items {
			got = append(got, item.ID)
		}
		next = ""
		if page.NextCursor != nil {
			next = "?limit=2&cursor=" + *page.NextCursor
		} else if !strings.Contains(string(answer.Body), `"next_cursor":null`) {
			t.Errorf("no next_cursor: %s", answer.Body)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("sources:", diff)
	}
	if empty := admin.succeeds(t, http.StatusOK, get(environment+"/sources/"+want[0]+"/documents")); string(empty.Body) != `{"items":[],"next_cursor":null}`+"\n" {
		t.Errorf("an empty listing: %s", empty.Body)
	}
	for query, param := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=": "limit", "limit=x": "limit", "limit=-1": "limit", "limit=1.0": "limit", "limit=+1": "limit",
		"cursor=x": "cursor", "cursor=%00": "cursor", "a=%zz": "query", "limit=1;": "query",
	} {
		admin.fails(t, "invalid_request", param, get(list+"?"+query))
	}
	admin.succeeds(t, http.StatusOK, get(list+"?limit=100&cursor=&unknown=1"))
}

// testKataraOtherTenants: the ids of another tenant look like those of nobody.
func testKataraOtherTenants(t *testing.T, s *kataraSuite) {
	admin, globex := s.agent(t, "admin"), s.agent(t, "admin")
	globex.token = s.freshToken(t, "globex")
	environment := s.environmentOf(t, globex, s.Tenant("globex").OrgID)
	source := s.sourceOf(t, globex, environment, s.web.Base())
	var page synced
	globex.succeeds(t, http.StatusOK, fetching(t, source, s.web.URL("/docs/page"))).Decode(t, &page)
	last := func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
	mine := last(s.environment(t))
	bodies := map[string][]string{}
	for _, op := range kataraOperations() {
		if op.id == "get-session" {
			continue
		}
		ids := map[string]string{"environment_id": last(environment), "id": last(source), "fetch_id": page.FetchID}
		if strings.Contains(op.path, "/objects/") {
			ids["id"] = page.Content.ID
		}
		body := bodyOf(t, s, op)
		orgs := []string{s.Tenant("globex").OrgID, uuid.NewString()}
		for _, r := range []call{op.of(body, orgs[0], ids), op.of(body, orgs[1], ids), op.of(body, orgs[1], nil)} {
			answer := admin.do(t, r)
			v, err := opened(answer)
			if err != nil || v.Code != "not_found" {
				t.Errorf("%s of %s: %s", op.id, r.path, answer.Body)
			}
			whole := strings.ReplaceAll(string(answer.Body), v.RequestID, "")
			bodies[whole] = append(bodies[whole], r.path)
		}
		if !strings.Contains(op.path, "{environment_id}") {
			continue
		}
		for _, r := range []call{ // of its own organisation, with the other's ids, or its own environment with them
			op.of(body, s.org, ids), op.of(body, s.org, nil),
			op.of(body, s.org, map[string]string{"environment_id": mine, "id": ids["id"], "fetch_id": ids["fetch_id"]}),
		} {
			if strings.Contains(r.path, mine) && !strings.Contains(op.path, "{id}") {
				continue // that is a good request
			}
			answer := admin.do(t, r)
			v, err := opened(answer)
			if err != nil || v.Code != "not_found" {
				t.Errorf("%s of %s: %s", op.id, r.path, answer.Body)
			}
			whole := strings.ReplaceAll(string(answer.Body), v.RequestID, "")
			bodies[whole] = append(bodies[whole], r.path)
		}
	}
	if len(bodies) != 1 {
		t.Errorf("the answers differ: %v", bodies)
	}
}
