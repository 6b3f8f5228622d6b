package documents_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestSlots holds that a fifth fetch waits for a slot, and not for ever; that other tenants have slots of their own; and
// that the slots of dead processes become free.
func TestSlots(t *testing.T) {
	t.Parallel()
	p := newPlant(t, func(o *documents.Options) { o.SlotWait = 300 * time.Millisecond })
	patientOptions := p.options
	patientOptions.SlotWait = patient
	replica := *p // another process
	replica.Service = must(documents.New(patientOptions))

	g := p.hold("/docs/0")
	var running []<-chan outcome
	for i := range documents.DefaultSlots {
		path := fmt.Sprintf("/docs/%d", i)
		p.origin.Handle(path, g.serve)
		running = append(running, p.start(p.request(path)))
		g.reached()
	}
	p.origin.Page(page, "text/plain", "A")
	fifth := p.request(page)
	if e := p.refuse(fifth, documents.RateLimited); e.RetryAfter <= 0 {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	if n := p.requests(page) + p.count("SELECT count(*) FROM fetches WHERE url = ?", fifth.URL); n != 0 {
		t.Errorf("%d traces of it", n)
	}

	p.addTenant("globex", testkit.Postgres(t).NewDatabase(t))
	theirs := p.request(page)
	theirs.EnvironmentID = p.newEnvironment("globex")
	theirs.SourceID = p.newSource("globex", theirs.EnvironmentID, "/docs").ID
	if _, err := p.try("globex", theirs); err != nil {
		t.Errorf("another tenant: %v", err)
	}

	waiting := replica.start(fifth)
	g.open("A")
	o := receive(t, waiting)
	if got := made[answer](t, o.reply, o.err).Result; !got.Changed {
		t.Errorf("%+v", got)
	}
	p.sync(p.request(page)) // in the free slot
	refill := p.request("/docs/refill")
	p.origin.Handle("/docs/refill", g.serve)
	last := p.start(refill)
	g.reached()
	p.refuse(p.request(page), documents.RateLimited)

	// The processes of all of them are killed, which nobody is told.
	p.exec("UPDATE fetches SET lease_until = now() WHERE status = 'running'")
	p.sync(p.request(page))
	for range documents.DefaultSlots {
		g.open("late")
	}
	late := map[documents.Code]int{}
	for _, done := range append(running, last) {
		if o := receive(t, done); o.err != nil {
			late[documents.AsError(o.err).Code]++
		}
	}
	if late[documents.Unavailable] != documents.DefaultSlots {
		t.Errorf("%v", late)
	}
	if n := p.count("SELECT count(*) FROM fetches WHERE status = 'failed' AND error_code = 'internal'"); n != documents.DefaultSlots {
		t.Errorf("%d failed fetches", n)
	}
}

// TestRate counts only what reaches the fetch.
func TestRate(t *testing.T) {
	t.Parallel()
	p := newPlant(t, func(o *documents.Options) { o.RatePerMinute = 3 })
	g := p.hold(page)
	done := p.start(p.request(page)) // 1
	g.reached()
	for range 5 {
		p.refuse(p.request(page), documents.SyncInProgress)
		p.refuse(p.request("/elsewhere"), documents.URLNotApproved)
	}
	g.open("A")
	o := receive(t, done)
	if o.err != nil {
		t.Fatal(o.err)
	}
	p.origin.Page(page, "text/plain", "A")
	p.origin.Status("/docs/missing", 404, nil)
	p.refuse(p.request("/docs/missing"), documents.UpstreamRefused) // 2
	in := p.request(page)
	p.sync(in) // 3
	p.replayed(in)
	limited := p.request(page)
	if e := p.refuse(limited, documents.RateLimited); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	p.exec("UPDATE fetches SET started_at = started_at - interval '1 minute' WHERE error_code IS NOT NULL")
	p.sync(limited)
}

func TestLists(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	for i := range 4 {
		path := fmt.Sprintf("/docs/%d", i)
		p.origin.Page(path, "text/plain", "A")
		p.sync(p.request(path))
		p.newSource(acme, p.env, "/")
		p.newEnvironment(acme)
	}
	walk(p, "fetches", 4, func(l *tenant.Lease, list documents.List) (documents.Page[store.Fetch], error) {
		return p.Fetches(t.Context(), l, p.env, p.source.ID, list)
	}, func(f store.Fetch) uuid.UUID { return f.ID })
	walk(p, "documents", 4, func(l *tenant.Lease, list documents.List) (documents.Page[store.Object], error) {
		return p.Documents(t.Context(), l, p.env, p.source.ID, "", list)
	}, func(o store.Object) uuid.UUID { return o.ID })
	walk(p, "sources", 5, func(l *tenant.Lease, list documents.List) (documents.Page[store.Source], error) {
		return p.Sources(t.Context(), l, p.env, list)
	}, func(s store.Source) uuid.UUID { return s.ID })
	walk(p, "environments", 5, func(l *tenant.Lease, list documents.List) (documents.Page[store.Environment], error) {
		return p.Environments(t.Context(), l, list)
	}, func(e store.Environment) uuid.UUID { return e.ID })

	for param, list := range map[string]documents.List{"limit": {Limit: 101}, "cursor": {Cursor: "AAAA"}} {
		_, err := with(p, func(l *tenant.Lease) (documents.Page[store.Source], error) {
			return p.Sources(t.Context(), l, p.env, list)
		})
		if e := refused(t, err, documents.InvalidRequest); e.Param != param {
			t.Errorf("param %q, want %q", e.Param, param)
		}
	}
	_, err := with(p, func(l *tenant.Lease) (documents.Page[store.Object], error) {
		return p.Documents(t.Context(), l, p.env, p.source.ID, "https://x", documents.List{})
	})
	if e := refused(t, err, documents.InvalidRequest); e.Param != "url" {
		t.Errorf("param %q", e.Param)
	}
}

// walk reads a listing of n rows two at a time.
func walk[T any](
	p *plant, what string, n int, read func(*tenant.Lease, documents.List) (documents.Page[T], error), id func(T) uuid.UUID,
) {
	p.t.Helper()
	seen := map[uuid.UUID]bool{}
	list := documents.List{Limit: 2}
	for pages := 1; ; pages++ {
		got, err := with(p, func(l *tenant.Lease) (documents.Page[T], error) { return read(l, list) })
		if err != nil {
			p.t.Fatalf("%s: %v", what, err)
		}
		for _, row := range got.Items {
			seen[id(row)] = true
		}
		if list.Cursor = got.NextCursor; list.Cursor == "" {
			if len(seen) != n || pages != (n+1)/2 {
				p.t.Errorf("%s: %d rows on %d pages", what, len(seen), pages)
			}
			return
		}
	}
}

// TestUnknownIDs are NotFound, whatever belongs to somebody else.
func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	in := p.request(page)
	fetched := p.sync(in)
	other := p.newEnvironment(acme)
	stranger := p.newSource(acme, other, "/")
	ctx := t.Context()
	for name, ask := range map[string]func(*tenant.Lease) error{
		"environment": func(l *tenant.Lease) error { return second(p.Environment(ctx, l, uuid.New())) },
		"source":      func(l *tenant.Lease) error { return second(p.Source(ctx, l, p.env, stranger.ID)) },
		"sources":     func(l *tenant.Lease) error { return second(p.Sources(ctx, l, uuid.New(), documents.List{})) },
		"fetch":       func(l *tenant.Lease) error { return second(p.Fetch(ctx, l, other, stranger.ID, fetched.FetchID)) },
		"fetches":     func(l *tenant.Lease) error { return second(p.Fetches(ctx, l, other, p.source.ID, documents.List{})) },
		"documents": func(l *tenant.Lease) error {
			return second(p.Documents(ctx, l, other, p.source.ID, "", documents.List{}))
		},
		"object":   func(l *tenant.Lease) error { return second(p.Object(ctx, l, other, in.ObjectID)) },
		"versions": func(l *tenant.Lease) error { return second(p.Versions(ctx, l, other, in.ObjectID, documents.List{})) },
		"version":  func(l *tenant.Lease) error { return second(p.Version(ctx, l, p.env, in.ObjectID, 2)) },
		"content":  func(l *tenant.Lease) error { return second(p.Content(ctx, l, p.env, in.ObjectID, 2)) },
		"delete": func(l *tenant.Lease) error {
			return second(p.DeleteObject(ctx, l, other, in.ObjectID, ann, once[struct{}]()))
		},
		"version of all": func(l *tenant.Lease) error { return second(p.Version(ctx, l, other, in.ObjectID, 1)) },
	} {
		_, err := with(p, func(l *tenant.Lease) (struct{}, error) { return struct{}{}, ask(l) })
		if got := documents.AsError(err); err == nil || got.Code != documents.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestWithoutContentStore(t *testing.T) {
	t.Parallel()
	p := newPlant(t, func(o *documents.Options) { o.Content = nil })
	p.refuse(p.request(page), documents.FeatureUnavailable)
	_, err := with(p, func(l *tenant.Lease) (*store.Object, error) { return p.Object(t.Context(), l, p.env, uuid.New()) })
	refused(t, err, documents.FeatureUnavailable)
	refused(t, p.Ready(), documents.FeatureUnavailable)
}
