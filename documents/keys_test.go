package documents_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// replayed sends a request of acme's that must be answered with what is kept.
func (p *plant) replayed(in documents.SyncRequest) documents.Reply {
	p.t.Helper()
	r, err := p.try(acme, in)
	if err != nil || !r.Replayed {
		p.t.Fatalf("replayed %t, %v", r.Replayed, err)
	}
	return r
}

func TestKeyGivesTheAnswerAgain(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	in := p.request(page)
	first, err := p.try(acme, in)
	if err != nil || first.Replayed {
		t.Fatalf("%+v, %v", first, err)
	}
	p.origin.Page(page, "text/plain", "B")
	if got := p.sync(p.request(page)); got.Version.Version != 2 {
		t.Fatalf("%+v", got)
	}
	disconnect(p, p.source, 1)
	spelled := in
	spelled.URL = "https://DOCS.example.com" + spelled.URL[len("https://docs.example.com"):] // the same in canonical form
	for _, again := range []documents.SyncRequest{in, spelled} {
		if diff := cmp.Diff(first.Answer, p.replayed(again).Answer); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if n := p.requests(page); n != 2 {
		t.Errorf("%d requests", n)
	}

	// Another request under the key.
	other := p.newSource(acme, p.env, "/docs")
	for name, change := range map[string]func(*documents.SyncRequest){
		"url":    func(r *documents.SyncRequest) { r.URL += "/x" },
		"object": func(r *documents.SyncRequest) { r.ObjectID = uuid.New() },
		"source": func(r *documents.SyncRequest) { r.SourceID = other.ID },
	} {
		changed := in
		change(&changed)
		if e := p.refuse(changed, documents.IdempotencyKeyReused); e.Param != "Idempotency-Key" {
			t.Errorf("%s: param %q", name, e.Param)
		}
	}

	// Another scope.
	bob := in
	bob.SourceID, bob.ObjectID, bob.Caller.Subject = other.ID, uuid.New(), "o/bob"
	if got := p.sync(bob); !got.Changed {
		t.Errorf("another principal: %+v", got)
	}
	elsewhere := in
	elsewhere.EnvironmentID = p.newEnvironment(acme)
	p.refuse(elsewhere, documents.NotFound) // its source is not there, but its key is free

	// After three days.
	p.exec("UPDATE mutation_keys SET expires_at = now()")
	p.refuse(in, documents.SourceDisconnected)
}

func TestKeysAreKeptForThreeDays(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	p.sync(p.request(page))
	if n := p.count(`SELECT count(*) FROM mutation_keys
		WHERE expires_at - now() BETWEEN interval '71 hours' AND interval '72 hours'`); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// TestWhichFailuresAreKept ends a sync in each way and sends it again.
func TestWhichFailuresAreKept(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	status := func(status int) func(string) {
		return func(path string) { p.origin.Status(path, status, http.Header{"Location": {"/elsewhere"}}) }
	}
	body := func(mediaType, body string) func(string) {
		return func(path string) { p.origin.Page(path, mediaType, body) }
	}
	for code, tc := range map[documents.Code]struct {
		answer   func(path string)
		upstream int
		outcome  store.FetchStatus
	}{
		documents.RedirectRefused:       {status(302), 302, store.FetchRefused},
		documents.UpstreamRefused:       {status(404), 404, store.FetchRefused},
		documents.UpstreamUnavailable:   {status(503), 503, store.FetchFailed},
		documents.UpstreamProtocolError: {status(204), 204, store.FetchFailed},
		documents.UnsupportedMediaType:  {body("video/mp4", "x"), 0, store.FetchRefused},
		documents.ContentTypeMismatch:   {body("image/png", "x"), 0, store.FetchRefused},
		documents.ContentInvalid:        {body("application/json", "{"), 0, store.FetchRefused},
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			path := "/docs/" + string(code)
			tc.answer(path)
			in := p.request(path)
			_, err := p.try(acme, in)
			if e := refused(t, err, code); e.UpstreamStatus != tc.upstream {
				t.Errorf("upstream status %d, want %d", e.UpstreamStatus, tc.upstream)
			}
			var row store.Fetch
			l := p.lease(acme)
			defer l.Release()
			if err = l.DB(t.Context()).Where("url = ?", in.URL).Take(&row).Error; err != nil {
				t.Fatal(err)
			}
			got := struct {
				Outcome store.FetchStatus
				Code    string
				Ended   bool
			}{row.Status, deref(row.ErrorCode), row.FinishedAt != nil}
			want := got
			want.Outcome, want.Code, want.Ended = tc.outcome, string(code), true
			if diff := cmp.Diff(want, got); diff != "" || deref(row.UpstreamStatus) != tc.upstream {
				t.Errorf("row (-want +got):\n%s, upstream status %d", diff, deref(row.UpstreamStatus))
			}

			p.origin.Page(path, "text/plain", "A")
			r, err := p.try(acme, in)
			if kept := made[answer](t, r, err); code.Info().Keep != r.Replayed || r.Replayed && kept.Error != string(code) {
				t.Errorf("kept %t: %+v", r.Replayed, kept)
			}
			if wantRequests := map[bool]int{true: 1, false: 2}[code.Info().Keep]; p.requests(path) != wantRequests {
				t.Errorf("%d requests, want %d", p.requests(path), wantRequests)
			}
		})
	}
}

func deref[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}

// TestDestinationRefused is kept as well, and reaches nobody.
func TestDestinationRefused(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.dns.Set("docs.example.com", addrs("127.0.0.1", "10.0.0.1")...)
	in := p.request(page)
	p.refuse(in, documents.DestinationRefused)
	if r := p.replayed(in); r.Status != http.StatusForbidden {
		t.Errorf("status %d", r.Status)
	}
	if p.origin.Connections() != 0 {
		t.Error("it was connected to")
	}
}

