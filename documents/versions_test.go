package documents_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

const page = "/docs/page"

// TestVersions syncs a page whose content goes from A over A to B and back to A.
func TestVersions(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	first := p.request(page)
	seen := map[uuid.UUID]bool{}
	steps := []struct {
		mediaType, body string
		changed         bool
		version         int64
		stored          string // media type of the version
	}{
		{"text/plain; charset=utf-8", "A", true, 1, "text/plain"},
		{"text/plain", "A", false, 1, "text/plain"},
		{"text/markdown", "A", false, 1, "text/plain"}, // another declared type is no other content
		{"text/markdown", "B", true, 2, "text/markdown"},
		{"text/plain", "A", true, 3, "text/plain"},
	}
	for i, step := range steps {
		p.origin.Page(page, step.mediaType, step.body)
		in := p.request(page)
		if i == 0 {
			in = first
		}
		got := p.sync(in)
		if seen[got.FetchID] {
			t.Errorf("step %d: the fetch id was used before", i)
		}
		seen[got.FetchID] = true
		want := documents.SyncResult{
			FetchID: got.FetchID, URL: p.origin.URL(page), Changed: step.changed, MediaType: step.mediaType, SizeBytes: 1,
			Version: store.DocumentVersion{
				EnvironmentID: p.env, ObjectID: first.ObjectID, Version: step.version, MediaType: step.stored, SizeBytes: 1, CreatedBy: "o/ann",
			},
		}
		known := cmpopts.IgnoreFields(store.DocumentVersion{}, "SHA256", "CreatedAt", "FetchID")
		if diff := cmp.Diff(want, got, known); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		if step.changed && got.Version.FetchID != got.FetchID {
			t.Errorf("step %d: made by fetch %s, not %s", i, got.Version.FetchID, got.FetchID)
		}
		if body := p.download(p.env, first.ObjectID, step.version); body != step.body {
			t.Errorf("step %d: %q", i, body)
		}
		row := p.fetchRow(got.FetchID)
		yes, no := true, false
		changed := &no
		if step.changed {
			changed = &yes
		}
		wantRow := &store.Fetch{
			ID: got.FetchID, EnvironmentID: p.env, SourceID: p.source.ID, URL: got.URL, ObjectID: first.ObjectID, Attempt: 1,
			Status: store.FetchSucceeded, Changed: changed, Version: &step.version, MediaType: &step.mediaType,
			SizeBytes: &got.SizeBytes, ApprovalID: p.source.Approval.ID, Actor: "o/ann",
		}
		if diff := cmp.Diff(wantRow, row, cmpopts.IgnoreFields(store.Fetch{}, "StartedAt", "FinishedAt")); diff != "" {
			t.Errorf("step %d, row (-want +got):\n%s", i, diff)
		}
	}
	versions, err := with(p, func(l *tenant.Lease) (documents.Page[store.DocumentVersion], error) {
		return p.Versions(t.Context(), l, p.env, first.ObjectID, documents.List{Limit: 2})
	})
	if err != nil || len(versions.Items) != 2 || versions.NextCursor == "" {
		t.Fatalf("%+v, %v", versions, err)
	}
	rest, err := with(p, func(l *tenant.Lease) (documents.Page[store.DocumentVersion], error) {
		return p.Versions(t.Context(), l, p.env, first.ObjectID, documents.List{Limit: 2, Cursor: versions.NextCursor})
	})
	if err != nil || len(rest.Items) != 1 || rest.Items[0].Version != 3 || rest.NextCursor != "" {
		t.Errorf("%+v, %v", rest, err)
	}
	if n := p.count("SELECT count(*) FROM content_blobs"); n != 2 {
		t.Errorf("%d blobs for two contents", n)
	}
	if n := p.count("SELECT count(*) FROM audit_events WHERE action = 'document.synced' AND actor = 'o/ann'"); n != len(steps) {
		t.Errorf("%d audit events", n)
	}
}

