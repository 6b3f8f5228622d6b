package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

const (
	nobodysID = "01a22ef4-44e7-7853-a1ec-394dc71d3d9b"
	ledger    = "ledger"
)

// testCodes raises the codes of section 5 that no other table is about.
func testCodes(t *testing.T, s *apiSuite) {
	c := s.admin()
	product := []string{"X-Product-Name", ledger}
	good := text(t, s.sample(unique("codes"), nil))

	t.Run("strict", func(t *testing.T) {
		t.Parallel()
		strict := s.manager(t, "STRICT_JSON=true", "REQUIRE_SOURCE_TLS=true", "DATASOURCE_DOWN_SSLMODE=require", "MAX_BODY_BYTES=2KiB", "PROBLEM_BASE_URI=https://errors.example/x")
		strict.problems = "https://errors.example/x"
		strict.fails(t, "FET-0400", post(managed, text(t, s.sample("strict", object{"colour": "red"})), product...), "body.colour")
		strict.fails(t, "FET-0400", post(managed, text(t, s.sample("strict", object{"ssl": object{"mode": "require", "x": 1}})), product...), "body.ssl.x")
		strict.fails(t, "FET-0400", post("/v1/fetcher", `{"dataRequest":{"mappedFields":{"a":{"b":["c"]}},"x":1},"metadata":{"source":"p"}}`), "body.dataRequest.x")
		strict.fails(t, "FET-0400", post(managed+"/validate-schema", `{"mappedFields":{"a":{"b":["c"]}},"y":1}`), "body.y")
		strict.fails(t, "FET-0413", post(managed, text(t, s.sample("strict", object{"ssl": object{"mode": "prefer"}})), product...), "body.ssl.mode")
		strict.fails(t, "FET-0402", post(managed, text(t, s.sample("strict", object{"ssl": nil})), product...), "body.ssl")
		strict.fails(t, "FET-0416", post(managed, `{"x":"`+strings.Repeat("x", 2048)+`"}`, product...))
	})
	t.Run("ignored members", func(t *testing.T) {
		t.Parallel()
		c.succeeds(t, http.StatusCreated, post(managed, text(t, s.sample(unique("codes"), object{"colour": object{"a": 1}})), product...))
	})
	t.Run("routes", func(t *testing.T) {
		t.Parallel()
		nobody := c
		nobody.token = ""
		for _, path := range []string{"/", "/v1", "/v1/nowhere", "/v1/fetcher/", managed + "/", managed + "/x/y", "/v2/fetcher", "/V1/fetcher", "/v1/fetcher/a/b/c"} {
			nobody.fails(t, "FET-0005", get(path))
			nobody.fails(t, "FET-0005", post(path, "x", "Content-Type", "text/plain"))
		}
		for path, allow := range map[string]string{
			managed: "GET, POST", managed + "/" + nobodysID: "DELETE, GET, PATCH", managed + "/" + nobodysID + "/test": "POST",
			managed + "/" + nobodysID + "/schema": "GET", "/v1/fetcher": "GET, POST", "/v1/fetcher/" + nobodysID + "/cancel": "POST",
		} {
			for _, method := range []string{http.MethodPut, http.MethodOptions, http.MethodTrace, "BREW"} {
				if got := c.do(t, call{method: method, path: path}).Header.Get("Allow"); got != allow {
					t.Errorf("%s %s: Allow %q, want %q", method, path, got, allow)
				}
				c.fails(t, "FET-0417", call{method: method, path: path})
				nobody.fails(t, "FET-0006", call{method: method, path: path})
			}
		}
		if got := c.succeeds(t, 200, get("/version")); !strings.Contains(string(got.Body), `"requestDate"`) {
			t.Errorf("/version: %s", got.Body)
		}
		nobody.succeeds(t, 200, get("/health"))
		nobody.succeeds(t, 200, get("/readyz"))
		nobody.succeeds(t, 200, get("/readyz/tenant/acme"))
		nobody.fails(t, "FET-1081", get("/readyz/tenant/nobody"))
		for code := range published() {
			if page := nobody.succeeds(t, 200, get("/problems/"+code)); !strings.Contains(string(page.Body), code) {
				t.Errorf("the page of %s does not name it", code)
			}
		}
		nobody.fails(t, "FET-0005", get("/problems/FET-9999"))
	})
	t.Run("bodies", func(t *testing.T) {
		t.Parallel()
		for _, media := range []string{"text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", "application/jsonx", "*/*"} {
			c.fails(t, "FET-0415", post(managed, good, append(product, "Content-Type", media)...))
			c.fails(t, "FET-0415", post("/v1/fetcher", good, "Content-Type", media))
		}
		for _, media := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON"} {
			c.fails(t, "FET-0001", post(managed, "{}", append(product, "Content-Type", media)...), "body")
		}
		large := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
		c.fails(t, "FET-0416", post(managed, large, product...))
		c.fails(t, "FET-0416", post("/v1/fetcher", large))
	})
	t.Run("ids", func(t *testing.T) {
		t.Parallel()
		for _, op := range operations() {
			if !strings.Contains(op.path, "{id}") {
				continue
			}
			var headers []string
			if op.product == "required" {
				headers = product
			}
			for _, id := range []string{
				"x", "1", "{" + nobodysID + "}", "urn:uuid:" + nobodysID, strings.ReplaceAll(nobodysID, "-", ""), nobodysID + "0",
				"01a22ef4-44e7-7853-a1ec-394dc71d3d9g", "01a22ef444-e7-7853-a1ec-394dc71d3d9b", "%00", "%20" + nobodysID,
			} {
				c.fails(t, "FET-0404", call{method: op.method, path: at(op.path, id), headers: headers}, "path.id")
			}
			body := ""
			if op.method == http.MethodPatch {
				body = `{"port":1}`
			}
			c.fails(t, "FET-1001", call{method: op.method, path: at(op.path, strings.ToUpper(nobodysID)), body: body, headers: headers})
		}
	})
	t.Run("tenants", func(t *testing.T) {
		t.Parallel()
		bad := c
		for _, claim := range []any{nil, "", "../etc", "a b", strings.Repeat("a", 129), "-a", 7} {
			bad.token = tokenWith(t, s.Dev, map[string]any{"tenantId": claim})
			bad.fails(t, "FET-1080", get(managed))
		}
		bad.token = s.Token(t, "--tenant", "nobody")
		bad.fails(t, "FET-1081", get(managed))
		out := s.tenant(t, "suspended")
		binary.Command(t, s.Env(t), "tenant", "suspend", "suspended", "--yes")
		out.fails(t, "FET-1083", get(managed))
		out.fails(t, "FET-1083", post(managed, "no json", product...))
		gone := s.tenant(t, "gone")
		s.superuser(t, "postgres", "DROP DATABASE gone WITH (FORCE)")
		gone.fails(t, "FET-1082", get(managed))
	})
	t.Run("identity service down", func(t *testing.T) {
		t.Parallel()
		down := s.manager(t, "PLUGIN_AUTH_ADDRESS=http://127.0.0.1:1", "TENANT_RATE_LIMIT=0.001")
		down.fails(t, "FET-0003", get(managed))
	})
	t.Run("metadata", func(t *testing.T) { testMetadataLimits(t, c) })
	t.Run("keys", func(t *testing.T) { testIdempotency(t, s) })
	t.Run("results", func(t *testing.T) { testResults(t, s) })
}

