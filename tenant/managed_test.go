package tenant

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

// managerServer is a tenant manager with whatever tenants it is given.
type managerServer struct {
	*httptest.Server

	mu      sync.Mutex
	tenants map[string]map[string]any // by id; a nil one is suspended
	broken  int                       // status of every answer; 0: as it should be
	asked   map[string]int            // by path
	keys    map[string]bool           // that were sent
}

func newManagerServer(t *testing.T) *managerServer {
	t.Helper()
	m := &managerServer{tenants: map[string]map[string]any{}, asked: map[string]int{}, keys: map[string]bool{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *managerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[r.URL.RequestURI()]++
	m.keys[r.Header.Get("X-API-Key")] = true //nolint:canonicalheader // as the contract spells it
	if m.broken != 0 {
		http.Error(w, "secret-of-the-manager", m.broken)
		return
	}
	if r.URL.Path == "/base/v1/tenants/active" && r.URL.RawQuery == "service=fetcher" {
		rows := []map[string]string{}
		for _, id := range slices.Sorted(maps.Keys(m.tenants)) {
			if m.tenants[id] != nil {
				rows = append(rows, map[string]string{"id": id, "name": "N " + id})
			}
		}
		respond(w, rows)
		return
	}
	id, ok := strings.CutPrefix(r.URL.Path, "/base/v1/tenants/")
	id, found := strings.CutSuffix(id, "/associations/fetcher/connections")
	settings, known := m.tenants[id]
	switch {
	case !ok || !found || !known:
		http.NotFound(w, r)
	case settings == nil:
		w.WriteHeader(http.StatusForbidden)
	default:
		respond(w, settings)
	}
}

func respond(w http.ResponseWriter, body any) {
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err) // fails the request, and with it the test
	}
}

func (m *managerServer) set(id string, settings map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tenants[id] = settings
}

func (m *managerServer) breakWith(status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = status
}

func (m *managerServer) count(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[path]
}

func (m *managerServer) manager() *Manager { return &Manager{URL: m.URL + "/base/", APIKey: "k3y"} }

// managed is a tenant's settings as the manager tells them.
func managed(t *testing.T, id, dsn string) map[string]any {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return map[string]any{
		"id": id, "tenantName": "N " + id, "status": "active",
		"databases": map[string]any{"fetcher": map[string]any{"postgresql": map[string]any{
			"host": u.Hostname(), "port": port, "database": strings.TrimPrefix(u.Path, "/"),
			"username": u.User.Username(), "password": password, "sslmode": u.Query().Get("sslmode"),
		}}},
	}
}

// managedDatabase is a migrated database that is recognised by name.
func managedDatabase(t *testing.T, id, name string) string {
	t.Helper()
	dsn := testkit.Postgres(t).NewDatabase(t)
	if err := Migrate(t.Context(), id, dsn); err != nil {
		t.Fatal(err)
	}
	mark(t, dsn, name)
	return dsn
}

func managedRouter(t *testing.T, m *managerServer, o Options) *Router {
	t.Helper()
	o.Manager, o.Keys = m.manager(), newKeys(t)
	return newRouter(t, o)
}

func TestTenantsOfAManager(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	m.set("a", managed(t, "a", managedDatabase(t, "a", "a")))
	m.set("idle", nil)
	m.set("empty", map[string]any{"id": "empty", "databases": map[string]any{}})
	shared := managed(t, "shared", managedDatabase(t, "shared", "shared"))
	shared["databases"].(map[string]any)["fetcher"].(map[string]any)["postgresql"].(map[string]any)["schema"] = "tenant_7"
	m.set("shared", shared)
	r := managedRouter(t, m, Options{})
	mustUse(t, r, "a")
	for id, want := range map[string]problem.Code{
		"idle": problem.TenantSuspended, "nobody": problem.TenantUnknown,
		"empty": problem.TenantUnavailable, "shared": problem.TenantUnavailable,
	} {
		_, err := r.Acquire(t.Context(), id)
		refused(t, err, want)
	}
	info, err := r.Info(t.Context(), "a")
	if err != nil || info.Name != "N a" {
		t.Errorf("info %+v, %v", info, err)
	}
	ids, err := r.Tenants(t.Context())
	if diff := cmp.Diff([]string{"a", "empty", "shared"}, ids); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if diff := cmp.Diff(map[string]bool{"k3y": true}, m.keys); diff != "" {
		t.Errorf("keys sent (-want +got):\n%s", diff)
	}
}