// TestEntityTags holds that a strong tag saves the transfer, but not for longer than a day.
func TestEntityTags(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	var tag atomic.Value
	tag.Store(`"1"`)
	asked := make(chan string, 10)
	p.origin.Handle(page, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("If-None-Match")
		tag, _ := tag.Load().(string)
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/csv")
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "a,b")
	})
	step := func(wantAsked string) documents.SyncResult {
		t.Helper()
		got := p.sync(p.request(page))
		if a := receive(t, asked); a != wantAsked {
			t.Errorf("If-None-Match %q, want %q", a, wantAsked)
		}
		if got.MediaType != "text/csv" || got.SizeBytes != 3 || got.Version.Version != 1 || got.Version.SizeBytes != 3 {
			t.Errorf("%+v", got)
		}
		return got
	}
	if !step("").Changed {
		t.Error("the first is no change")
	}
	for range 2 {
		if step(`"1"`).Changed {
			t.Error("not modified is a change")
		}
	}
	p.exec("UPDATE objects SET full_fetched_at = full_fetched_at - interval '24 hours'")
	step("") // the day is over
	step(`"1"`)
	tag.Store(`W/"2"`)
	step(`"1"`) // it comes in full, with a weak tag
	step("")
}

// TestParallelSyncsOfAChangingPage holds that versions are in the order in which the origin served them.
func TestParallelSyncsOfAChangingPage(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	const syncs = 50
	var served atomic.Int64
	p.origin.Handle(page, func(w http.ResponseWriter, _ *http.Request) {
		body := fmt.Sprint(served.Add(1))
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	})
	object := uuid.New()
	var wg sync.WaitGroup
	for range syncs {
		wg.Go(func() {
			in := p.request(page)
			in.ObjectID = object
			for {
				r, err := p.try(acme, in)
				if err == nil {
					if got := made[answer](t, r, nil).Result; !got.Changed {
						t.Errorf("version %d is not new", got.Version.Version)
					}
					return
				}
				if documents.AsError(err).Code != documents.SyncInProgress {
					t.Error(err)
					return
				}
				time.Sleep(100 * time.Millisecond) // as the answer's Retry-After asks for, only sooner
			}
		})
	}
	wg.Wait()
	if served.Load() != syncs {
		t.Fatalf("the origin served %d pages", served.Load())
	}
	for version := int64(1); version <= syncs; version++ {
		if got := p.download(p.env, object, version); got != fmt.Sprint(version) {
			t.Errorf("version %d is what the origin served as %s", version, got)
		}
	}
}