// testMetadataLimits holds for connections and jobs alike.
func testMetadataLimits(t *testing.T, c caller) {
	t.Parallel()
	nest := func(depth int) any { // metadata itself is level 1
		var v any = object{"leaf": 1}
		for range depth - 2 {
			v = []any{v}
		}
		return v
	}
	kept, changed := c.create(t, ledger, nil), c.create(t, ledger, nil)
	for _, tc := range []struct {
		metadata object
		code     string
	}{
		{object{"a": nest(5)}, ""}, {object{"a": nest(6)}, "FET-0410"},
		{object{"a": strings.Repeat("é", 2000)}, ""}, {object{"a": strings.Repeat("é", 2001)}, "FET-0411"},
		{object{"a": []any{object{"b": strings.Repeat("x", 2001)}}}, "FET-0411"},
		{object{strings.Repeat("é", 100): 1}, ""}, {object{strings.Repeat("k", 101): 1}, "FET-0412"},
		{object{"a": object{strings.Repeat("k", 101): 1}}, "FET-0412"},
	} {
		create := post(managed, text(t, c.suite.sample(unique("meta"), object{"metadata": tc.metadata})), "X-Product-Name", ledger)
		change := patch(changed.ID, text(t, object{"metadata": tc.metadata}))
		job := object{"source": ledger, "unique": unique("meta")}
		maps.Copy(job, tc.metadata)
		submit := post("/v1/fetcher", text(t, object{
			"dataRequest": object{"mappedFields": object{kept.ConfigName: object{"order": []string{"select"}}}}, "metadata": job,
		}))
		for _, r := range []call{create, change, submit} {
			if tc.code == "" {
				if got := c.do(t, r); got.Status >= http.StatusBadRequest {
					t.Errorf("%s %.100s: %s", r.path, r.body, got.Body)
				}
				continue
			}
			if f := c.failsAnywhere(t, tc.code, r); len(f.Errors) != 1 || !strings.HasPrefix(f.Errors[0].Location, "body.metadata") {
				t.Errorf("%s: locations %v", tc.code, f.locations())
			}
		}
	}
}

