package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit/webtest"
)

const sessionCookie = "__Host-session"

// header makes a request with more header lines.
func (r call) header(lines ...string) call {
	r.headers = append(append([]string{}, r.headers...), lines...)
	return r
}

// testKataraBearer: the Authorization header decides alone, whatever the cookie.
func testKataraBearer(t *testing.T, s *kataraSuite) {
	good := s.Tenant("acme").Tokens["admin"]
	nobody := s.agent(t, "admin")
	nobody.token = ""
	list := get("/katara/v1/orgs/" + s.org + "/environments")
	cookie := []string{"Cookie", sessionCookie + "=" + good}
	const invalid, missing = `Bearer error="invalid_token"`, "Bearer"
	for name, tc := range map[string]struct {
		headers   []string
		challenge string // empty: the request succeeds
	}{
		"bearer":                  {[]string{"Authorization", "bearer " + good}, ""},
		"nothing":                 {nil, missing},
		"garbage":                 {[]string{"Authorization", "Bearer garbage"}, invalid},
		"garbage beside a cookie": {append([]string{"Authorization", "Bearer garbage"}, cookie...), invalid},
		"basic beside a cookie":   {append([]string{"Authorization", "Basic YTpi"}, cookie...), missing},
		"empty beside a cookie":   {append([]string{"Authorization", ""}, cookie...), missing},
		"two lines":               {[]string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, invalid},
		"expired":                 {[]string{"Authorization", "Bearer " + s.Token(t, "--tenant", "acme", "--ttl", "-1h")}, invalid},
		"no tenant":               {[]string{"Authorization", "Bearer " + tokenWith(t, s.Dev, map[string]any{"tenantId": nil})}, invalid},
		"malformed tenant":        {[]string{"Authorization", "Bearer " + tokenWith(t, s.Dev, map[string]any{"tenantId": "../etc"})}, invalid},
	} {
		r := list.header(tc.headers...)
		if tc.challenge == "" {
			nobody.succeeds(t, http.StatusOK, r)
			continue
		}
		nobody.fails(t, "authentication_required", "", r)
		if got := nobody.do(t, r).Header.Get("WWW-Authenticate"); got != tc.challenge {
			t.Errorf("%s: WWW-Authenticate %q, want %q", name, got, tc.challenge)
		}
	}
	var session struct {
		AccountID       string `json:"account_id"`
		Kind            string `json:"kind"`
		OrgID           string `json:"org_id"`
		AuthenticatedAt string `json:"authenticated_at"`
	}
	for role, want := range map[string][2]string{"admin": {"acme/admin", "user"}, "machine": {"machine", "machine"}} {
		s.agent(t, role).succeeds(t, http.StatusOK, get("/katara/v1/session")).Decode(t, &session)
		if _, err := time.Parse(time.RFC3339, session.AuthenticatedAt); err != nil || session.OrgID != s.org || [2]string{session.AccountID, session.Kind} != want {
			t.Errorf("session of %s: %+v", role, session)
		}
	}
}