func TestManagersChangesAreNoticed(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	settings := managed(t, "a", managedDatabase(t, "a", "a"))
	m.set("a", settings)
	r := managedRouter(t, m, Options{CacheTTL: time.Second})
	held := mustAcquire(t, r, "a")
	defer held.Release()
	m.set("a", nil)
	eventually(t, 15*time.Second, "the suspension is noticed", func() bool {
		_, err := use(t.Context(), r, "a")
		return problem.CodeOf(err) == problem.TenantSuspended
	})
	if got, err := name(t.Context(), held); err != nil || got != "a" {
		t.Errorf("the lease from before: %q, %v", got, err)
	}
	m.set("a", managed(t, "a", managedDatabase(t, "a", "moved")))
	eventually(t, 15*time.Second, "the new address is used", func() bool {
		got, err := use(t.Context(), r, "a")
		return err == nil && got == "moved"
	})
	m.set("b", managed(t, "b", managedDatabase(t, "b", "b")))
	mustUse(t, r, "b")
}

func TestManagerDown(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	m.set("a", managed(t, "a", managedDatabase(t, "a", "a")))
	m.set("b", managed(t, "b", managedDatabase(t, "b", "b")))
	r := managedRouter(t, m, Options{})
	mustUse(t, r, "a")
	m.breakWith(http.StatusBadGateway)
	for range 2 * managerFailures {
		mustUse(t, r, "a")
		_, err := r.Acquire(t.Context(), "b")
		refused(t, err, problem.TenantUnavailable)
		if strings.Contains(err.Error(), "secret-of-the-manager") {
			t.Fatalf("the manager's words show: %v", err)
		}
	}
	if asked := m.count("/base/v1/tenants/b/associations/fetcher/connections"); asked > managerFailures {
		t.Errorf("a manager that fails was asked %d times, want %d at most", asked, managerFailures)
	}
}

func TestManagerRevisions(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	keys := newKeys(t)
	now := time.Unix(1_800_000_000, 0)
	reg, err := newManagedRegistry(*m.manager(), keys, Options{MaxRecords: 10, CacheTTL: 2 * time.Minute, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	at := func(dsn string) map[string]any { return managed(t, "a", dsn) }
	m.set("a", at("postgres://u:p%2F%40@[::1]:5433/d?sslmode=require"))
	first, err := reg.get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := reg.dsn(first)
	if want := "postgres://u:p%2F%40@[::1]:5433/d?sslmode=require"; dsn != want || err != nil {
		t.Errorf("address %q, %v; want %q", dsn, err, want)
	}
	again, err := reg.get(t.Context(), "a")
	if err != nil || again.Revision != first.Revision {
		t.Errorf("the same answer is revision %d after %d, %v", again.Revision, first.Revision, err)
	}
	known := map[string]int64{"a": first.Revision}
	changed, gone, err := reg.changed(t.Context(), known)
	if len(changed)+len(gone) != 0 || err != nil {
		t.Errorf("asked a moment ago: %v, %v, %v", changed, gone, err)
	}
	m.set("a", at("postgres://u:other@[::1]:5433/d?sslmode=require"))
	now = now.Add(time.Minute)
	changed, gone, err = reg.changed(t.Context(), known)
	if len(changed) != 1 || changed[0].Revision <= first.Revision || len(gone) != 0 || err != nil {
		t.Errorf("after a change: %v, %v, %v", changed, gone, err)
	}
	m.mu.Lock()
	delete(m.tenants, "a")
	m.mu.Unlock()
	now = now.Add(time.Minute)
	if changed, gone, err = reg.changed(t.Context(), known); len(changed) != 0 || !slices.Equal(gone, []string{"a"}) || err != nil {
		t.Errorf("after a removal: %v, %v, %v", changed, gone, err)
	}
}

func TestManagedStatus(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]control.TenantStatus{
		"": control.TenantActive, "Active": control.TenantActive, "suspended": control.TenantSuspended,
		"deleted": control.TenantDeleted, "provisioning": control.TenantSuspended,
	} {
		if got := managedStatus(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}