// testIdempotency is Idempotency-Key, from outside.
func testIdempotency(t *testing.T, s *apiSuite) {
	t.Parallel()
	c := s.admin()
	body := text(t, s.sample(unique("key"), nil))
	keyed := func(path, body, key string) call {
		return post(path, body, "X-Product-Name", ledger, "Idempotency-Key", key)
	}
	first := c.succeeds(t, 201, keyed(managed, body, "k1"))
	again := c.succeeds(t, 201, keyed(managed, body, "k1"))
	if diff := cmp.Diff(string(first.Body), string(again.Body)); diff != "" || again.Header.Get("Idempotent-Replayed") != "true" ||
		again.Header.Get("Location") != first.Header.Get("Location") || again.Header.Get("ETag") != first.Header.Get("ETag") {
		t.Errorf("the replay differs: %s %v", diff, again.Header)
	}
	if first.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the first one says it is a replay")
	}
	c.fails(t, "FET-0419", keyed(managed, text(t, s.sample(unique("key"), nil)), "k1"), "header.Idempotency-Key")
	for _, key := range []string{"", "a b", "é", strings.Repeat("k", 256), "a\tb"} {
		c.fails(t, "FET-0403", keyed(managed, body, key), "header.Idempotency-Key")
	}
	c.fails(t, "FET-0403", post("/v1/fetcher", "{}", "Idempotency-Key", "a", "Idempotency-Key", "b"), "header.Idempotency-Key")
	c.succeeds(t, 201, keyed(managed, text(t, s.sample(unique("key"), nil)), strings.Repeat("~", 255)))

	other := caller{suite: s, base: s.Info.API, token: s.Tenant("globex").Tokens["admin"]}
	other.succeeds(t, 201, keyed(managed, text(t, s.sample(unique("key"), nil)), "k1")) // another tenant
	other = c
	other.token = s.Tenant("acme").Tokens["operator"]
	other.succeeds(t, 201, keyed(managed, text(t, s.sample(unique("key"), nil)), "k1")) // another subject
	kept := c.create(t, ledger, nil)
	job := request(t, ledger, kept.ConfigName, "order", "select")
	made := c.succeeds(t, 202, keyed("/v1/fetcher", job, "k1")) // another operation
	replay := c.succeeds(t, 202, keyed("/v1/fetcher", job, "k1"))
	if diff := cmp.Diff(string(made.Body), string(replay.Body)); diff != "" || replay.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the replay differs: %s", diff)
	}

	// While the first is running, the second is told to come back.
	port, accepted, hangUp := silent(t)
	slow := c.create(t, ledger, object{"port": port})
	waiting := keyed("/v1/fetcher", request(t, ledger, slow.ConfigName, "order", "select"), "k2")
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.fails(t, "FET-1040", waiting, "body.dataRequest.mappedFields."+slow.ConfigName)
	}()
	<-accepted
	c.fails(t, "FET-0004", waiting)
	if after := c.do(t, waiting).Header.Get("Retry-After"); after == "" {
		t.Error("no Retry-After")
	}
	hangUp()
	<-done
	c.fails(t, "FET-1040", waiting, "body.dataRequest.mappedFields."+slow.ConfigName) // a refusal is not kept
}

