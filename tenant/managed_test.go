package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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
	tenants map[string]map[string]any   // by id; a nil one is suspended
	broken  int                         // status of every answer; 0: as it should be
	odd     map[string]http.HandlerFunc // what answers in place of it, by path
	asked   map[string]int              // by path
	keys    map[string]bool             // that were sent
}

func newManagerServer(t *testing.T) *managerServer {
	t.Helper()
	m := &managerServer{
		tenants: map[string]map[string]any{}, asked: map[string]int{}, keys: map[string]bool{}, odd: map[string]http.HandlerFunc{},
	}
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
	if odd := m.odd[r.URL.Path]; odd != nil {
		odd(w, r)
		return
	}
	if r.URL.Path == activePath && r.URL.RawQuery == "service=fetcher" {
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

// activePath and settingsPath are what is asked for.
const activePath = "/base/v1/tenants/active"

func settingsPath(id string) string {
	return "/base/v1/tenants/" + id + "/associations/fetcher/connections"
}

// oddly makes the manager answer a path in its own way.
func (m *managerServer) oddly(path string, answer http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.odd[path] = answer
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
	ending, err := r.AcquireSuspended(t.Context(), "a")
	if err != nil {
		t.Fatalf("what was under way can't end: %v", err)
	}
	defer ending.Release()
	if got, err := name(t.Context(), ending); err != nil || got != "a" {
		t.Errorf("the suspended tenant's lease: %q, %v", got, err)
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
	if asked := m.count(settingsPath("b")); asked > managerFailures {
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

// What is wrong with the answer about one tenant is that tenant's trouble, and nobody else's.
func TestAnswersOfAManagerThatAreOfNoUse(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	m.set("a", managed(t, "a", managedDatabase(t, "a", "a")))
	followed := false
	m.oddly("/elsewhere", func(http.ResponseWriter, *http.Request) { followed = true })
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	others := managed(t, "other", "postgres://u:p@127.0.0.1:1/d?sslmode=disable")
	for id, answer := range map[string]http.HandlerFunc{
		"other-id": func(w http.ResponseWriter, _ *http.Request) { respond(w, others) },
		"id-form":  text(`{"id": "a b", "databases": {}}`),
		"garbage":  text(`<html>canary</html>`),
		"types":    text(`{"id": 7}`),
		"nothing":  text(``),
		"null":     text(`null`),
		"huge":     text(`{"tenantName": "` + strings.Repeat("x", managerAnswer) + `"}`),
		"port": text(`{"databases": {"fetcher": {"postgresql":
			{"host": "h", "port": 123456789, "database": "canary", "username": "u", "password": "canary"}}}}`),
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"badly":    status(http.StatusBadRequest),
		"denied":   status(http.StatusUnauthorized),
		"too-much": status(http.StatusTooManyRequests),
	} {
		m.oddly(settingsPath(id), answer)
	}
	r := managedRouter(t, m, Options{})
	for range 2 {
		for path := range m.odd {
			id, ok := strings.CutSuffix(strings.TrimPrefix(path, "/base/v1/tenants/"), "/associations/fetcher/connections")
			if !ok {
				continue
			}
			_, err := r.Acquire(t.Context(), id)
			refused(t, err, problem.TenantUnavailable)
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: the manager's words show: %v", id, err)
			}
		}
	}
	mustUse(t, r, "a") // the breaker is closed
	if followed {
		t.Error("a redirect was followed, with the key")
	}
}

func TestManagersListFailsAlone(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	m.set("a", managed(t, "a", "postgres://u:p@127.0.0.1:1/d?sslmode=disable"))
	m.oddly(activePath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	client := newManagerClient(*m.manager())
	for range 2 * managerFailures {
		if _, err := client.active(t.Context()); err == nil {
			t.Fatal("a list that fails was read")
		}
	}
	if asked := m.count(activePath + "?service=fetcher"); asked != managerFailures {
		t.Errorf("the list was asked for %d times, want %d", asked, managerFailures)
	}
	if _, err := client.tenant(t.Context(), "a"); err != nil {
		t.Errorf("a tenant is looked up: %v", err)
	}
}

// While nobody could read the list, tenants may have come and gone.
func TestManagersListIsComparedWithWhatWasSeen(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	const dsn = "postgres://u:p@127.0.0.1:1/d?sslmode=disable"
	for _, id := range []string{"stays", "goes"} {
		m.set(id, managed(t, id, dsn))
	}
	m.set("comes", nil)
	reg, err := newManagedRegistry(*m.manager(), newKeys(t), Options{MaxRecords: 10, CacheTTL: time.Hour, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"stays", "goes", "comes"} {
		if _, err := reg.get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	m.set("goes", nil)
	m.set("comes", managed(t, "comes", dsn))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []string
	if err := reg.listen(ctx, func(id string) {
		if told = append(told, id); len(told) == 3 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("listening ended with %v", err)
	}
	slices.Sort(told[1:])
	if diff := cmp.Diff([]string{"", "comes", "goes"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestManagedDirectory(t *testing.T) {
	t.Parallel()
	m := newManagerServer(t)
	const dsn = "postgres://u:p@127.0.0.1:1/d?sslmode=disable"
	m.set("b", managed(t, "b", dsn))
	m.set("a", map[string]any{"id": "a"})
	m.set("c", managed(t, "c", dsn))
	m.oddly(settingsPath("b"), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	tenants, err := NewManaged(*m.manager(), newKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	list, err := tenants.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, one := range list {
		address, err := tenants.DSN(one)
		if err != nil {
			address = err.Error()
		}
		got[one.ID] = address
	}
	want := map[string]string{"a": errManagerBroken.Error(), "b": errManagerBroken.Error(), "c": dsn}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, id := range []string{"nobody", "a b"} {
		if _, err := tenants.Get(t.Context(), id); !errors.Is(err, control.ErrNoTenant) {
			t.Errorf("get %q: %v", id, err)
		}
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