// testKataraCookie is the row about cookies, one violation at a time.
func testKataraCookie(t *testing.T, s *kataraSuite) {
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	path, url := s.page()
	s.web.Page(path, "text/plain", "by cookie")
	browser := s.agent(t, "operator")
	cookie := []string{"Cookie", "theme=dark; " + sessionCookie + "=" + browser.token + "; other=1"}
	browser.token = ""
	good := map[string]string{"X-Katara-CSRF": "1", "Origin": pages, "X-Katara-Account-ID": "acme/operator", "Sec-Fetch-Site": "same-site"}
	key := uuid.NewString()
	for name, tc := range map[string]struct {
		header, value string // what is other than good; the value - leaves it out, + doubles it
		code, param   string
	}{
		"no mark":               {"X-Katara-CSRF", "-", "csrf_rejected", ""},
		"another mark":          {"X-Katara-CSRF", "true", "csrf_rejected", ""},
		"two marks":             {"X-Katara-CSRF", "+", "csrf_rejected", ""},
		"no origin":             {"Origin", "-", "csrf_rejected", ""},
		"origin null":           {"Origin", "null", "csrf_rejected", ""},
		"origin in other case":  {"Origin", strings.ToUpper(pages), "csrf_rejected", ""},
		"origin with a slash":   {"Origin", pages + "/", "csrf_rejected", ""},
		"origin below":          {"Origin", "https://evil." + strings.TrimPrefix(pages, "https://"), "csrf_rejected", ""},
		"origin with a tail":    {"Origin", pages + ".evil.test", "csrf_rejected", ""},
		"origin without TLS":    {"Origin", strings.Replace(pages, "https", "http", 1), "csrf_rejected", ""},
		"two origins":           {"Origin", "+", "csrf_rejected", ""},
		"cross-site":            {"Sec-Fetch-Site", "cross-site", "csrf_rejected", ""},
		"no account":            {"X-Katara-Account-ID", "-", "invalid_request", "X-Katara-Account-ID"},
		"empty account":         {"X-Katara-Account-ID", "", "invalid_request", "X-Katara-Account-ID"},
		"account with a space":  {"X-Katara-Account-ID", "acme operator", "invalid_request", "X-Katara-Account-ID"},
		"two accounts":          {"X-Katara-Account-ID", "+", "invalid_request", "X-Katara-Account-ID"},
		"another account":       {"X-Katara-Account-ID", "acme/admin", "account_changed", ""},
		"an account that isn't": {"X-Katara-Account-ID", "nobody", "account_changed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			headers := cookie
			for header, value := range good {
				switch {
				case header != tc.header:
				case tc.value == "-":
					continue
				case tc.value == "+":
					headers = append(slices.Clip(headers), header, value)
				default:
					value = tc.value
				}
				headers = append(slices.Clip(headers), header, value)
			}
			// Nothing else is looked at: neither the body nor whether the source exists.
			browser.fails(t, tc.code, tc.param, fetchingAs(t, source, url, uuid.NewString(), key).header(headers...))
			browser.fails(t, tc.code, tc.param, post(environment+"/sources/"+uuid.NewString()+"/sync", "{").header(headers...))
		})
	}
	for _, seen := range s.web.Seen() {
		if seen.Target == path {
			t.Error("a refused request was fetched")
		}
	}
	headers := cookie
	for header, value := range good {
		headers = append(headers, header, value)
	}
	// The key is free: no refused request has claimed it.
	browser.succeeds(t, http.StatusOK, fetchingAs(t, source, url, uuid.NewString(), key).header(headers...))
	browser.succeeds(t, http.StatusOK, get(source).header(cookie...)) // a read needs the cookie alone
	twice := "Cookie"
	browser.fails(t, "authentication_required", "", get(source).header(twice, cookie[1]+"; "+sessionCookie+"=x"))
	browser.fails(t, "authentication_required", "", get(source).header(twice, sessionCookie+"=garbage"))
	browser.fails(t, "authentication_required", "", get(source).header(twice, "session="+s.Tenant("acme").Tokens["admin"]))
	s.admin().asNobody().fails(t, "FET-0006", get(managed, cookie...)) // the other contract knows no cookie

	other, token := s.odd, s.freshToken(t, "acme")
	other.token = ""
	other.succeeds(t, http.StatusOK, get("/katara/v1/session").header("Cookie", "sid="+token))
	other.fails(t, "authentication_required", "", get("/katara/v1/session").header(cookie...))
	other.fails(t, "csrf_rejected", "", post(environment+"/sources", "{}").header("Cookie", "sid="+token, "Origin", pages, "X-Katara-CSRF", "1")) // it allows no origin
}

// asNobody is the caller without its token.
func (c caller) asNobody() caller {
	c.token = ""
	return c
}

