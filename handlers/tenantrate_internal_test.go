package handlers

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenant"
)

// registry answers Info; the limiter asks for nothing else.
type registry struct {
	Tenants

	rate float64
	err  error
}

func (r *registry) Info(_ context.Context, tenantID string) (tenant.Info, error) {
	return tenant.Info{ID: tenantID, RateLimit: r.rate}, r.err
}

func newTestLimiter(t *testing.T, r *registry, usual float64, now *time.Time) *tenantLimiter {
	t.Helper()
	l, err := newTenantLimiter(r, usual, func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A limit that changes in the registry holds for the bucket there is.
func TestTenantLimitFollowsTheRegistry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	reg := &registry{rate: 2}
	l := newTestLimiter(t, reg, 7, &now)
	served := func() int {
		for n := 0; ; n++ {
			if err := l.spend(t.Context(), "acme"); err != nil || n == 100 {
				return n
			}
		}
	}
	for _, step := range []struct {
		rate float64
		want int
	}{{2, 2}, {5, 5}, {1, 1}, {0, 7}} { // 0: the usual limit
		reg.rate = step.rate
		now = now.Add(time.Hour)
		_ = l.spend(t.Context(), "acme") // notices the new limit
		now = now.Add(time.Hour)
		if got := served(); got != step.want {
			t.Errorf("rate %v: %d served, want %d", step.rate, got, step.want)
		}
	}
	l.usual = 0
	if got := served(); got != 100 {
		t.Errorf("without a limit %d served", got)
	}
}

func TestTenantLimitMemoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	reg := &registry{rate: 1}
	l := newTestLimiter(t, reg, 0, &now)
	for i := range 2 * ratedTenants {
		if err := l.spend(t.Context(), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.buckets.Len(); n != ratedTenants {
		t.Errorf("%d buckets", n)
	}
	before := l.buckets.Keys()[0]
	reg.err = problem.New(problem.TenantUnknown, "")
	for i := range ratedTenants {
		if err := l.spend(t.Context(), "made-up-"+strconv.Itoa(i)); problem.CodeOf(err) != problem.TenantUnknown {
			t.Fatal(err)
		}
	}
	if !l.buckets.Contains(before) {
		t.Error("unknown tenants pushed out the bucket of a known one")
	}
}
