package documents_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

func addrs(list ...string) []webtest.Answer { return []webtest.Answer{webtest.Addrs(list...)} }

func tryDisconnect(p *plant, source *store.Source, revision int64) (documents.Reply, error) {
	return with(p, func(l *tenant.Lease) (documents.Reply, error) {
		return p.DisconnectSource(p.t.Context(), l, p.env, source.ID, ann, revision, once[store.Source]())
	})
}

func disconnect(p *plant, source *store.Source, revision int64) *store.Source {
	p.t.Helper()
	r, err := tryDisconnect(p, source, revision)
	return made[store.Source](p.t, r, err)
}

func tryReconnect(p *plant, in documents.Reconnect) (documents.Reply, error) {
	return with(p, func(l *tenant.Lease) (documents.Reply, error) {
		return p.ReconnectSource(p.t.Context(), l, p.env, p.source.ID, ann, in, once[store.Source]())
	})
}

func TestSourceLife(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	state := func(s *store.Source) [3]any {
		return [3]any{s.Status, s.Approval.PathPrefix, s.Revision}
	}
	expect := func(s *store.Source, status store.SourceStatus, prefix string, revision int64) {
		t.Helper()
		if diff := cmp.Diff([3]any{status, prefix, revision}, state(s)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		got, err := with(p, func(l *tenant.Lease) (*store.Source, error) { return p.Source(t.Context(), l, p.env, p.source.ID) })
		if err != nil || state(got) != state(s) {
			t.Errorf("read: %+v, %v", got, err)
		}
	}
	reconnect := func(origin, prefix string, revision int64, want documents.Code) *store.Source {
		t.Helper()
		r, err := tryReconnect(p, documents.Reconnect{Origin: origin, PathPrefix: prefix, Revision: revision})
		if want != "" {
			refused(t, err, want)
			return nil
		}
		return made[store.Source](t, r, err)
	}
	base := p.origin.Base()
	expect(p.source, store.SourceConnected, "/docs", 1)
	expect(reconnect(base, "/docs", 1, ""), store.SourceConnected, "/docs", 2) // equal is no wider
	expect(reconnect(base, "/docs/a", 2, ""), store.SourceConnected, "/docs/a", 3)
	reconnect(base, "/docs/a/b", 2, documents.RevisionConflict)
	reconnect(base, "/docs", 3, documents.ApprovalCannotWiden)
	reconnect(base, "/docs/b", 3, documents.ApprovalCannotWiden)
	reconnect("https://docs.example.com", "/docs/a", 3, documents.ApprovalCannotWiden)

	_, err := tryDisconnect(p, p.source, 2)
	refused(t, err, documents.RevisionConflict)
	expect(disconnect(p, p.source, 3), store.SourceDisconnected, "/docs/a", 4)
	expect(disconnect(p, p.source, 4), store.SourceDisconnected, "/docs/a", 4) // it is already
	p.refuse(p.request("/docs/a"), documents.SourceDisconnected)
	reconnect(base, "/docs", 4, documents.ApprovalCannotWiden) // the ceiling stays
	expect(reconnect(base, "/docs/a/b", 4, ""), store.SourceConnected, "/docs/a/b", 5)

	var approvals []string
	p.db(dbScan(&approvals, "SELECT path_prefix FROM approvals ORDER BY approved_at"))
	if diff := cmp.Diff([]string{"/docs", "/docs", "/docs/a", "/docs/a/b"}, approvals); diff != "" {
		t.Errorf("approvals (-want +got):\n%s", diff)
	}
	var actions []string
	p.db(dbScan(&actions, "SELECT action FROM audit_events ORDER BY at"))
	if diff := cmp.Diff([]string{
		"environment.created", "source.approved", "source.reconnected", "source.reconnected", "source.disconnected", "source.reconnected",
	}, actions); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

func TestRefusedSources(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	base := p.origin.Base()
	for want, in := range map[string]documents.NewSource{
		"name":        {Name: " ", Origin: base, PathPrefix: "/"},
		"origin":      {Name: "s", Origin: "https://docs.example.com:1", PathPrefix: "/"},
		"path_prefix": {Name: "s", Origin: base, PathPrefix: "docs"},
	} {
		_, err := with(p, func(l *tenant.Lease) (documents.Reply, error) {
			return p.CreateSource(t.Context(), l, p.env, ann, in, once[store.Source]())
		})
		if e := refused(t, err, documents.InvalidRequest); e.Param != want {
			t.Errorf("param %q, want %q", e.Param, want)
		}
	}
	_, err := with(p, func(l *tenant.Lease) (documents.Reply, error) {
		in := documents.NewSource{Name: "s", Origin: base, PathPrefix: "/"}
		return p.CreateSource(t.Context(), l, uuid.New(), ann, in, once[store.Source]())
	})
	refused(t, err, documents.NotFound)
}

// TestOutsideOfTheApproval sends nothing.
func TestOutsideOfTheApproval(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	for _, path := range []string{"/", "/docs-internal", "/Docs", "/doc"} {
		if e := p.refuse(p.request(path), documents.URLNotApproved); e.SnapshotRef != p.source.Approval.ID {
			t.Errorf("%s: snapshot %s", path, e.SnapshotRef)
		}
	}
	for _, url := range []string{"https://docs.example.com/docs", "https://other.example.com/docs"} {
		in := p.request(page)
		in.URL = url
		p.refuse(in, documents.URLNotApproved)
	}
	for _, url := range []string{"", "http://docs.example.com/docs", p.origin.URL("/docs/../x"), p.origin.URL("/docs?x")} {
		in := p.request(page)
		in.URL = url
		if e := p.refuse(in, documents.InvalidRequest); e.Param != "url" {
			t.Errorf("%s: param %q", url, e.Param)
		}
	}
	in := p.request(page)
	in.SourceID = uuid.New()
	p.refuse(in, documents.NotFound)
	if p.origin.Connections() != 0 || p.count("SELECT count(*) FROM fetches") != 0 || p.count("SELECT count(*) FROM mutation_keys") != 0 {
		t.Error("something came of it")
	}
}

// TestApprovalChangesWhileFetching changes the source while the origin thinks.
func TestApprovalChangesWhileFetching(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*plant)
		want   documents.Code
	}{
		"narrowed": {func(p *plant) {
			if _, err := tryReconnect(p, documents.Reconnect{Origin: p.origin.Base(), PathPrefix: "/docs/other", Revision: 1}); err != nil {
				p.t.Error(err)
			}
		}, documents.ApprovalChanged},
		"narrowed around the page": {func(p *plant) {
			if _, err := tryReconnect(p, documents.Reconnect{Origin: p.origin.Base(), PathPrefix: page, Revision: 1}); err != nil {
				p.t.Error(err)
			}
		}, ""},
		"disconnected": {func(p *plant) { disconnect(p, p.source, 1) }, documents.SourceDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			g := p.hold(page)
			in := p.request(page)
			done := p.start(in)
			g.reached()
			tc.change(p)
			g.open("A")
			o := receive(t, done)
			if tc.want == "" {
				if got := made[answer](t, o.reply, o.err).Result; !got.Changed {
					t.Errorf("%+v", got)
				}
				return
			}
			refused(t, o.err, tc.want)
			for _, table := range []string{"objects", "versions", "mutation_keys"} {
				if n := p.count("SELECT count(*) FROM " + table); n != 0 {
					t.Errorf("%d %s", n, table)
				}
			}
			if n := p.count("SELECT count(*) FROM fetches WHERE status = 'refused' AND error_code = ?", string(tc.want)); n != 1 {
				t.Errorf("%d refused fetches", n)
			}
		})
	}
}