// testResults is the download, and what it refuses.
func testResults(t *testing.T, s *apiSuite) {
	t.Parallel()
	c := s.admin()
	kept := c.create(t, ledger, nil)
	id := c.completed(t, ledger, kept.ConfigName)
	path := "/v1/fetcher/" + id + "/result"
	whole := c.succeeds(t, 200, get(path))
	size := len(whole.Body)
	if whole.Header.Get("Content-Length") != fmt.Sprint(size) || whole.Header.Get("ETag") == "" || whole.Header.Get("Repr-Digest") == "" {
		t.Errorf("headers %v", whole.Header)
	}
	part := c.succeeds(t, 206, get(path, "Range", "bytes=1-4"))
	if string(part.Body) != string(whole.Body[1:5]) || part.Header.Get("Content-Range") != fmt.Sprintf("bytes 1-4/%d", size) {
		t.Errorf("part %q, %v", part.Body, part.Header)
	}
	if last := c.succeeds(t, 206, get(path, "Range", "bytes=-3")); string(last.Body) != string(whole.Body[size-3:]) {
		t.Errorf("the last bytes: %q", last.Body)
	}
	if several := c.succeeds(t, 200, get(path, "Range", "bytes=0-1,3-4")); len(several.Body) != size {
		t.Errorf("several ranges: %d bytes", len(several.Body))
	}
	beyond := get(path, "Range", fmt.Sprintf("bytes=%d-", size))
	c.fails(t, "FET-0418", beyond, "header.Range")
	if got := c.do(t, beyond).Header.Get("Content-Range"); got != fmt.Sprintf("bytes */%d", size) {
		t.Errorf("Content-Range %q", got)
	}
	c.succeeds(t, 304, get(path, "If-None-Match", whole.Header.Get("ETag")))
	if head := c.succeeds(t, 200, call{method: http.MethodHead, path: path}); head.Header.Get("Content-Length") != fmt.Sprint(size) {
		t.Errorf("HEAD: %v", head.Header)
	}
	s.superuser(t, "fetcher_acme", "UPDATE jobs SET result_expires_at = now() - interval '1 second' WHERE id = $1", id)
	c.fails(t, "FET-1024", get(path))

	// A failed job has no result, its error is told twice, and the member error of the caller's own stays.
	for own, kept := range map[string]string{"": "", "mine": "mine"} {
		failing := c.create(t, ledger, nil)
		body := request(t, ledger, failing.ConfigName, "order", "select")
		if own != "" {
			body = strings.Replace(body, `"unique"`, `"error":"mine","unique"`, 1)
		}
		running, release := c.running(t, body)
		c.succeeds(t, http.StatusAccepted, post("/v1/fetcher/"+running+"/cancel", ""))
		c.client().Await(t, running, blackbox.StartTimeout, func(j blackbox.Job) bool { return j.Status == "failed" })
		release()
		var job struct {
			Metadata struct{ Error string }
			Error    struct{ Code, Message string }
		}
		c.succeeds(t, 200, get("/v1/fetcher/"+running)).Decode(t, &job)
		want := job.Error.Message
		if kept != "" {
			want = kept
		}
		if job.Error.Code != "FET-1025" || job.Error.Message == "" || job.Metadata.Error != want {
			t.Errorf("job %+v", job)
		}
		c.fails(t, "FET-1022", post("/v1/fetcher/"+running+"/cancel", ""))
		c.fails(t, "FET-1023", get("/v1/fetcher/"+running+"/result"))
	}
}

