package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// documents is a database with one environment and one source in it.
type documents struct {
	store.Documents

	t      *testing.T
	db     *gorm.DB
	env    uuid.UUID
	source store.Source
}

func newDocuments(t *testing.T) *documents {
	t.Helper()
	db := newDB(t)
	d := &documents{Documents: store.NewDocuments(db), t: t, db: db, env: newID(t)}
	d.must(d.CreateEnvironment(t.Context(), &store.Environment{ID: d.env, Name: "e"}))
	d.source = d.newSource("s")
	return d
}

func (d *documents) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// atomically runs fn in a transaction that must take effect.
func (d *documents) atomically(fn func(store.Documents) error) {
	d.t.Helper()
	d.must(d.Atomically(d.t.Context(), fn))
}

func (d *documents) newSource(name string) store.Source {
	d.t.Helper()
	s := store.Source{ID: newID(d.t), EnvironmentID: d.env, Name: name, Approval: store.Approval{
		ID: newID(d.t), Origin: "https://docs.example.com", PathPrefix: "/docs", ApprovedBy: "o/ann",
	}}
	d.atomically(func(rows store.Documents) error { return rows.CreateSource(d.t.Context(), &s) })
	return s
}

func (d *documents) newFetch(url string) *store.Fetch {
	return &store.Fetch{
		ID: newID(d.t), EnvironmentID: d.env, SourceID: d.source.ID, URL: url, ObjectID: newID(d.t), Attempt: 1,
		ApprovalID: d.source.Approval.ID, Actor: "o/ann",
	}
}

var generous = store.Admission{Lease: time.Minute, Slots: 100, Lapsed: "internal"}

func (d *documents) admit(f *store.Fetch, a store.Admission) (entry store.Entry, wait time.Duration) {
	d.t.Helper()
	d.atomically(func(rows store.Documents) (err error) {
		entry, wait, err = rows.Admit(d.t.Context(), f, a)
		return err
	})
	return entry, wait
}

// end ends a running fetch well.
func (d *documents) end(f *store.Fetch, version int64) {
	d.t.Helper()
	changed := true
	f.Status, f.Changed, f.Version = store.FetchSucceeded, &changed, &version
	d.must(d.EndFetch(d.t.Context(), f))
}

func (d *documents) exec(sql string, args ...any) {
	d.t.Helper()
	d.must(d.db.Exec(sql, args...).Error)
}

