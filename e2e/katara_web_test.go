package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

// testKataraRefusals raises the codes about URLs, destinations, origins' answers and their content, and looks whether
// those that are kept for their key are, and the others aren't.
func testKataraRefusals(t *testing.T, s *kataraSuite) {
	admin, org := s.newTenant(t, "katara_refusals") // a tenant's fetches at once are few
	environment := s.environmentOf(t, admin, org)
	source := s.sourceOf(t, admin, environment, s.web.Base())
	at := func(change func(path string)) string {
		path, url := s.page()
		change(path)
		return url
	}
	page := func(media, body string) string {
		return at(func(path string) { s.web.Page(path, media, body) })
	}
	status := func(status int) string {
		return at(func(path string) {
			s.web.Status(path, status, http.Header{"Location": {"https://secret.example.com/canary-location"}})
		})
	}
	of := func(origin string) string { return s.sourceOf(t, admin, environment, origin) }
	host := fmt.Sprintf("https://metadata.%s:%d", webtest.Host, s.web.Port())
	unknown := fmt.Sprintf("https://unknown.%s:%d", webtest.Host, s.web.Port())
	raw := strings.TrimSuffix(s.raw.URL("/"), "/")
	for name, tc := range map[string]struct {
		source, url string
		code        string
		upstream    int
		kept        bool
	}{
		"outside":      {source, s.web.URL("/docs-internal"), "url_not_approved", 0, false},
		"destination":  {of(host), host + "/docs/page", "destination_refused", 0, true},
		"no such host": {of(unknown), unknown + "/docs/page", "upstream_unavailable", 0, false},
		"redirect":     {source, status(302), "redirect_refused", 302, true},
		"not found":    {source, status(404), "upstream_refused", 404, true},
		"busy":         {source, status(503), "upstream_unavailable", 503, false},
		"no content":   {source, status(204), "upstream_protocol_error", 204, true},
		"short":        {of(raw), raw + "/docs/short", "upstream_incomplete", 200, false},
		"stalled":      {of(s.stalled), s.stalled + "/docs/page", "upstream_timeout", 0, false},
		"large":        {source, page("text/plain", strings.Repeat("x", 8<<20+1)), "content_too_large", 200, true},
		"type":         {source, page("video/mp4", "x"), "unsupported_media_type", 0, true},
		"signature":    {source, page("application/pdf", "x"), "content_type_mismatch", 0, true},
		"bytes":        {source, page("text/plain", "\xff"), "content_invalid", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fetching(t, tc.source, tc.url)
			first := admin.fails(t, tc.code, "", r)
			if got := valueOf(first.UpstreamStatus); got != tc.upstream {
				t.Errorf("upstream_status %d, want %d", got, tc.upstream)
			}
			if (first.SnapshotRef != "") != (tc.code == "url_not_approved") {
				t.Errorf("snapshot_ref %q", first.SnapshotRef)
			}
			answer := admin.do(t, r)
			again, _ := opened(answer)
			if replayed := answer.Header.Get("Idempotent-Replayed") == "true"; replayed != tc.kept {
				t.Errorf("replayed: %v, want %v", replayed, tc.kept)
			}
			if again.RequestID == first.RequestID {
				t.Error("the request id is not fresh")
			}
			again.RequestID = first.RequestID
			if diff := cmp.Diff(first, again); diff != "" {
				t.Error("the second answer:", diff)
			}
		})
	}
}

func valueOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// testKataraApprovals: narrowing, widening, disconnecting, and what a fetch under way makes of it.
func testKataraApprovals(t *testing.T, s *kataraSuite) {
	admin := s.agent(t, "admin")
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	reconnect := func(prefix string, revision int) call {
		return post(source+"/reconnect", text(t, object{"origin": s.web.Base(), "path_prefix": prefix, "revision": revision}))
	}
	admin.fails(t, "revision_conflict", "revision", reconnect("/docs/a", 2))
	admin.fails(t, "approval_cannot_widen", "", reconnect("/", 1))
	url, arrived, release := s.hanging(t)
	r := fetching(t, source, url)
	answers := admin.sending(t, r)
	await(t, arrived)
	admin.fails(t, "sync_in_progress", "", fetching(t, source, url))
	if v := admin.fails(t, "idempotency_in_progress", "", r); v.OperationID == "" {
		t.Error("no operation_id")
	} else {
		var running struct{ Status string }
		admin.succeeds(t, http.StatusOK, get(source+"/fetches/"+v.OperationID)).Decode(t, &running)
		if running.Status != "running" {
			t.Errorf("the fetch is %s", running.Status)
		}
	}
	admin.succeeds(t, http.StatusOK, reconnect("/docs/narrow", 1))
	release()
	got := received(t, answers)
	admin.check(t, r, got)
	if v, _ := opened(got); v.Code != "approval_changed" {
		t.Errorf("the fetch ended with %s", got.Body)
	}
	var list struct {
		Items []struct {
			Status string
			Error  *struct{ Code string }
		}
	}
	admin.succeeds(t, http.StatusOK, get(source+"/fetches")).Decode(t, &list)
	if len(list.Items) != 1 || list.Items[0].Error == nil || list.Items[0].Error.Code != "approval_changed" {
		t.Errorf("fetches: %+v", list)
	}
	admin.succeeds(t, http.StatusOK, post(source+"/disconnect", `{"revision":2}`))
	admin.fails(t, "source_disconnected", "", fetching(t, source, s.web.URL("/docs/narrow/x")))
	admin.fails(t, "approval_cannot_widen", "", reconnect("/docs", 3))
	admin.succeeds(t, http.StatusOK, reconnect("/docs/narrow", 3))
}

