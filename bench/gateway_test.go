package bench

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// site is a control database, an identity service and the environment of managers on them.
type site struct {
	issuer *testkit.IdentityService
	admin  tenant.Admin
	env    []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	key := bytes.Repeat([]byte{7}, 32)
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: key})
	check(t, err)
	dsn := testkit.Postgres(t).NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	check(t, err)
	t.Cleanup(pool.Close)
	check(t, control.Migrate(t.Context(), pool))
	issuer := testkit.Issuer(t)
	return &site{issuer, tenant.Admin{Control: control.New(pool), Keys: keys}, []string{
		"DATABASE_URL=" + dsn, "RESULTS_URL=file://" + t.TempDir(), "APP_ENC_KEY=" + base64.StdEncoding.EncodeToString(key),
		"MULTI_TENANT_ENABLED=true", "PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=" + issuer.URL(), "PLUGIN_AUTH_CACHE_TTL=10m",
	}}
}

// tenant creates one, whose database there is already, and returns a token of it.
func (s *site) tenant(t *testing.T, id, dsn string) (token string) {
	t.Helper()
	_, err := s.admin.Create(t.Context(), tenant.NewTenant{ID: id, DSN: dsn})
	check(t, err)
	return s.issuer.Token(testkit.Token{Tenant: id})
}

// connection registers one by the API and returns the path to read it by.
func connection(t *testing.T, address, token string) (path string) {
	t.Helper()
	const all = "/v1/management/connections"
	made := blackbox.Client{Base: "http://" + address, Token: token}.Expect(t, http.StatusCreated, http.MethodPost, all, map[string]any{
		"configName": "ledger", "type": "POSTGRESQL", "host": "ledger.example", "port": 5432, "databaseName": "ledger",
		"userName": "reader", "password": "secret", "ssl": map[string]string{"mode": "require"},
	}, "X-Product-Name", "ledger")
	var c struct{ ID string }
	made.Decode(t, &c)
	return all + "/" + c.ID
}

// gatewaySuite reads one connection through the gateway, and by a bare handler that asks the same of the same database.
func gatewaySuite(t *testing.T, s *section) {
	site := newSite(t)
	dsn := testkit.Postgres(t).NewDatabase(t)
	token := site.tenant(t, "acme", dsn)
	address, manager := s.world.manager(t, site.env)
	path := connection(t, address, token)
	reference := bare(t, dsn)
	ours, theirs := get(address, path, token), get(reference, path, token)
	asked := site.issuer.AuthorizeRequests()
	for _, clients := range []int{1, 16, 128} {
		one := func(address string, request []byte) func(*testing.T) []float64 {
			l := load{address, clients, s.world.period(), func(int) []byte { return request }}
			warm := l
			warm.period /= 4
			warm.run(t)
			return func(t *testing.T) []float64 {
				perSecond, _, p99 := l.run(t)
				return []float64{perSecond, p99}
			}
		}
		s.measure(t, measurement{
			name: fmt.Sprintf("GET of one connection, clients: %d", clients), against: "Gin and pgx", rounds: 5,
			figures: []figure{{"rate", "requests/s", ratioAtLeast(0.8)}, {"p99", "ms", ratioAtMost(1.5)}},
			product: one(address, ours), reference: one(reference, theirs),
		})
	}
	if n := site.issuer.AuthorizeRequests() - asked; n > 2 {
		t.Errorf("the identity service was asked %d times, so that decisions were not remembered", n)
	}
	s.notef("Memory of the manager after this: %.0f MiB.", float64(resident(t, manager.PID()))/(1<<20))
}

// rotationSuite has clients of many tenants in rotation, over a manager that holds all of their pools and one that holds a
// tenth.
func rotationSuite(t *testing.T, s *section) {
	n := s.world.size(1000, 20)
	site := newSite(t)
	server := manyConnections(t, n+100)
	databases := newClones(t, server)
	tokens := make([]string, n)
	for i := range tokens {
		id := fmt.Sprintf("tenant%d", i)
		tokens[i] = site.tenant(t, id, databases.database(t, id))
	}
	wide, _ := s.world.manager(t, append(site.env, fmt.Sprintf("MULTI_TENANT_MAX_TENANT_POOLS=%d", n), fmt.Sprintf("MAX_DB_CONNS_PER_HOST=%d", n+50), "MULTI_TENANT_IDLE_TIMEOUT_SEC=3600"))
	requests := make([][]byte, n)
	for i, token := range tokens {
		requests[i] = get(wide, connection(t, wide, token), token)
	}
	rotate := func(n int) load {
		return load{wide, 16, s.world.period(), func(i int) []byte { return requests[i%n] }}
	}
	rotate(n).run(t)
	measured := func(l load) func(*testing.T) []float64 {
		return func(t *testing.T) []float64 {
			perSecond, p50, p99 := l.run(t)
			return []float64{perSecond, p50, p99}
		}
	}
	figures := []figure{{"rate", "requests/s", ratioAtLeast(0.9)}, {"p50", "ms", bound{}}, {"p99", "ms", bound{}}}
	s.measure(t, measurement{name: fmt.Sprintf("%d tenants in rotation, all pools open", n), against: "one tenant", figures: figures, product: measured(rotate(n)), reference: measured(rotate(1))})

	narrow, _ := s.world.manager(t, append(site.env, fmt.Sprintf("MULTI_TENANT_MAX_TENANT_POOLS=%d", max(1, n/10)), fmt.Sprintf("MAX_DB_CONNS_PER_HOST=%d", n/4+20)))
	l := rotate(n)
	l.address, l.clients = narrow, 4
	figures[0].goal = bound{}
	s.measure(t, measurement{name: fmt.Sprintf("%d tenants in rotation, pools for a tenth", n), figures: figures, product: measured(l)})
}

// clones gives databases like one that is migrated, which is quicker than migrating each.
type clones struct {
	server   *pgxpool.Pool
	template string
}

func newClones(t *testing.T, server *pgxpool.Pool) clones {
	t.Helper()
	c := clones{server, "template_tenant"}
	_, err := server.Exec(t.Context(), "CREATE DATABASE "+c.template)
	check(t, err)
	cfg, err := pgx.ParseConfig(c.dsn(t, c.template))
	check(t, err)
	db := stdlib.OpenDB(*cfg)
	check(t, store.Migrate(t.Context(), db))
	check(t, db.Close())
	return c
}

func (c clones) database(t *testing.T, name string) (dsn string) {
	t.Helper()
	_, err := c.server.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+c.template)
	check(t, err)
	return c.dsn(t, name)
}

func (c clones) dsn(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(c.server.Config().ConnString())
	check(t, err)
	u.Path = "/" + database
	return u.String()
}
