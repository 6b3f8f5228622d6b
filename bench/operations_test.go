package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// costs are time and allocations of an operation, by the mean over n of them, after one more, the n-th from 0.
func costs(n int, do func(i int)) []float64 {
	do(n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	took := perOperation(n, do)
	runtime.ReadMemStats(&after)
	return []float64{max(1, float64(took.Nanoseconds())), max(0.001, float64(after.Mallocs-before.Mallocs)/float64(n))}
}

func costFigures(time, allocations bound) []figure {
	return []figure{{"time", "ns", time}, {"allocations", "per operation", allocations}}
}

// operationsSuite measures the steps before an operation in this process: the token's check, remembered or not, and the
// whole of the handler, without a network and without the query.
func operationsSuite(t *testing.T, s *section) {
	n := s.world.size(200_000, 200)
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		issuer := testkit.Issuer(t)
		issuer.Rotate(alg)
		gate := newGate(t, issuer)
		header := []string{"Bearer " + issuer.Token(testkit.Token{})}
		authenticate(t, gate, header)
		s.measure(t, measurement{name: "token, remembered, " + alg, figures: costFigures(bound{}, bound{}), product: func(t *testing.T) []float64 {
			return costs(n, func(int) { authenticate(t, gate, header) })
		}})
		fresh := max(10, n/200)
		s.measure(t, measurement{name: "token, new, " + alg, figures: costFigures(bound{}, bound{}), product: func(t *testing.T) []float64 {
			headers := make([][]string, fresh+1)
			for i := range headers {
				headers[i] = []string{"Bearer " + issuer.Token(testkit.Token{Claims: map[string]any{"jti": uuid.NewString()}})}
			}
			return costs(fresh, func(i int) { authenticate(t, gate, headers[i]) })
		}})
	}
	gatePath(t, s, n)
}

func newGate(t *testing.T, issuer *testkit.IdentityService) *auth.Authenticator {
	t.Helper()
	gate, err := auth.New(t.Context(), auth.Options{Address: issuer.URL(), CacheTTL: time.Hour})
	check(t, err)
	t.Cleanup(gate.Close)
	return gate
}

func authenticate(t testing.TB, gate auth.Gate, header []string) *auth.Principal {
	p, err := gate.Authenticate(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oneConnection answers the operation without asking a database.
type oneConnection struct {
	handlers.Connections

	c *store.Connection
}

func (o oneConnection) Get(context.Context, store.Connections, string, uuid.UUID) (*store.Connection, error) {
	return o.c, nil
}

// nothing takes the answer and keeps the status.
type nothing struct {
	header http.Header
	status int
}

func (w *nothing) Header() http.Header         { return w.header }
func (w *nothing) Write(p []byte) (int, error) { return len(p), nil }
func (w *nothing) WriteHeader(status int)      { w.status = status }

// gatePath measures token, permission and lease alone, and the whole handler beside one of Gin that only answers.
func gatePath(t *testing.T, s *section, n int) {
	f, issuer := newFleet(t, 1), testkit.Issuer(t)
	gate, router := newGate(t, issuer), f.router(t, tenant.Options{})
	token := issuer.Token(testkit.Token{Tenant: f.real[0]})
	header := []string{"Bearer " + token}
	s.measure(t, measurement{name: "token, permission and lease, remembered", figures: costFigures(bound{}, bound{}), product: func(t *testing.T) []float64 {
		return costs(n, func(int) {
			p := authenticate(t, gate, header)
			if err := gate.Authorize(t.Context(), p, "connections", "get"); err != nil {
				t.Fatal(err)
			}
			lease(t, router, p.TenantID)
		})
	}})

	gin.SetMode(gin.ReleaseMode)
	health, err := handlers.NewHealth(handlers.HealthOptions{})
	check(t, err)
	id, now := uuid.Must(uuid.NewV7()), time.Now()
	c := &store.Connection{ID: id, ConfigName: "ledger", Kind: "POSTGRESQL", Host: "ledger.example", Port: 5432, DatabaseName: "ledger", UserName: "reader", CreatedAt: now, UpdatedAt: now}
	whole, err := handlers.New(handlers.Options{
		Auth: gate, Tenants: router, Connections: oneConnection{c: c}, Jobs: noJobs{}, Results: noResults{}, Idempotency: noKeys{}, Health: health,
	})
	check(t, err)
	plain := gin.New()
	plain.GET("/v1/management/connections/:id", func(g *gin.Context) {
		g.JSON(http.StatusOK, bareConnection{ID: id, ConfigName: c.ConfigName, Type: c.Kind, Host: c.Host, Port: c.Port, DatabaseName: c.DatabaseName, UserName: c.UserName, CreatedAt: now, UpdatedAt: now})
	})
	ask := func(h http.Handler) func(t *testing.T) []float64 {
		return func(t *testing.T) []float64 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/management/connections/"+id.String(), nil)
			r.Header.Set("Authorization", header[0])
			return costs(n/4, func(int) {
				w := &nothing{header: http.Header{}, status: http.StatusOK}
				h.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					t.Fatalf("status %d", w.status)
				}
			})
		}
	}
	s.measure(t, measurement{
		name: "whole handler of a GET, no query", against: "Gin that only answers", figures: costFigures(atMost(10_000), atMost(20)), product: ask(whole), reference: ask(plain),
	})
}

// What the measured operation doesn't use.
type (
	noJobs    struct{ handlers.Jobs }
	noResults struct{ handlers.Results }
	noKeys    struct{ handlers.Idempotency }
)