// sending does the request in the background.
func (a agent) sending(t *testing.T, r call) <-chan blackbox.Answer {
	t.Helper()
	answers := make(chan blackbox.Answer, 1)
	go func() {
		defer close(answers)
		if got, err := a.send(t, r); err == nil {
			answers <- got
		}
	}()
	return answers
}

// received is the answer to a request in the background.
func received(t *testing.T, answers <-chan blackbox.Answer) blackbox.Answer {
	t.Helper()
	select {
	case got, ok := <-answers:
		if !ok {
			t.Fatal("the request failed")
		}
		return got
	case <-time.After(2 * time.Minute):
		t.Fatal("no answer")
	}
	panic("unreachable")
}

func await(t *testing.T, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(time.Minute):
		t.Fatal("nobody came")
	}
}

// testKataraContent is the download: its headers, parts and conditions.
func testKataraContent(t *testing.T, s *kataraSuite) {
	admin := s.agent(t, "admin")
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	for _, body := range []string{"0123456789", ""} {
		path, url := s.page()
		s.web.Page(path, "text/csv; charset=utf-8", body)
		var page synced
		admin.succeeds(t, http.StatusOK, fetching(t, source, url)).Decode(t, &page)
		sum := sha256.Sum256([]byte(body))
		integrity := "sha256:" + hex.EncodeToString(sum[:])
		if page.Content.Integrity != integrity || page.Content.SizeBytes != len(body) || page.MediaType != "text/csv; charset=utf-8" {
			t.Fatalf("%+v", page)
		}
		download := get(environment + "/objects/" + page.Content.ID + "/versions/1/content")
		tag := `"` + integrity + `"`
		head := download
		head.method = http.MethodHead
		for _, tc := range []struct {
			r      call
			status int
			body   string
			part   string
		}{
			{download, 200, body, ""},
			{head, 200, "", ""},
			{download.header("Range", "bytes=2-4"), 206, "234", "bytes 2-4/10"},
			{download.header("Range", "bytes=-3"), 206, "789", "bytes 7-9/10"},
			{download.header("Range", "bytes=0-"), 206, body, "bytes 0-9/10"},
			{download.header("Range", "bytes=2-4", "If-Range", tag), 206, "234", "bytes 2-4/10"},
			{download.header("Range", "bytes=2-4", "If-Range", `"x"`), 200, body, ""},
			{download.header("Range", "lines=2-4"), 200, body, ""},
			{download.header("If-None-Match", tag), 304, "", ""},
			{download.header("If-None-Match", `"x", W/`+tag), 304, "", ""},
			{download.header("If-None-Match", `"x"`), 200, body, ""},
		} {
			if body == "" && tc.status == http.StatusPartialContent {
				continue
			}
			got := admin.succeeds(t, tc.status, tc.r)
			want := []string{tc.body, tag, tc.part}
			if diff := cmp.Diff(want, []string{string(got.Body), got.Header.Get("ETag"), got.Header.Get("Content-Range")}); diff != "" {
				t.Errorf("%v: body, ETag, Content-Range (-want +got): %s", tc.r.headers, diff)
			}
			if tc.status == http.StatusNotModified {
				continue
			}
			policy := []string{got.Header.Get("Content-Type"), got.Header.Get("Content-Disposition"), got.Header.Get("Content-Security-Policy"), got.Header.Get("Accept-Ranges")}
			if diff := cmp.Diff([]string{"text/csv", "attachment", "sandbox; default-src 'none'", "bytes"}, policy); diff != "" {
				t.Errorf("%v: headers (-want +got): %s", tc.r.headers, diff)
			}
		}
		admin.failsWith(t, http.StatusRequestedRangeNotSatisfiable, "invalid_request", "Range", download.header("Range", "bytes=10-"))
		admin.fails(t, "not_found", "", get(environment+"/objects/"+page.Content.ID+"/versions/2/content"))
		admin.fails(t, "not_found", "", get(environment+"/objects/"+uuid.NewString()+"/versions/1/content"))
	}
}
