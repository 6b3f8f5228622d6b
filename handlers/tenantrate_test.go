package handlers_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/testkit"
)

// hands is a clock that stands still until it is set forward.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) forward(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// limited makes requests of the tenant until one is refused, and returns how many were served and the refusal.
func (s *service) limited(t *testing.T, tenantID string, most int) (served int, refusal answer) {
	t.Helper()
	token := s.token(tenantID)
	for ; served <= most; served++ {
		got := s.do(t, http.MethodGet, connectionsPath, token, "")
		if got.status != http.StatusOK {
			return served, got
		}
	}
	t.Fatalf("%s: %d requests and no limit", tenantID, served)
	return 0, answer{}
}

func TestTenantRate(t *testing.T) {
	t.Parallel()
	clock := &hands{now: time.Now()}
	s := newService(t, func(o *handlers.Options) { o.TenantRate, o.Clock = 3, clock.Now })
	// globex has a limit of its own: one request in four seconds.
	sealed, err := s.control.Pool().Exec(t.Context(), `UPDATE tenants SET rate_limit = 0.25, revision = revision + 1 WHERE id = 'globex'`)
	must(t, err)
	if sealed.RowsAffected() != 1 {
		t.Fatal("no globex")
	}
	for tenantID, want := range map[string]struct {
		served int
		after  string
	}{"acme": {3, "1"}, "globex": {1, "4"}} {
		served, refusal := s.limited(t, tenantID, want.served)
		if served != want.served || refusal.status != http.StatusTooManyRequests {
			t.Errorf("%s: %d served, then %d %s", tenantID, served, refusal.status, refusal.body)
		}
		if p := refusal.problem(t); p.Code != "FET-0008" || refusal.header.Get("Retry-After") != want.after {
			t.Errorf("%s: %s, Retry-After %q", tenantID, p.Code, refusal.header.Get("Retry-After"))
		}
	}
	// A refused request costs nothing: the bucket fills as if it had not been made.
	for range 5 {
		s.expect(t, http.StatusTooManyRequests, "FET-0008", http.MethodGet, connectionsPath, s.token("acme"), "")
	}
	clock.forward(334 * time.Millisecond)
	if served, _ := s.limited(t, "acme", 1); served != 1 {
		t.Errorf("%d served after a third of a second", served)
	}
	clock.forward(time.Hour)
	if served, _ := s.limited(t, "acme", 3); served != 3 {
		t.Errorf("%d served after an hour", served)
	}
}

// What comes before the limit is not held back by it, and what has no tenant has no bucket.
func TestTenantRateComesAfterAuthorization(t *testing.T) {
	t.Parallel()
	clock := &hands{now: time.Now()}
	s := newService(t, func(o *handlers.Options) { o.TenantRate, o.Clock = 1, clock.Now })
	denied := s.issuer.Token(testkit.Token{Tenant: "acme", Owner: "acme", Subject: "denied"})
	s.issuer.Decide(func(c testkit.AuthorizeCall) bool { return c.Subject != "acme/denied" })
	if served, _ := s.limited(t, "acme", 1); served != 1 {
		t.Fatalf("%d served", served)
	}
	_, err := s.control.SetTenantStatus(t.Context(), "globex", control.TenantSuspended)
	must(t, err)
	for range 3 {
		s.expect(t, http.StatusUnauthorized, "FET-0006", http.MethodGet, connectionsPath, "", "")
		s.expect(t, http.StatusForbidden, "FET-0007", http.MethodGet, connectionsPath, denied, "")
		s.expect(t, http.StatusTooManyRequests, "FET-0008", http.MethodGet, connectionsPath, s.token("acme"), "")
		s.expect(t, http.StatusForbidden, "FET-1083", http.MethodGet, connectionsPath, s.token("globex"), "")
		s.expect(t, http.StatusNotFound, "FET-1081", http.MethodGet, connectionsPath, s.token("nobody"), "")
		s.expect(t, http.StatusOK, "", http.MethodGet, "/health", "", "")
	}
}
