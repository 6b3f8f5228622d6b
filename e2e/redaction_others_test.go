package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func (r *redaction) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(blackbox.StartTimeout); !ok(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", blackbox.StartTimeout, what)
		}
	}
}

// lockedTable makes a table of the source that nobody can read before release is called.
func (r *redaction) lockedTable(t *testing.T) (table string, release func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	password, err := os.ReadFile(filepath.Join(r.Dir, "postgres", "password"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, r.serverURL("postgres", strings.TrimSpace(string(password)), "redacted"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CREATE TABLE held (word text)", "GRANT SELECT ON held TO redacted", "BEGIN", "LOCK TABLE held"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	return "held", func() {
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// refusals calls every operation of the document with tokens that are no good, in every place where one may be.
func (r *redaction) refusals(t *testing.T) {
	t.Helper()
	stranger := testkit.Issuer(t).Token(testkit.Token{Tenant: r.tenant})
	expired := tokenWith(t, r.Dev, map[string]any{"tenantId": r.tenant, "exp": time.Now().Add(-time.Hour).Unix()})
	good := r.admin.token
	forged := good[:strings.LastIndexByte(good, '.')+1] + r.word("signature") + r.word("signature")
	word := r.word("bearer that is no token")
	for _, token := range []string{stranger, expired} {
		r.add("token", token[strings.LastIndexByte(token, '.')+1:])
	}
	for path, item := range r.document.Paths.Map() {
		for method := range item.Operations() {
			for _, parameter := range []string{"id", "org_id", "environment_id", "fetch_id"} {
				path = strings.ReplaceAll(path, "{"+parameter+"}", uuid.NewString())
			}
			path = strings.ReplaceAll(path, "{version}", "1")
			for _, token := range []string{stranger, expired, forged, word, "eyJ" + r.word("malformed token") + ".e30."} {
				if got := r.do(t, r.Info.API, token, call{method: method, path: path}); got.Status != http.StatusUnauthorized {
					t.Errorf("%s %s with a bad token: %d %s", method, path, got.Status, got.Body)
				}
			}
			for _, header := range [][]string{
				{"Cookie", "__Host-session=" + forged}, {"Cookie", "__Host-session=" + r.word("cookie")}, {"X-Api-Key", r.word("X-API-Key")},
				{"Authorization", "Basic " + r.word("Basic")}, {"Proxy-Authorization", "Bearer " + r.word("Proxy-Authorization")},
			} {
				if got := r.do(t, r.Info.API, "", call{method: method, path: path, headers: header}); got.Status < http.StatusBadRequest {
					t.Errorf("%s %s with %s: %d", method, path, header[0], got.Status)
				}
			}
		}
	}
	r.do(t, r.Info.API, good, get("/v1/nowhere?token="+r.word("query of no route")))
	r.do(t, r.Info.API, good, call{method: "BREW", path: managed, headers: []string{"Cookie", "a=" + r.word("cookie of no method")}})
}

// documents approves, fetches, reads and deletes web documents, and fails to.
func (r *redaction) documents(t *testing.T) {
	t.Helper()
	body := r.secret("document", "download-object-content")
	header, comment := r.word("header of a document"), r.word("header of a document that fails")
	r.web.Handle("/docs/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Set-Cookie", "session="+header)
		w.Header().Set("X-Secret", header)
		_, _ = w.Write([]byte(body))
	})
	failing := r.word("body of a refusal")
	for path, answer := range map[string]func(http.ResponseWriter){
		"/docs/refused": func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
		"/docs/redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://u:"+comment+"@"+"elsewhere.example.com/"+comment)
			w.WriteHeader(http.StatusFound)
		},
		"/docs/broken": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"/docs/typed":  func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/x-"+strings.ToLower(comment)) },
		"/docs/invalid": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("\xff\xfe\xff"))
		},
	} {
		r.web.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="`+comment+`"`)
			answer(w)
			_, _ = w.Write([]byte(failing))
		})
	}
	var session struct {
		OrgID string `json:"org_id"`
	}
	r.ends(t, http.StatusOK, get("/katara/v1/session")).Decode(t, &session)
	signed := r.do(t, r.Info.API, "", get("/katara/v1/session", "Cookie", "__Host-session="+r.admin.token))
	if signed.Status != http.StatusOK {
		t.Errorf("with the cookie: %d %s", signed.Status, signed.Body)
	}
	keyed := func(method, path string, body any) call {
		c := call{method: method, path: path, headers: []string{"Idempotency-Key", uuid.NewString()}}
		if body != nil {
			c.body = text(t, body)
		}
		return c
	}
	made := func(c call) (id string) {
		var m struct{ ID string }
		r.ends(t, http.StatusCreated, c).Decode(t, &m)
		return m.ID
	}
	environments := "/katara/v1/orgs/" + session.OrgID + "/environments"
	environment := environments + "/" + made(keyed("POST", environments, object{"name": "e"}))
	approve := object{"name": "s", "origin": r.web.Base(), "path_prefix": "/docs"}
	source := environment + "/sources/" + made(keyed("POST", environment+"/sources", approve))
	fetch := func(path string) call {
		return keyed("POST", source+"/sync", object{"url": r.web.URL(path), "object_id": uuid.NewString()})
	}
	var page synced
	r.ends(t, http.StatusOK, fetch("/docs/page")).Decode(t, &page)
	for _, path := range []string{"/docs/refused", "/docs/redirect", "/docs/broken", "/docs/typed", "/docs/invalid", "/docs/nowhere", "/elsewhere"} {
		if got := r.do(t, r.Info.API, r.admin.token, fetch(path)); got.Status < http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	for _, url := range []string{
		"https://u:" + r.word("password in a URL") + "@docs.example.com/docs", r.web.URL("/docs/page?token=" + r.word("query of a document")),
		r.web.URL("/docs/page#" + r.word("fragment of a document")),
	} {
		for _, c := range []call{
			keyed("POST", source+"/sync", object{"url": url, "object_id": uuid.NewString()}),
			keyed("POST", environment+"/sources", object{"name": "s", "origin": url, "path_prefix": "/docs"}),
			get(source + "/documents?url=" + strings.NewReplacer("?", "%3F", "#", "%23").Replace(url)),
		} {
			r.do(t, r.Info.API, r.admin.token, c)
		}
	}
	one := environment + "/objects/" + page.Content.ID
	for _, path := range []string{
		environments, environment, environment + "/sources", source, source + "/fetches", source + "/fetches/" + page.FetchID, source + "/documents",
		one, one + "/versions", one + "/versions/1", one + "/versions/1/content",
	} {
		r.ends(t, http.StatusOK, get(path))
	}
	r.ends(t, http.StatusOK, keyed("POST", source+"/reconnect", object{"origin": r.web.Base(), "path_prefix": "/docs", "revision": 1}))
	r.ends(t, http.StatusOK, keyed("POST", source+"/disconnect", object{"revision": 2}))
	r.ends(t, http.StatusNoContent, keyed("DELETE", one, nil))
	r.do(t, r.Info.API, r.admin.token, fetch("/docs/page"))
}

// uploads runs a job on a worker that may not write to its bucket, and whose events nobody takes.
func (r *redaction) uploads(t *testing.T, s *secretSources) {
	t.Helper()
	id, key := r.word("id of the bucket's key"), r.secret("key of the bucket")
	bucket := listen(t, "bucket", false)
	bucket.say(http.StatusForbidden, "<Error><Code>AccessDenied</Code><Message>Access denied.</Message></Error>")
	env := []string{
		"RESULTS_URL=s3://bucket?region=us-east-1&use_path_style=true&endpoint=" + bucket.URL,
		"AWS_ACCESS_KEY_ID=" + id, "AWS_SECRET_ACCESS_KEY=" + key,
	}
	r.hook.say(http.StatusInternalServerError, r.word("words of the webhook's receiver"))
	r.startWorker(t, env...)
	job := r.submit(t, r.extraction(t, s.names["postgres"], "t", nil, "word"))
	r.await(t, job, "failed")
	r.stopWorker(t)
	if !bucket.heard(id) {
		t.Error("the bucket was not asked with the key")
	}
	r.says(t, true, r.env, "events", "replay", "--tenant", r.tenant)
}

// commands runs the commands with secrets in their environments and arguments, well and badly.
func (r *redaction) commands(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"config", "check"}, {"config", "docs"}, {"tenant", "list"}, {"tenant", "list", "--output", "json"}, {"tenant", "show", r.tenant},
		{"tenant", "check", r.tenant}, {"tenant", "migrate", r.tenant}, {"migrate"}, {"keys", "rotate"}, {"tenant", "suspend", r.tenant}, {"tenant", "resume", r.tenant},
	} {
		r.says(t, true, r.env, args...)
	}
	for _, dsn := range []string{
		"postgres://u:" + r.word("password of a database that refuses") + "@127.0.0.1:1/d", "postgres://u:" + r.word("password in a broken URL") + "@[x/d",
		"host=127.0.0.1 port=1 user=u password=" + r.word("password in a list of settings"), "mysql://u:" + r.word("password in a URL of another kind") + "@h/d",
		r.serverURL(r.tenant, r.word("wrong password of the tenant's database"), r.tenant),
	} {
		r.says(t, false, r.env, "tenant", "create", strings.ToLower(unique("none")), "--dsn", dsn)
		r.says(t, false, append(slices.Clone(r.env), "DATABASE_URL="+dsn), "tenant", "list")
		r.says(t, false, append(slices.Clone(r.env), "DATABASE_URL="+dsn), "manager")
	}
	for _, variable := range []string{
		"APP_ENC_KEY=" + r.word("key that is too short"), "APP_ENC_KEYS_RETIRED=1:" + r.word("retired key that is none"),
		"EVENTS_WEBHOOK_SECRET=" + r.word("webhook secret that is none"), "RABBIT_SERVER_URL=http://u:" + r.word("broker that is none") + "@h",
		"RESULTS_URL=ftp://u:" + r.word("bucket that is none") + "@h", "NATS_SERVER_URL=nats://u:" + r.word("NATS that is none") + "@[h",
	} {
		r.says(t, false, append(slices.Clone(r.env), variable), "config", "check")
	}
	r.says(t, false, r.env, "tenant", "webhook", "set", r.tenant, "--url", "https://h.example.com", "--secret", r.word("webhook secret that is too short"))
	r.says(t, false, r.env, "tenant", "webhook", "set", r.tenant, "--url", "http://u:"+r.word("password of a webhook")+"@h.example.com/")
}

// managed starts a manager whose tenants are those of a tenant manager, which is asked with a key, tells passwords and
// speaks too much.
func (r *redaction) managed(t *testing.T) {
	t.Helper()
	tenants := listen(t, "tenant manager", false)
	key := r.word("key for the tenant manager")
	settings := `{"id":"` + r.tenant + `","tenantName":"n","status":"active","databases":{"fetcher":{"postgresql":{"host":"127.0.0.1","port":1,"database":"d",` +
		`"username":"u","password":"` + r.word("password that the tenant manager tells") + `","sslmode":"disable"}}}}`
	tenants.say(http.StatusOK, settings)
	p, base := launchProcess(t, "manager", append(slices.Clone(r.env), "MULTI_TENANT_URL="+tenants.URL, "MULTI_TENANT_SERVICE_API_KEY="+key)...)
	if got := r.do(t, base, r.admin.token, get(managed)); got.Status != http.StatusServiceUnavailable {
		t.Errorf("a tenant whose database refuses: %d %s", got.Status, got.Body)
	}
	for i, answer := range []string{"{" + r.word("words of the tenant manager"), strings.Replace(settings, `"port":1`, `"port":"`+r.word("port that is none")+`"`, 1), r.word("no JSON")} {
		tenants.say([]int{http.StatusOK, http.StatusOK, http.StatusInternalServerError}[i], answer)
		token := tokenWith(t, r.Dev, map[string]any{"tenantId": fmt.Sprint(r.tenant, i), "owner": r.tenant})
		if got := r.do(t, base, token, get(managed)); got.Status < http.StatusInternalServerError {
			t.Errorf("a tenant manager that answers %s: %d %s", answer, got.Status, got.Body)
		}
	}
	if !tenants.heard(key) {
		t.Error("the tenant manager was not asked with the key")
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	r.keep(logOf("managed manager", p))
}