// TestKeyInUse holds that a key whose fetch runs tells which one that is, to any number of requests.
func TestKeyInUse(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	in := p.request(page)
	const requests = 50
	var outcomes [requests]outcome
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() { outcomes[i].reply, outcomes[i].err = p.try(acme, in) })
	}
	g.reached()
	e := p.refuse(in, documents.IdempotencyInProgress)
	if e.RetryAfter <= 0 {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	if f := p.fetchRow(e.OperationID); f.Status != store.FetchRunning || f.FinishedAt != nil || f.URL != in.URL {
		t.Errorf("%+v", f)
	}
	changed := in
	changed.ObjectID = uuid.New()
	p.refuse(changed, documents.IdempotencyKeyReused)
	g.open("A")
	wg.Wait()
	answered := map[string]int{}
	for _, o := range outcomes {
		switch {
		case o.err != nil:
			answered[string(documents.AsError(o.err).Code)]++
		default:
			answered[fmt.Sprint(o.reply.Status)]++
		}
	}
	if got := answered["200"] + answered["idempotency_in_progress"]; got != requests || answered["200"] == 0 {
		t.Errorf("%v", answered)
	}
	if n := p.requests(page); n != 1 {
		t.Errorf("%d requests reached the origin", n)
	}
	if r := made[answer](t, p.replayed(in), nil); r.Result.FetchID != e.OperationID {
		t.Errorf("fetch %s, not %s", r.Result.FetchID, e.OperationID)
	}
}

// TestConflictsFreeTheKey lets the same request succeed once what stood in its way is gone.
func TestConflictsFreeTheKey(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	done := p.start(p.request(page))
	g.reached()
	in := p.request(page)
	p.refuse(in, documents.SyncInProgress)
	g.open("A")
	receive(t, done)
	p.origin.Page(page, "text/plain", "B")
	if got := p.sync(in); !got.Changed {
		t.Errorf("%+v", got)
	}
}

func TestKeysOfTenants(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.addTenant("globex", testkit.Postgres(t).NewDatabase(t))
	key := uuid.New()
	ids := map[uuid.UUID]bool{}
	for _, id := range []string{acme, "globex", acme} {
		l := p.lease(id)
		r, err := p.CreateEnvironment(t.Context(), l, ann, "production", once[store.Environment](key))
		l.Release()
		e := made[store.Environment](t, r, err)
		if again := ids[e.ID]; again != r.Replayed {
			t.Errorf("%s: replayed %t", id, r.Replayed)
		}
		ids[e.ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("%d environments", len(ids))
	}
}

// TestMutationKeys holds for every mutation but sync that its key makes it happen once.
func TestMutationKeys(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	in := p.request(page)
	p.sync(in)
	for _, tc := range []struct {
		name   string
		audit  string
		mutate func(l *tenant.Lease, key uuid.UUID, variant int) (documents.Reply, error)
	}{
		{"create environment", "environment.created", func(l *tenant.Lease, key uuid.UUID, variant int) (documents.Reply, error) {
			return p.CreateEnvironment(t.Context(), l, ann, fmt.Sprint(variant), once[store.Environment](key))
		}},
		{"create source", "source.approved", func(l *tenant.Lease, key uuid.UUID, variant int) (documents.Reply, error) {
			s := documents.NewSource{Name: fmt.Sprint(variant), Origin: p.origin.Base(), PathPrefix: "/"}
			return p.CreateSource(t.Context(), l, p.env, ann, s, once[store.Source](key))
		}},
		{"reconnect", "source.reconnected", func(l *tenant.Lease, key uuid.UUID, variant int) (documents.Reply, error) {
			r := documents.Reconnect{Origin: p.origin.Base(), PathPrefix: "/docs/page", Revision: int64(variant)}
			return p.ReconnectSource(t.Context(), l, p.env, p.source.ID, ann, r, once[store.Source](key))
		}},
		{"disconnect", "source.disconnected", func(l *tenant.Lease, key uuid.UUID, variant int) (documents.Reply, error) {
			return p.DisconnectSource(t.Context(), l, p.env, p.source.ID, ann, int64(variant+1), once[store.Source](key))
		}},
		{"delete", "object.deleted", func(l *tenant.Lease, key uuid.UUID, variant int) (documents.Reply, error) {
			id := in.ObjectID
			if variant != 1 {
				id = uuid.New()
			}
			return p.DeleteObject(t.Context(), l, p.env, id, ann, once[struct{}](key))
		}},
	} {
		before := p.count("SELECT count(*) FROM audit_events WHERE action = ?", tc.audit)
		key := uuid.New()
		run := func(variant int) (documents.Reply, error) {
			return with(p, func(l *tenant.Lease) (documents.Reply, error) { return tc.mutate(l, key, variant) })
		}
		first, err := run(1)
		if err != nil || first.Replayed {
			t.Fatalf("%s: replayed %t, %v", tc.name, first.Replayed, err)
		}
		again, err := run(1)
		if err != nil || !again.Replayed {
			t.Errorf("%s again: replayed %t, %v", tc.name, again.Replayed, err)
		}
		if diff := cmp.Diff(first.Answer, again.Answer); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		_, err = run(2)
		refused(t, err, documents.IdempotencyKeyReused)
		if n := p.count("SELECT count(*) FROM audit_events WHERE action = ?", tc.audit) - before; n != 1 {
			t.Errorf("%s: %d audit events", tc.name, n)
		}
	}
}