// testKataraOrder takes the faults of one request away, one by one, in the order in which they are found.
func testKataraOrder(t *testing.T, s *kataraSuite) {
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	noContent := s.bare
	viewer, operator := s.Tenant("acme").Tokens["viewer"], s.Tenant("acme").Tokens["operator"]
	stranger := s.Token(t, "--tenant", "nobody")
	withContent := s.agent(t, "admin")
	withContent.token, noContent.token = "", ""

	cookie := func(token string) []string { return []string{"Cookie", sessionCookie + "=" + token} }
	mark := []string{"X-Katara-CSRF", "1", "Origin", pages}
	path := func(org string) string { return strings.Replace(source, s.org, org, 1) + "/sync" }
	const badBody = "{"
	for _, tc := range []struct {
		agent       agent
		method      string
		path        string
		body        string
		headers     [][]string
		code, param string
	}{
		{noContent, "PUT", path("x") + "/x", badBody, nil, "route_not_found", ""},
		{noContent, "PUT", path("x"), badBody, nil, "method_not_allowed", ""},
		{noContent, "POST", path("x"), badBody, nil, "authentication_required", ""},
		{noContent, "POST", path("x"), badBody, [][]string{cookie(stranger)}, "csrf_rejected", ""},
		{noContent, "POST", path("x"), badBody, [][]string{cookie(stranger), mark}, "invalid_request", "X-Katara-Account-ID"},
		{noContent, "POST", path("x"), badBody, [][]string{cookie(stranger), mark, {"X-Katara-Account-ID", "acme/viewer"}}, "account_changed", ""},
		{noContent, "POST", path("x"), badBody, [][]string{cookie(stranger), mark, {"X-Katara-Account-ID", "nobody/admin"}}, "invalid_request", "org_id"},
		{noContent, "POST", path(s.org), badBody, [][]string{cookie(stranger), mark, {"X-Katara-Account-ID", "nobody/admin"}}, "not_found", ""},
		{noContent, "POST", path(s.org), badBody, [][]string{cookie(viewer), mark, {"X-Katara-Account-ID", "acme/viewer"}}, "permission_denied", ""},
		{noContent, "POST", path(s.org), badBody, [][]string{cookie(operator), mark, {"X-Katara-Account-ID", "acme/operator"}}, "feature_unavailable", ""},
		{withContent, "POST", path(s.org), badBody, [][]string{cookie(operator), mark, {"X-Katara-Account-ID", "acme/operator"}}, "invalid_request", "body"},
		{withContent, "POST", path(s.org), text(t, object{"url": s.web.URL("/docs/page"), "object_id": nobodysID}), [][]string{cookie(operator), mark, {"X-Katara-Account-ID", "acme/operator"}}, "invalid_request", "Idempotency-Key"},
	} {
		r := call{method: tc.method, path: tc.path, body: tc.body}
		for _, lines := range tc.headers {
			r = r.header(lines...)
		}
		tc.agent.fails(t, tc.code, tc.param, r)
	}
}

// testKataraPeople: some operations are for people, and for those who have just signed in.
func testKataraPeople(t *testing.T, s *kataraSuite) {
	stale, fresh := s.agent(t, "admin"), s.agent(t, "admin")
	stale.token = s.Token(t, "--tenant", "acme", "--auth-time", "-16m")
	fresh.token = s.Token(t, "--tenant", "acme", "--auth-time", "-10m")
	future := s.agent(t, "admin")
	future.token = s.Token(t, "--tenant", "acme", "--auth-time", "1h")
	machine := s.agent(t, "machine")
	robot := s.agent(t, "admin")
	robot.token = s.Token(t, "--tenant", "acme", "--role", "admin", "--type", "service-account")
	for _, op := range kataraOperations() {
		r := op.of(bodyOf(t, s, op), s.org, nil)
		if op.human {
			machine.fails(t, "human_session_required", "", r)
			robot.fails(t, "human_session_required", "", r)
		} else if got := machine.do(t, r); got.Status == http.StatusForbidden {
			t.Errorf("%s by a machine: %s", op.id, got.Body)
		}
		if !op.recent {
			for _, a := range []agent{stale, future} {
				if got := a.do(t, r); strings.Contains(string(got.Body), "reauthentication_required") {
					t.Errorf("%s asks for a recent sign-in", op.id)
				}
			}
			continue
		}
		stale.fails(t, "reauthentication_required", "", r)
		future.fails(t, "reauthentication_required", "", r)
		if got := stale.do(t, r).Header.Get("WWW-Authenticate"); got != `Bearer error="insufficient_user_authentication", max_age=900` {
			t.Errorf("WWW-Authenticate %q", got)
		}
		fresh.fails(t, "not_found", "", r) // there is no such environment
	}
}