func TestSourceLife(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	get := func() *store.Source {
		t.Helper()
		s, err := d.Source(ctx, d.env, d.source.ID)
		d.must(err)
		return s
	}
	if diff := cmp.Diff(&d.source, get()); diff != "" {
		t.Fatalf("created (-want +got):\n%s", diff)
	}
	narrower := store.Approval{ID: newID(t), Origin: "https://docs.example.com", PathPrefix: "/docs/a", ApprovedBy: "o/bob"}
	d.atomically(func(rows store.Documents) error {
		if _, err := rows.LockSource(ctx, d.env, d.source.ID); err != nil {
			return err
		}
		if err := rows.Disconnect(ctx, d.source.ID); err != nil {
			return err
		}
		return rows.Approve(ctx, d.source.ID, narrower)
	})
	want := d.source
	want.Revision, want.Approval = 3, narrower
	want.Approval.SourceID = want.ID
	later := cmpopts.IgnoreFields(store.Source{}, "UpdatedAt", "Approval.ApprovedAt")
	if diff := cmp.Diff(&want, get(), later); diff != "" {
		t.Fatalf("changed (-want +got):\n%s", diff)
	}
	if got := get(); !got.UpdatedAt.After(d.source.UpdatedAt) || !got.Approval.ApprovedAt.Equal(got.UpdatedAt) {
		t.Errorf("updated at %v, approved at %v", got.UpdatedAt, got.Approval.ApprovedAt)
	}
	for name, id := range map[string][2]uuid.UUID{
		"another environment": {newID(t), d.source.ID}, "another source": {d.env, newID(t)},
	} {
		if _, err := d.Source(ctx, id[0], id[1]); problem.CodeOf(err) != problem.NotFoundInTenant {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := d.LockSource(ctx, id[0], id[1]); problem.CodeOf(err) != problem.NotFoundInTenant {
			t.Errorf("%s, locked: %v", name, err)
		}
	}
}

func TestHistoryIsImmutable(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	d.addObject(d.newFetch("https://docs.example.com/docs"), "a")
	d.must(d.Audit(t.Context(), &store.AuditEvent{ID: newID(t), EnvironmentID: d.env, Actor: "o/ann", ActorKind: "user", Action: "x"}))
	for table, column := range map[string]string{"approvals": "origin", "versions": "media_type", "audit_events": "actor"} {
		for _, sql := range []string{"UPDATE " + table + " SET " + column + " = 'x'", "DELETE FROM " + table} {
			if err := d.db.Exec(sql).Error; err == nil || !strings.Contains(err.Error(), "23001") {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
}

// addObject runs a fetch that makes a document with the content.
func (d *documents) addObject(f *store.Fetch, content string) store.Object {
	d.t.Helper()
	ctx := d.t.Context()
	if entry, _ := d.admit(f, generous); entry != store.EntryGranted {
		d.t.Fatal(entry)
	}
	now, err := d.Now(ctx)
	d.must(err)
	o := store.Object{
		EnvironmentID: d.env, ID: f.ObjectID, SourceID: f.SourceID, URL: f.URL, Bound: true, Version: 1, CreatedAt: now,
		LastFetchID: f.ID, LastFetchedAt: now, ETag: `"` + content + `"`, FullFetchedAt: now, DeclaredType: "text/plain", FetchedBytes: 1,
	}
	d.atomically(func(rows store.Documents) error {
		free, err := rows.CreateObject(ctx, &o)
		if err != nil || !free {
			return fmt.Errorf("free %t, %w", free, err)
		}
		blob := store.Blob{SHA256: []byte(content), ObjectKey: "k", SizeBytes: 1, HMAC: "h", KeyVersion: 1}
		if err := rows.AddBlob(ctx, &blob); err != nil {
			return err
		}
		return rows.AddVersion(ctx, &store.DocumentVersion{
			EnvironmentID: d.env, ObjectID: o.ID, Version: 1, SHA256: blob.SHA256, MediaType: "text/plain", SizeBytes: 1,
			CreatedAt: now, CreatedBy: "o/ann", FetchID: f.ID,
		})
	})
	d.end(f, 1)
	return o
}

func TestObjectAndVersions(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	o := d.addObject(d.newFetch("https://docs.example.com/docs"), "a")
	if diff := cmp.Diff([]any{&o, nil}, pair(d.Page(ctx, o.SourceID, o.URL))); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{&o, nil}, pair(d.Object(ctx, d.env, o.ID))); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	twin := o
	twin.URL += "/other"
	if free, err := d.CreateObject(ctx, &twin); free || err != nil {
		t.Errorf("an id twice: %t, %v", free, err)
	}
	if _, err := d.Object(ctx, newID(t), o.ID); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("in another environment: %v", err)
	}
	etag := func(want string) {
		t.Helper()
		if got, err := d.FreshETag(ctx, d.env, o.ID, time.Hour); got != want || err != nil {
			t.Errorf("etag %q, want %q, %v", got, want, err)
		}
	}
	etag(`"a"`)
	d.exec("UPDATE objects SET full_fetched_at = now() - interval '1 hour'")
	etag("")

	o.Version, o.ETag, o.DeclaredType, o.FetchedBytes = 2, "", "text/csv", 7
	d.must(d.SaveObject(ctx, &o))
	got, err := d.LockObject(ctx, d.env, o.ID)
	d.must(err)
	if diff := cmp.Diff(&o, got); diff != "" {
		t.Fatalf("saved (-want +got):\n%s", diff)
	}
	d.must(d.Unbind(ctx, got))
	page, err := d.Page(ctx, o.SourceID, o.URL)
	if page != nil || err != nil {
		t.Errorf("an unbound page: %v, %v", page, err)
	}
	pages, err := d.Pages(ctx, o.SourceID, "", store.Position{}, 10)
	if len(pages) != 0 || err != nil {
		t.Errorf("unbound pages: %v, %v", pages, err)
	}
	if got, err = d.Object(ctx, d.env, o.ID); err != nil || got.Bound {
		t.Errorf("an unbound object: %+v, %v", got, err)
	}
	again := d.newFetch(o.URL)
	d.addObject(again, "a")
	versions, err := d.DocumentVersions(ctx, d.env, o.ID, 0, 10)
	if err != nil || len(versions) != 1 || versions[0].Version != 1 {
		t.Errorf("%v, %v", versions, err)
	}
	if more, err := d.DocumentVersions(ctx, d.env, o.ID, 1, 10); len(more) != 0 || err != nil {
		t.Errorf("after the last: %v, %v", more, err)
	}
	if blob, err := d.Blob(ctx, []byte("a")); err != nil || blob == nil || blob.ObjectKey != "k" {
		t.Errorf("%v, %v", blob, err)
	}
	if blob, err := d.Blob(ctx, []byte("b")); blob != nil || err != nil {
		t.Errorf("%v, %v", blob, err)
	}
}

// TestZeroObjectID changes a document whose id is all zeros, which leaves the others of its environment alone.
func TestZeroObjectID(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	other := d.addObject(d.newFetch("https://docs.example.com/docs/other"), "a")
	f := d.newFetch("https://docs.example.com/docs/zero")
	f.ObjectID = uuid.UUID{}
	zero := d.addObject(f, "b")

	zero.Version, zero.ETag = 2, `"c"`
	d.must(d.SaveObject(ctx, &zero))
	if diff := cmp.Diff([]any{&zero, nil}, pair(d.Object(ctx, d.env, zero.ID))); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	d.must(d.Unbind(ctx, &zero))
	if diff := cmp.Diff([]any{&zero, nil}, pair(d.Object(ctx, d.env, zero.ID))); diff != "" || zero.Bound {
		t.Errorf("unbound %t (-want +got):\n%s", !zero.Bound, diff)
	}
	if diff := cmp.Diff([]any{&other, nil}, pair(d.Object(ctx, d.env, other.ID))); diff != "" {
		t.Errorf("the other document (-want +got):\n%s", diff)
	}
}

func pair[T any](v *T, err error) []any {
	if err != nil {
		return []any{v, err}
	}
	return []any{v, nil}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	expect := func(f *store.Fetch, a store.Admission, want store.Entry) time.Duration {
		t.Helper()
		entry, wait := d.admit(f, a)
		if entry != want {
			t.Fatalf("%s, want %s", entry, want)
		}
		return wait
	}
	two := store.Admission{Lease: time.Minute, Slots: 2, Lapsed: "internal"}
	a, b := d.newFetch("https://docs.example.com/docs/a"), d.newFetch("https://docs.example.com/docs/b")
	expect(a, two, store.EntryGranted)
	expect(d.newFetch(a.URL), two, store.EntryPage)
	expect(b, two, store.EntryGranted)
	expect(d.newFetch(a.URL), two, store.EntryPage)
	c := d.newFetch("https://docs.example.com/docs/c")
	expect(c, two, store.EntryFull)
	other := d.newSource("another")
	twin := d.newFetch(a.URL)
	twin.SourceID, twin.ApprovalID = other.ID, other.Approval.ID
	expect(twin, store.Admission{Lease: time.Minute, Slots: 3, Lapsed: "internal"}, store.EntryGranted)

	running := func(want int) {
		t.Helper()
		if n, err := d.RunningFetches(ctx); n != want || err != nil {
			t.Fatalf("%d running, want %d, %v", n, want, err)
		}
	}
	running(3)
	d.end(a, 1)
	d.end(twin, 1)
	running(1)
	if err := d.EndFetch(ctx, a); !errors.Is(err, store.ErrLostAttempt) {
		t.Errorf("ended twice: %v", err)
	}

	// A dead one makes room, and can't end any more.
	d.exec("UPDATE fetches SET lease_until = clock_timestamp() WHERE status = 'running'")
	running(0)
	again := d.newFetch(b.URL)
	expect(again, two, store.EntryGranted)
	got, err := d.Fetch(ctx, d.source.ID, b.ID)
	if err != nil || got.Status != store.FetchFailed || got.ErrorCode == nil || *got.ErrorCode != "internal" || got.FinishedAt == nil {
		t.Errorf("the dead one: %+v, %v", got, err)
	}
	if err = d.HoldFetch(ctx, b); !errors.Is(err, store.ErrLostAttempt) {
		t.Errorf("the dead one is held: %v", err)
	}
	if err = d.HoldFetch(ctx, again); err != nil {
		t.Error(err)
	}
	stale := *b
	if err = d.EndFetch(ctx, &stale); !errors.Is(err, store.ErrLostAttempt) {
		t.Errorf("the dead one ends: %v", err)
	}
	later := *again
	later.Attempt++
	if err = d.EndFetch(ctx, &later); !errors.Is(err, store.ErrLostAttempt) {
		t.Errorf("another attempt ends: %v", err)
	}

	// Four have started by now.
	rate := two
	rate.PerMinute = 5
	expect(c, rate, store.EntryGranted)
	d.end(c, 1)
	d.exec("UPDATE fetches SET started_at = started_at - interval '20 seconds' WHERE id = ?", a.ID)
	if wait := expect(d.newFetch("https://docs.example.com/docs/d"), rate, store.EntryRate); wait <= 0 || wait > 40*time.Second {
		t.Errorf("wait %v", wait)
	}
	d.exec("UPDATE fetches SET started_at = started_at - interval '40 seconds' WHERE id = ?", a.ID)
	expect(d.newFetch("https://docs.example.com/docs/d"), rate, store.EntryGranted)

	s, err := d.Source(ctx, d.env, d.source.ID)
	if err != nil || s.LastFetch == nil || s.LastFetch.ID != c.ID || s.LastFetch.Outcome != store.FetchSucceeded {
		t.Errorf("last fetch %+v, %v", s.LastFetch, err)
	}
}

// TestAdmissionHoldsForMany lets many in at once, over several connections.
func TestAdmissionHoldsForMany(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	var mu sync.Mutex
	entries := map[store.Entry]int{}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			f := d.newFetch(fmt.Sprintf("https://docs.example.com/docs/%d", i/2))
			err := d.Atomically(t.Context(), func(rows store.Documents) error {
				entry, _, err := rows.Admit(t.Context(), f, store.Admission{Lease: time.Minute, Slots: 4, PerMinute: 60, Lapsed: "x"})
				mu.Lock()
				defer mu.Unlock()
				entries[entry]++
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if entries[store.EntryGranted] != 4 || entries[store.EntryGranted]+entries[store.EntryPage]+entries[store.EntryFull] != 30 {
		t.Errorf("%v", entries)
	}
}

func TestListsInPages(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	var sources, fetches, pages []uuid.UUID
	sources = append(sources, d.source.ID)
	for i := range 6 {
		sources = append(sources, d.newSource(fmt.Sprint(i)).ID)
		f := d.newFetch(fmt.Sprintf("https://docs.example.com/docs/%d", i))
		pages = append(pages, d.addObject(f, "a").ID)
		fetches = append(fetches, f.ID)
	}
	// Rows of one instant are told apart by their ids.
	d.exec("UPDATE fetches SET started_at = '2026-01-01'")
	d.exec("UPDATE objects SET created_at = '2026-01-01'")
	slices.SortFunc(pages, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	walk(t, "sources", sources, func(p store.Position) ([]store.Source, error) { return d.Sources(ctx, d.env, p, 2) },
		func(s store.Source) (time.Time, uuid.UUID) { return s.CreatedAt, s.ID })
	walk(t, "fetches", fetches, func(p store.Position) ([]store.Fetch, error) { return d.Fetches(ctx, d.source.ID, p, 2) },
		func(f store.Fetch) (time.Time, uuid.UUID) { return f.StartedAt, f.ID })
	walk(t, "pages", pages, func(p store.Position) ([]store.Object, error) { return d.Pages(ctx, d.source.ID, "", p, 2) },
		func(o store.Object) (time.Time, uuid.UUID) { return o.CreatedAt, o.ID })
	walk(t, "environments", []uuid.UUID{d.env}, func(p store.Position) ([]store.Environment, error) { return d.Environments(ctx, p, 2) },
		func(e store.Environment) (time.Time, uuid.UUID) { return e.CreatedAt, e.ID })
	one, err := d.Pages(ctx, d.source.ID, "https://docs.example.com/docs/3", store.Position{}, 2)
	if err != nil || len(one) != 1 || one[0].URL != "https://docs.example.com/docs/3" {
		t.Errorf("one page: %v, %v", one, err)
	}
	if n, err := d.Sources(ctx, newID(t), store.Position{}, 2); len(n) != 0 || err != nil {
		t.Errorf("sources of another environment: %v, %v", n, err)
	}
}

func walk[T any](
	t *testing.T, what string, want []uuid.UUID, next func(store.Position) ([]T, error), at func(T) (time.Time, uuid.UUID),
) {
	t.Helper()
	var got []uuid.UUID
	var p store.Position
	for {
		rows, err := next(p)
		if err != nil {
			t.Fatal(what, err)
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			p.At, p.ID = at(r)
			got = append(got, p.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestDocumentQueriesUseTheirIndexes plans each on tables that hold something.
func TestDocumentQueriesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	id := d.source.ID.String()
	d.exec(`INSERT INTO fetches (id, environment_id, source_id, url, object_id, attempt, status, changed, version, approval_id, actor,
			lease_until, started_at, finished_at)
		SELECT gen_random_uuid(), ?, CASE n % 30 WHEN 0 THEN ?::uuid ELSE ?::uuid END, 'https://docs.example.com/docs/' || n, gen_random_uuid(), 1, 'succeeded', true, 1, ?, 'a',
			now(), now() - n * interval '1 second', now() FROM generate_series(1, 3000) n`, d.env, d.source.ID, d.newSource("another").ID, d.source.Approval.ID)
	d.exec(`INSERT INTO objects SELECT environment_id, object_id, source_id, url, true, 1, started_at, id, started_at, '', started_at,
		'', 0 FROM fetches`)
	d.exec("ANALYZE")
	for query, index := range map[string]string{
		"SELECT * FROM environments WHERE (created_at, id) > (now(), '" + id + "') ORDER BY created_at, id LIMIT 2":                                             "environments_created",
		"SELECT * FROM sources WHERE environment_id = '" + id + "' AND (created_at, id) > (now(), '" + id + "') ORDER BY created_at, id LIMIT 2":                "sources_created",
		"SELECT * FROM fetches WHERE source_id = '" + id + "' AND (started_at, id) > (now() - interval '30 min', '" + id + "') ORDER BY started_at, id LIMIT 2": "fetches_source_started",
		"SELECT id FROM fetches WHERE source_id = '" + id + "' AND status <> 'running' ORDER BY started_at DESC, id DESC LIMIT 1":                               "fetches_source_started",
		"SELECT started_at FROM fetches WHERE started_at > now() - interval '60 seconds' ORDER BY started_at DESC OFFSET 59 LIMIT 1":                            "fetches_started",
		"SELECT count(*) FROM fetches WHERE status = 'running'":                                                                                                 "fetches_running",
		"SELECT id FROM fetches WHERE status = 'running' AND lease_until <= now() FOR UPDATE SKIP LOCKED":                                                       "fetches_running",
		"SELECT * FROM objects WHERE source_id = '" + id + "' AND url = 'u' AND bound FOR UPDATE":                                                               "objects_page",
		"SELECT * FROM objects WHERE source_id = '" + id + "' AND bound AND (created_at, id) > (now(), '" + id + "') ORDER BY created_at, id":                   "objects_source_created",
		"SELECT * FROM versions WHERE environment_id = '" + id + "' AND object_id = '" + id + "' AND version > 3 ORDER BY version LIMIT 2":                      "versions_pkey",
		"SELECT scope FROM mutation_keys WHERE expires_at <= now() ORDER BY expires_at LIMIT 10":                                                                "mutation_keys_expiry",
	} {
		var plan []string
		err := d.db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec("SET LOCAL enable_seqscan = off").Error; err != nil {
				return err
			}
			return tx.Raw("EXPLAIN " + query).Scan(&plan).Error
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, index+" ") || strings.Contains(text, "Sort") {
			t.Errorf("%s does not use %s:\n%s", query, index, text)
		}
	}
}

func TestMutationKeys(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	scope, mine, theirs := []byte("scope"), newID(t), newID(t)
	claim := func(operation uuid.UUID, fingerprint string) (record *store.KeyRecord) {
		t.Helper()
		d.atomically(func(rows store.Documents) (err error) {
			record, err = rows.ClaimKey(ctx, scope, []byte(fingerprint), operation, time.Minute, time.Hour)
			return err
		})
		return record
	}
	same := func(want, got *store.KeyRecord) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	renew := func(want int) {
		t.Helper()
		attempt, err := d.RenewKey(ctx, scope, []byte("g"), theirs, time.Minute, time.Hour)
		if err != nil || attempt != want {
			t.Fatalf("attempt %d, want %d, %v", attempt, want, err)
		}
	}
	same(nil, claim(mine, "f"))
	same(&store.KeyRecord{Fingerprint: []byte("f"), OperationID: mine, Attempt: 1}, claim(theirs, "g"))
	d.exec("UPDATE mutation_keys SET lease_until = clock_timestamp()")
	same(&store.KeyRecord{Fingerprint: []byte("f"), OperationID: mine, Attempt: 1, Lapsed: true}, claim(theirs, "g"))
	renew(2)
	answer := store.Answer{Status: 200, Location: "/l", ETag: `"e"`, Body: []byte("{}")}
	if err := d.FinishKey(ctx, scope, mine, 1, answer); !errors.Is(err, store.ErrClaimTaken) {
		t.Errorf("the attempt that lost it: %v", err)
	}
	if err := d.FinishKey(ctx, scope, theirs, 1, answer); !errors.Is(err, store.ErrClaimTaken) {
		t.Errorf("another attempt: %v", err)
	}
	d.must(d.ReleaseKey(ctx, scope, mine, 1))
	d.must(d.FinishKey(ctx, scope, theirs, 2, answer))
	d.must(d.ReleaseKey(ctx, scope, theirs, 2))
	finished := &store.KeyRecord{Fingerprint: []byte("g"), OperationID: theirs, Attempt: 2, Answer: &answer}
	d.exec("UPDATE mutation_keys SET lease_until = now() - interval '1 hour'")
	same(finished, claim(mine, "f"))
	d.exec("UPDATE mutation_keys SET expires_at = now()")
	finished.Expired = true
	same(finished, claim(mine, "f"))
	renew(3)
	same(&store.KeyRecord{Fingerprint: []byte("g"), OperationID: theirs, Attempt: 3}, claim(mine, "f"))
	d.must(d.ReleaseKey(ctx, scope, theirs, 3))
	same(nil, claim(mine, "f"))
}

func TestExpiredKeysAreForgotten(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	claim := func(name string) {
		t.Helper()
		if _, err := d.ClaimKey(t.Context(), []byte(name), []byte("f"), newID(t), time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 15 {
		claim(fmt.Sprint(i))
	}
	d.exec("UPDATE mutation_keys SET expires_at = now()")
	for i, want := range []int{6, 2} {
		claim(fmt.Sprint("new", i))
		var left int
		if err := d.db.Raw("SELECT count(*) FROM mutation_keys").Scan(&left).Error; err != nil || left != want {
			t.Errorf("%d keys are left, want %d, %v", left, want, err)
		}
	}
}

// TestOneOfManyClaimsAKey holds for claims whose transactions go on for a while.
func TestOneOfManyClaimsAKey(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	var mu sync.Mutex
	claimed := 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := d.Atomically(t.Context(), func(rows store.Documents) error {
				record, err := rows.ClaimKey(t.Context(), []byte("scope"), []byte("f"), newID(t), time.Minute, time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && record == nil {
					claimed++
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if claimed != 1 {
		t.Errorf("%d claimed it", claimed)
	}
}

// TestAtomicallyBoundsItsWaits holds a row that another transaction wants.
func TestAtomicallyBoundsItsWaits(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	ctx := t.Context()
	d.must(d.db.Transaction(func(tx *gorm.DB) error {
		if _, err := store.NewDocuments(tx).LockSource(ctx, d.env, d.source.ID); err != nil {
			return err
		}
		err := d.Atomically(ctx, func(rows store.Documents) error {
			_, err := rows.HoldSource(ctx, d.env, d.source.ID)
			return err
		})
		if problem.CodeOf(err) != problem.Unavailable {
			t.Errorf("%v", err)
		}
		return nil
	}))
}

func TestAtomicallyTellsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	refusal := errors.New("no")
	if err := d.Atomically(t.Context(), func(store.Documents) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := d.Atomically(ctx, func(rows store.Documents) error {
		defer cancel() // before the commit
		return rows.CreateEnvironment(ctx, &store.Environment{ID: newID(t), Name: "lost"})
	})
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("%v", err)
	}
}
