package handlers_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/testkit"
)

// define describes the database as an internal datasource for the tenants; none are all.
func define(d testkit.Database, name, kind string, tenants ...string) connections.Definition {
	return connections.Definition{Everyone: len(tenants) == 0, Tenants: tenants, Input: connections.Input{
		ConfigName: &name, Kind: &kind, Host: &d.Host, Port: &d.Port, DatabaseName: &d.Name, UserName: &d.Owner, Password: &d.Password,
	}}
}

// withInternals gives the API internal datasources, and tenants a guard that refuses private addresses.
func withInternals(t *testing.T, definitions ...connections.Definition) func(*handlers.Options) {
	t.Helper()
	key, err := secret.ParseKey(1, secret.GenerateKey())
	must(t, err)
	keys, err := secret.NewKeyring(key)
	must(t, err)
	guard, err := dial.NewGuard(dial.Policy{})
	must(t, err)
	internals, err := connections.NewInternals(definitions...)
	must(t, err)
	service, err := connections.New(connections.Options{
		Keys: keys, Guard: guard, Internal: internals, Drivers: source.Drivers{source.PostgreSQL: postgres.New()},
	})
	must(t, err)
	return func(o *handlers.Options) { o.Connections = service }
}

func TestInternalDatasourcesInLists(t *testing.T) {
	t.Parallel()
	d := testkit.Database{Host: "10.0.0.1", Port: 5432, Name: "d", Owner: "u", Password: "canary-secret"}
	s := newService(t, withInternals(t,
		define(d, "zeta", "POSTGRESQL"), define(d, "alpha", "POSTGRESQL", "acme"), define(d, "crm", "MONGODB", "acme", "globex"),
		define(d, "other", "POSTGRESQL", "globex")))
	for _, name := range []string{"first", "second", "third"} {
		s.create(t, "acme", describe(t, testkit.Database{Host: "db.example.com", Port: 1, Name: "d", Owner: "u", Password: "p"}, name, nil))
	}
	for _, tc := range []struct {
		tenant, query string
		headers       []string
		want          string // names and total
	}{
		{"acme", "sortOrder=asc", nil, "alpha crm zeta first second third 6"},
		{"acme", "sortOrder=desc", nil, "alpha crm zeta third second first 6"},
		{"acme", "sortOrder=asc&limit=2", nil, "alpha crm zeta first second 6"},
		{"acme", "sortOrder=asc&limit=2&page=2", nil, "third 6"},
		{"acme", "page=9", nil, " 6"},
		{"acme", "sortOrder=asc", []string{"X-Product-Name", "ledger"}, "alpha crm zeta first second third 6"},
		{"acme", "", []string{"X-Product-Name", "other"}, "alpha crm zeta 3"},
		{"acme", "page=2", []string{"X-Product-Name", "other"}, " 3"},
		{"acme", "type=mongodb", nil, "crm 1"},
		{"acme", "type=mongodb", []string{"X-Product-Name", "ledger"}, "crm 1"},
		{"acme", "type=MYSQL", nil, " 0"},
		{"acme", "startDate=1999-01-01", nil, "alpha crm zeta 3"},
		{"acme", "metadata.team=core", nil, "alpha crm zeta 3"},
		{"globex", "", nil, "crm other zeta 3"},
	} {
		got := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"?"+tc.query, s.token(tc.tenant), "", tc.headers...)
		var page struct {
			Items []struct{ ConfigName string }
			Total int
		}
		got.decode(t, &page)
		names := make([]string, 0, len(page.Items))
		for _, item := range page.Items {
			names = append(names, item.ConfigName)
		}
		if diff := cmp.Diff(tc.want, fmt.Sprintf("%s %d", strings.Join(names, " "), page.Total)); diff != "" {
			t.Errorf("%s ?%s %v: %s", tc.tenant, tc.query, tc.headers, diff)
		}
		if strings.Contains(got.body, "canary-secret") {
			t.Errorf("the password shows in %s", got.body)
		}
	}
	unassigned := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"/unassigned", s.token("acme"), "")
	if !strings.Contains(unassigned.body, `"items":[]`) {
		t.Errorf("unassigned: %s", unassigned.body)
	}
}

func TestInternalDatasourceOperations(t *testing.T) {
	t.Parallel()
	d := external(t)
	s := newService(t, withInternals(t, define(d, "platform", "POSTGRESQL", "acme"), define(d, "hidden", "POSTGRESQL", "nobody")))
	var page struct{ Items []map[string]any }
	s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath, s.token("acme"), "").decode(t, &page)
	if len(page.Items) != 1 {
		t.Fatalf("items %v", page.Items)
	}
	id, _ := page.Items[0]["id"].(string)
	if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 5 {
		t.Errorf("id %q", id)
	}
	path := connectionsPath + "/" + id
	read := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"/"+strings.ToUpper(id), s.token("acme"), "")
	var members map[string]any
	read.decode(t, &members)
	if diff := cmp.Diff(page.Items[0], members); diff != "" {
		t.Error("read differs from listed:", diff)
	}
	want := []string{"configName", "databaseName", "host", "id", "port", "type", "userName"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(members))); diff != "" {
		t.Error(diff)
	}
	if tag := read.header.Get("ETag"); len(tag) < 3 {
		t.Errorf("ETag %q", tag)
	}
	s.expect(t, http.StatusOK, "", http.MethodPost, path+"/test", s.token("acme"), "")
	schema := s.expect(t, http.StatusOK, "", http.MethodGet, path+"/schema", s.token("acme"), "")
	if !strings.HasPrefix(schema.body, `{"id":"`+id+`","configName":"platform"`) || !strings.Contains(schema.body, `{"name":"sales.region","fields":["code"]}`) {
		t.Errorf("schema %s", schema.body)
	}
	// Not to be changed, and not there at all for others.
	unknown := uuid.NewString()
	for _, tc := range []struct{ tenant, method, path, body string }{
		{"acme", http.MethodPatch, "", `{"port": 1}`}, {"acme", http.MethodDelete, "", ""}, {"acme", http.MethodPost, "/assign", ""},
		{"globex", http.MethodGet, "", ""}, {"globex", http.MethodPost, "/test", ""}, {"globex", http.MethodGet, "/schema", ""},
		{"globex", http.MethodPatch, "", `{"port": 1}`}, {"globex", http.MethodDelete, "", ""},
	} {
		headers := []string{"X-Request-Id", "same", "X-Product-Name", "ledger"}
		got := s.expect(t, http.StatusNotFound, "FET-1001", tc.method, path+tc.path, s.token(tc.tenant), tc.body, headers...)
		other := s.expect(t, http.StatusNotFound, "FET-1001", tc.method, connectionsPath+"/"+unknown+tc.path, s.token(tc.tenant), tc.body, headers...)
		if diff := cmp.Diff(strings.ReplaceAll(other.body, unknown, id), got.body); diff != "" {
			t.Errorf("%s %s for %s: %s", tc.method, tc.path, tc.tenant, diff)
		}
	}
	for _, name := range []string{"platform", "hidden"} {
		body := describe(t, testkit.Database{Host: "db.example.com", Port: 1, Name: "d", Owner: "u", Password: "p"}, name, nil)
		got := s.expect(t, http.StatusConflict, "FET-1002", http.MethodPost, connectionsPath, s.token("globex"), body, "X-Product-Name", "ledger")
		if p := got.problem(t); len(p.Errors) != 1 || p.Errors[0].Location != "body.configName" {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}
