package tenant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

// record is what is known of a tenant, with the health of its database. It is never changed; a newer one replaces it.
type record struct {
	control.Tenant

	health *health
}

// servable returns nil when the tenant may be served.
func (r *record) servable() error {
	switch r.Status {
	case control.TenantActive:
		return nil
	case control.TenantSuspended:
		return problem.New(problem.TenantSuspended, "the tenant is suspended")
	default:
		return problem.Wrap(ErrDeleted, problem.TenantUnknown, unknown().Detail)
	}
}

// ErrDeleted is the cause of FET-1081 for a tenant that is marked deleted, whom Resume brings back. Nobody outside may be
// told.
var ErrDeleted = errors.New("tenant: it is marked deleted")

// reachable returns nil when the tenant has a database, although requests may be refused.
func (r *record) reachable() error {
	if err := r.servable(); r.Status != control.TenantSuspended {
		return err
	}
	return nil
}

func unknown() *problem.Error { return problem.New(problem.TenantUnknown, "the tenant is unknown") }

// resolver remembers records of the registry, and for a while which ids it does not have. A cached record is served
// without I/O however old it is; keeping it fresh is the watcher's task.
type resolver struct {
	registry  registry
	now       func() time.Time
	newHealth func() *health
	loads     singleflight.Group

	doubt func() // called when a record may be out of date already

	mu      sync.Mutex
	heard   int64 // counts notifications
	records *simplelru.LRU[string, *record]
	unknown *simplelru.LRU[unknownKey, time.Time] // until when
}

// unknownKey is a digest of the id, so that long ids cost no more than short ones.
type unknownKey [16]byte

func newResolver(reg registry, o Options, doubt func()) (*resolver, error) {
	records, err := simplelru.NewLRU[string, *record](o.MaxRecords, nil)
	if err != nil {
		return nil, fmt.Errorf("tenant records: %w", err)
	}
	unknowns, err := simplelru.NewLRU[unknownKey, time.Time](o.MaxUnknown, nil)
	if err != nil {
		return nil, fmt.Errorf("unknown tenants: %w", err)
	}
	return &resolver{
		registry: reg, now: o.Now, doubt: doubt, records: records, unknown: unknowns,
		newHealth: func() *health {
			return &health{failures: o.BreakerFailures, timeout: o.BreakerTimeout, now: o.Now}
		},
	}, nil
}

// get returns the record, from the cache if it is there. Errors are FET-1081, FET-1082 when the registry can't be
// asked, or ctx's own. Concurrent misses of one id share one question, which outlives a caller that leaves.
func (r *resolver) get(ctx context.Context, id string) (*record, error) {
	if rec, known := r.cached(id); known {
		if rec == nil {
			return nil, unknown()
		}
		return rec, nil
	}
	return r.load(ctx, id)
}

// cached returns the record; known without a record means that the id is known to be unknown.
func (r *resolver) cached(id string) (rec *record, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec, ok := r.records.Get(id); ok {
		return rec, true
	}
	key := digest(id)
	if until, ok := r.unknown.Get(key); ok {
		if r.now().Before(until) {
			return nil, true
		}
		r.unknown.Remove(key)
	}
	return nil, false
}

func digest(id string) unknownKey {
	sum := sha256.Sum256([]byte(id))
	return unknownKey(sum[:16])
}

// load asks the registry and remembers the answer.
func (r *resolver) load(ctx context.Context, id string) (*record, error) {
	outcome := r.loads.DoChan(id, func() (any, error) {
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), registryTimeout)
		defer cancel()
		return r.ask(ask, id)
	})
	select {
	case got := <-outcome:
		if got.Err != nil {
			return nil, got.Err
		}
		rec, _ := got.Val.(*record)
		return rec, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask reads the record from the registry. A change that is announced meanwhile may have been missed by the answer, and
// whoever announces it does not know of the record yet: then it asks again, and leaves the rest to a refresh.
func (r *resolver) ask(ctx context.Context, id string) (*record, error) {
	const most = 3
	for n := 1; ; n++ {
		before := r.announcements()
		t, err := r.registry.get(ctx, id)
		switch {
		case errors.Is(err, control.ErrNoTenant):
			switch {
			case r.remove(id, before):
				return nil, unknown()
			case n == most:
				r.doubt()
				return nil, unknown()
			}
			continue
		case err != nil:
			return nil, unavailable(store.Cause("look up tenant", err), time.Second)
		}
		rec := r.put(t)
		switch {
		case r.announcements() == before:
			return rec, nil
		case n == most:
			r.doubt()
			return rec, nil
		}
	}
}

func (r *resolver) announcements() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard
}

// announce notes that the tenant changed, or with "" that any may have, and reports whether its record is cached.
func (r *resolver) announce(id string) (cached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard++
	if id == "" {
		r.unknown.Purge()
		return true
	}
	r.unknown.Remove(digest(id))
	return r.records.Contains(id)
}

// put remembers t unless something newer is remembered already, and returns what is.
// A change of the record may be the cure, so the health of the database starts anew with it.
func (r *resolver) put(t control.Tenant) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.records.Peek(t.ID); ok && old.Revision >= t.Revision {
		return old
	}
	rec := &record{Tenant: t, health: r.newHealth()}
	r.records.Add(t.ID, rec)
	r.unknown.Remove(digest(t.ID))
	return rec
}

// remove remembers that there is no such tenant, which the registry said after that many announcements. False: there
// was another one since, perhaps of the tenant's creation; nothing is remembered.
func (r *resolver) remove(id string, announced int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard != announced {
		return false
	}
	r.records.Remove(id)
	r.unknown.Add(digest(id), r.now().Add(unknownTTL))
	return true
}

// current reports whether rec's revision is the one remembered, and has a database.
func (r *resolver) current(id string, revision int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.records.Peek(id)
	return ok && rec.Revision == revision && rec.reachable() == nil
}

// revisions returns the revision of every record remembered.
func (r *resolver) revisions() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := make(map[string]int64, r.records.Len())
	for _, rec := range r.records.Values() {
		known[rec.ID] = rec.Revision
	}
	return known
}