func TestTwoFirstSyncs(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	one, two := p.request(page), p.request(page)
	first := p.start(one)
	g.reached()
	if e := p.refuse(two, documents.SyncInProgress); e.RetryAfter <= 0 {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	g.open("A")
	if o := receive(t, first); o.err != nil {
		t.Fatal(o.err)
	}
	p.origin.Page(page, "text/plain", "A")
	got := p.sync(two)
	if got.Changed || got.Version.ObjectID != one.ObjectID || got.Version.Version != 1 {
		t.Errorf("%+v", got)
	}
	if row := p.fetchRow(got.FetchID); row.ObjectID != one.ObjectID {
		t.Errorf("the fetch names document %s", row.ObjectID)
	}
	_, err := with(p, func(l *tenant.Lease) (*store.Object, error) { return p.Object(t.Context(), l, p.env, two.ObjectID) })
	refused(t, err, documents.NotFound)
}

func TestObjectIDs(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	p.origin.Page("/docs/other", "text/plain", "B")
	one := p.request(page)
	p.sync(one)

	reuse := p.request("/docs/other")
	reuse.ObjectID = one.ObjectID
	for range 2 { // the refusal is kept
		r, err := p.try(acme, reuse)
		if err == nil {
			if !r.Replayed || r.Status != http.StatusConflict || made[answer](t, r, nil).Error != "object_id_in_use" {
				t.Errorf("%+v", r)
			}
			continue
		}
		refused(t, err, documents.ObjectIDInUse)
	}
	if n := p.requests("/docs/other"); n != 0 {
		t.Errorf("%d requests for a page that can't be stored", n)
	}

	elsewhere := p.request(page)
	elsewhere.ObjectID, elsewhere.EnvironmentID = one.ObjectID, p.newEnvironment(acme)
	elsewhere.SourceID = p.newSource(acme, elsewhere.EnvironmentID, "/docs").ID
	if got := p.sync(elsewhere); !got.Changed || got.Version.Version != 1 || got.Version.ObjectID != one.ObjectID {
		t.Errorf("in another environment: %+v", got)
	}

	p.addTenant("globex", testkit.Postgres(t).NewDatabase(t))
	theirs := p.request(page)
	theirs.ObjectID, theirs.EnvironmentID = one.ObjectID, p.newEnvironment("globex")
	theirs.SourceID = p.newSource("globex", theirs.EnvironmentID, "/docs").ID
	theirs.Key = one.Key
	r, err := p.try("globex", theirs)
	if got := made[answer](t, r, err).Result; r.Replayed || !got.Changed || got.Version.Version != 1 {
		t.Errorf("of another tenant: %+v", got)
	}
	theirs.Key = uuid.New()
	_, err = p.try(acme, theirs)
	refused(t, err, documents.NotFound)
}

// TestObjectIDTakenMeanwhile lets two pages be fetched for one id at once.
func TestObjectIDTakenMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	slow, quick := p.request(page), p.request("/docs/other")
	quick.ObjectID = slow.ObjectID
	done := p.start(slow)
	g.reached()
	p.origin.Page("/docs/other", "text/plain", "B")
	p.sync(quick)
	g.open("A")
	refused(t, receive(t, done).err, documents.ObjectIDInUse)
	r, err := p.try(acme, slow)
	if got := made[answer](t, r, err); !r.Replayed || got.Error != "object_id_in_use" {
		t.Errorf("%+v", got)
	}
	if n := p.count("SELECT count(*) FROM versions"); n != 1 {
		t.Errorf("%d versions", n)
	}
	if n := p.count("SELECT count(*) FROM fetches WHERE status = 'refused' AND error_code = 'object_id_in_use'"); n != 1 {
		t.Errorf("%d refused fetches", n)
	}
}