// testKataraTenants: a tenant that can't be served.
func testKataraTenants(t *testing.T, s *kataraSuite) {
	suspended, org := s.newTenant(t, "katara_suspended")
	list := get("/katara/v1/orgs/" + org + "/environments")
	suspended.succeeds(t, http.StatusOK, list)
	binary.Command(t, s.Env(t), "tenant", "suspend", "katara_suspended", "--yes")
	for deadline := time.Now().Add(time.Minute); ; {
		got := suspended.do(t, list)
		if got.Status == http.StatusForbidden {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the suspended tenant still gets %d", got.Status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, r := range []call{list, post(list.path, "{"), get("/katara/v1/session")} {
		if v := suspended.fails(t, "permission_denied", "", r); v.Action != "support" {
			t.Errorf("action %q", v.Action)
		}
	}

	gone, org := s.newTenant(t, "katara_gone")
	list = get("/katara/v1/orgs/" + org + "/environments")
	s.superuser(t, "postgres", "DROP DATABASE katara_gone WITH (FORCE)")
	gone.fails(t, "unavailable", "", list)

	unknown := s.agent(t, "admin")
	unknown.token = s.Token(t, "--tenant", "nobody")
	unknown.fails(t, "not_found", "", get("/katara/v1/session"))
	unknown.fails(t, "not_found", "", get("/katara/v1/orgs/"+s.org+"/environments"))

	limited := s.manager(t, "TENANT_RATE_LIMIT=0.001")
	limited.succeeds(t, http.StatusOK, get("/katara/v1/session"))
	limited.fails(t, "rate_limited", "", get("/katara/v1/orgs/"+s.org+"/environments"))
}

// testKataraSettings looks at what the variables change.
func testKataraSettings(t *testing.T, s *kataraSuite) {
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	off := s.bare
	off.token = s.freshToken(t, "acme")
	for _, op := range kataraOperations() {
		needs := op.id == "sync-source" || strings.Contains(op.path, "/objects/")
		r := op.of(bodyOf(t, s, op), s.org, nil)
		if needs {
			off.fails(t, "feature_unavailable", "", r)
		} else if got := off.do(t, r); got.Status == http.StatusNotImplemented {
			t.Errorf("%s: %s", op.id, got.Body)
		}
	}
	anonymous := off
	anonymous.token = ""
	anonymous.fails(t, "authentication_required", "", post(source+"/sync", "{}"))

	off.fails(t, "invalid_request", "origin", post(environment+"/sources", text(t, object{"name": "x", "origin": s.web.Base(), "path_prefix": "/docs"})))
	off.succeeds(t, http.StatusCreated, post(environment+"/sources", text(t, object{"name": "x", "origin": "https://" + webtest.Host, "path_prefix": "/docs"})))

	odd, org := s.newTenant(t, "katara_odd")
	theirs := s.sourceOf(t, odd, s.environmentOf(t, odd, org), s.web.Base())
	odd.base = s.odd.base
	odd.fails(t, "destination_refused", "", fetching(t, theirs, s.web.URL("/docs/page")))
	odd.fails(t, "rate_limited", "", fetching(t, theirs, s.web.URL("/docs/page")))
}