// running submits the request for a locked table instead of its own.
func (c caller) running(t *testing.T, body string) (id string, release func()) {
	t.Helper()
	table, release := c.suite.locked(t)
	id = c.submit(t, strings.Replace(body, `{"order":["select"]}`, `{"`+table+`":["id"]}`, 1))
	c.client().Await(t, id, blackbox.StartTimeout, func(j blackbox.Job) bool { return j.Status == "processing" })
	return id, release
}

// testOrder: where two rules are broken, the first of them answers.
func testOrder(t *testing.T, s *apiSuite) {
	c := s.admin()
	nobody, viewer, lost, stranger := c, c, c, c
	nobody.token, viewer.token = "", s.Tenant("acme").Tokens["viewer"]
	lost.token = tokenWith(t, s.Dev, map[string]any{"tenantId": nil, "role": "viewer"})
	stranger.token = tokenWith(t, s.Dev, map[string]any{"tenantId": "nobody", "role": "viewer", "owner": "acme"})
	large := strings.Repeat("x", 1<<20+1)
	plain := []string{"Content-Type", "text/plain"}
	const bad = "not json"
	for name, tc := range map[string]struct {
		c    caller
		r    call
		code string
	}{
		"route before token":             {nobody, get("/v1/nowhere"), "FET-0005"},
		"token before method":            {nobody, call{method: "PUT", path: managed}, "FET-0006"},
		"token before media type":        {nobody, post(managed, "x", plain...), "FET-0006"},
		"token before size":              {nobody, post(managed, large), "FET-0006"},
		"tenant claim before media type": {lost, post(managed, "x", plain...), "FET-1080"},
		"tenant claim before rights":     {lost, post(managed, bad), "FET-1080"},
		"method before rights":           {viewer, call{method: "PUT", path: managed}, "FET-0417"},
		"media type before rights":       {viewer, post(managed, "x", plain...), "FET-0415"},
		"size before rights":             {viewer, post(managed, large), "FET-0416"},
		"rights before tenant":           {stranger, post(managed, bad), "FET-0007"},
		"tenant before query":            {stranger, get(managed + "?page=x"), "FET-1081"},
		"rights before header":           {viewer, post(managed, bad), "FET-0007"},
		"rights before id":               {viewer, call{method: "DELETE", path: managed + "/x"}, "FET-0007"},
		"header before body":             {c, post(managed, bad), "FET-0403"},
		"header before query":            {c, get(managed+"?page=x", "X-Product-Name", "!"), "FET-0403"},
		"id before header, assign":       {c, post(managed+"/x/assign", ""), "FET-0404"},
		"header before 404, assign":      {c, post(managed+"/"+nobodysID+"/assign", ""), "FET-0403"},
		"id before body, patch":          {c, call{method: "PATCH", path: managed + "/x", body: bad}, "FET-0404"},
		"body before 404, patch":         {c, call{method: "PATCH", path: managed + "/" + nobodysID, body: bad}, "FET-0001"},
		"404 before If-Match":            {c, patch(nobodysID, `{"port":1}`, "If-Match", `"9"`), "FET-1001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.c.failsAnywhere(t, tc.code, tc.r)
		})
	}
	product := []string{"X-Product-Name", ledger}
	taken := c.create(t, ledger, nil)
	create := func(changes object) call {
		return post(managed, text(t, s.sample(taken.ConfigName, changes)), product...)
	}
	c.fails(t, "FET-0414", create(object{"host": "10.0.0.1", "userName": nil, "port": 0}), "body.host")
	c.fails(t, "FET-0402", create(object{"userName": nil, "password": " \t", "port": 0, "ssl": object{"mode": "x"}}), "body.password", "body.userName")
	c.fails(t, "FET-0001", create(object{"port": 0, "ssl": object{"mode": "x"}}), "body.port", "body.ssl.mode")
	c.fails(t, "FET-0413", create(object{"ssl": object{"mode": "x"}}), "body.ssl.mode")
	c.fails(t, "FET-1002", create(nil), "body.configName")
}