func TestBindingsArePerSource(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	other := p.newSource(acme, p.env, "/docs/page")
	one, two := p.request(page), p.request(page)
	two.SourceID = other.ID
	if a, b := p.sync(one), p.sync(two); !a.Changed || !b.Changed || b.Version.ObjectID != two.ObjectID {
		t.Errorf("%+v, %+v", a, b)
	}
	for source, object := range map[uuid.UUID]uuid.UUID{p.source.ID: one.ObjectID, other.ID: two.ObjectID} {
		got, err := with(p, func(l *tenant.Lease) (documents.Page[store.Object], error) {
			return p.Documents(t.Context(), l, p.env, source, p.origin.URL(page), documents.List{})
		})
		if err != nil || len(got.Items) != 1 || got.Items[0].ID != object {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestDeletedDocument(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	in := p.request(page)
	p.sync(in)
	for range 2 {
		_, err := with(p, func(l *tenant.Lease) (documents.Reply, error) {
			return p.DeleteObject(t.Context(), l, p.env, in.ObjectID, ann, once[struct{}]())
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := p.count("SELECT count(*) FROM audit_events WHERE action = 'object.deleted'"); n != 1 {
		t.Errorf("%d audit events", n)
	}
	o, err := with(p, func(l *tenant.Lease) (*store.Object, error) { return p.Object(t.Context(), l, p.env, in.ObjectID) })
	if err != nil || o.Bound {
		t.Errorf("%+v, %v", o, err)
	}
	if got := p.download(p.env, in.ObjectID, 1); got != "A" {
		t.Errorf("%q", got)
	}
	again := p.request(page)
	again.ObjectID = in.ObjectID
	p.refuse(again, documents.ObjectIDInUse)
	if got := p.sync(p.request(page)); !got.Changed || got.Version.Version != 1 {
		t.Errorf("%+v", got)
	}
}

// TestDeletedWhileFetched deletes a document whose page is on its way.
func TestDeletedWhileFetched(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	in := p.request(page)
	p.sync(in)
	g := p.hold(page)
	done := p.start(p.request(page))
	g.reached()
	if _, err := with(p, func(l *tenant.Lease) (documents.Reply, error) {
		return p.DeleteObject(t.Context(), l, p.env, in.ObjectID, ann, once[struct{}]())
	}); err != nil {
		t.Fatal(err)
	}
	g.open("B")
	refused(t, receive(t, done).err, documents.SyncInProgress)
	if n := p.count("SELECT count(*) FROM versions"); n != 1 {
		t.Errorf("%d versions", n)
	}
}

// TestEveryTypeComesBack syncs a page of each type that is stored, and an empty one.
func TestEveryTypeComesBack(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	picture := image.NewGray(image.Rect(0, 0, 2, 2))
	var pngs, jpegs bytes.Buffer
	if err := png.Encode(&pngs, picture); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&jpegs, picture, nil); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("0123456789abcde\n", 20_000) // several blocks of the envelope
	const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	for name, tc := range map[string]struct{ declared, body, stored, content string }{
		"text":     {"text/plain", large, "text/plain", large},
		"empty":    {"text/plain", "", "text/plain", ""},
		"markdown": {"text/markdown", "# A", "text/markdown", "# A"},
		"html":     {"text/html", "<h1>A</h1>", "text/markdown", "# A"},
		"csv":      {"text/csv", "a,b\r\n", "text/csv", "a,b\r\n"},
		"json":     {"application/problem+json", `{"a": 1.0}`, "application/json", `{"a": 1.0}`},
		"pdf":      {"application/pdf", "%PDF-1.7\n%%EOF\n", "application/pdf", "%PDF-1.7\n%%EOF\n"},
		"png":      {"image/png", pngs.String(), "image/png", pngs.String()},
		"jpeg":     {"image/jpeg", jpegs.String(), "image/jpeg", jpegs.String()},
		"zip":      {"application/zip", zipOf(t, "a.txt"), "application/zip", zipOf(t, "a.txt")},
		"docx":     {docx, zipOf(t, "[Content_Types].xml", "word/document.xml"), docx, zipOf(t, "[Content_Types].xml", "word/document.xml")},
	} {
		path := "/docs/" + name
		p.origin.Page(path, tc.declared, tc.body)
		in := p.request(path)
		got := p.sync(in)
		if got.Version.MediaType != tc.stored || got.MediaType != tc.declared || got.SizeBytes != int64(len(tc.body)) {
			t.Errorf("%s: %+v", name, got)
		}
		body := p.download(p.env, in.ObjectID, 1)
		if strings.TrimSpace(body) != strings.TrimSpace(tc.content) {
			t.Errorf("%s: %d bytes, want %d", name, len(body), len(tc.content))
		}
		if again := p.sync(p.request(path)); again.Changed {
			t.Errorf("%s: changed without a change", name)
		}
	}
}

func zipOf(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(f, "<x/>")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPartsOfContent(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	body := strings.Repeat("0123456789", 20_000)
	p.origin.Page(page, "text/plain", body)
	in := p.request(page)
	p.sync(in)
	content, err := with(p, func(l *tenant.Lease) (*documents.Content, error) {
		return p.Content(t.Context(), l, p.env, in.ObjectID, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]int64{{0, 1}, {99_999, 70_001}, {199_990, 10}, {5, 0}} {
		r, err := content.Open(t.Context(), part[0], part[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != body[part[0]:part[0]+part[1]] {
			t.Errorf("%v: %d bytes, %v", part, len(got), err)
		}
	}
	for _, part := range [][2]int64{{-1, 1}, {0, -1}, {0, 200_001}, {200_001, 0}} {
		if _, err := content.Open(t.Context(), part[0], part[1]); err == nil {
			t.Errorf("%v can be opened", part)
		}
	}
}
