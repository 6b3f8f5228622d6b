package handlers

import (
	"cmp"
	"context"
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/fetcherhq/fetcher/problem"
)

// ratedTenants is how many tenants' buckets are kept; those seen longest ago start anew with a full one.
const ratedTenants = 4096

// tenantLimiter limits requests per tenant in this process, one bucket each that holds the requests of a second.
type tenantLimiter struct {
	tenants Tenants
	usual   float64 // of tenants without a limit of their own; 0: none
	now     func() time.Time
	buckets *lru.Cache[string, *rate.Limiter]
}

func newTenantLimiter(tenants Tenants, usual float64, now func() time.Time) (*tenantLimiter, error) {
	buckets, err := lru.New[string, *rate.Limiter](ratedTenants)
	if err != nil {
		return nil, err
	}
	return &tenantLimiter{tenants: tenants, usual: usual, now: now, buckets: buckets}, nil
}

// spend takes one request from the tenant's bucket; FET-0008 when there is none left. Other errors are those of a lease.
// A tenant that can't be served, or that the registry can't tell about, has no bucket: made-up ids must not push out
// those of others.
func (l *tenantLimiter) spend(ctx context.Context, tenantID string) error {
	info, err := l.tenants.Info(ctx, tenantID)
	if err != nil {
		return err // the lease would fail of the same, after asking again
	}
	if info.Suspended {
		return nil // which the lease says
	}
	limit := cmp.Or(info.RateLimit, l.usual)
	if limit <= 0 {
		return nil
	}
	now := l.now()
	taken := l.bucket(info.ID, limit, now).ReserveN(now, 1)
	if wait := taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return problem.New(problem.RateLimited, "the tenant makes too many requests").After(wait)
	}
	return nil
}

// bucket returns the tenant's, at the limit that holds now.
func (l *tenantLimiter) bucket(tenantID string, limit float64, now time.Time) *rate.Limiter {
	burst := max(1, int(math.Ceil(min(limit, math.MaxInt32))))
	bucket, ok := l.buckets.Get(tenantID)
	if !ok {
		fresh := rate.NewLimiter(rate.Limit(limit), burst)
		if earlier, known, _ := l.buckets.PeekOrAdd(tenantID, fresh); known {
			return earlier
		}
		return fresh
	}
	if bucket.Limit() != rate.Limit(limit) {
		bucket.SetLimitAt(now, rate.Limit(limit))
		bucket.SetBurstAt(now, burst)
	}
	return bucket
}
