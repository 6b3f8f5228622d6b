package tenant

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

const (
	minRelisten = 100 * time.Millisecond
	maxRelisten = time.Second
	tick        = 500 * time.Millisecond // how soon a failed refresh is tried again
)

// watch listens for changes of the registry, and listens again when it can't any more, until ctx ends.
func (r *Router) watch(ctx context.Context) {
	pause := minRelisten
	for ctx.Err() == nil {
		err := r.registry.listen(ctx, func(id string) {
			pause = minRelisten
			r.changed(ctx, id)
		})
		if ctx.Err() != nil {
			return
		}
		if pause == minRelisten { // the first time in a row
			r.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "not listening for tenant changes",
				slog.Any("error", store.Cause("listen", err)))
		}
		sleep(ctx, pause)
		pause = min(2*pause, maxRelisten)
	}
}

// changed acts on one notification; the empty id stands for any number of missed ones.
func (r *Router) changed(ctx context.Context, id string) {
	cached := r.resolver.announce(id)
	switch {
	case id == "":
		r.refreshAll(ctx)
	case cached:
		r.refresh(ctx, id)
	default:
		// Nobody here has asked for the tenant lately. A pool that outlived its record must not serve another.
		r.pools.unlink(id, 1<<62)
	}
}

// refresh reads one record again. When that fails everything is compared with the registry soon.
func (r *Router) refresh(ctx context.Context, id string) {
	ask, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	before := r.resolver.announcements()
	t, err := r.registry.get(ask, id)
	switch {
	case errors.Is(err, control.ErrNoTenant):
		r.forget(id, before)
	case err != nil:
		r.stale.Store(true)
	default:
		r.replace(t)
	}
}

// refreshAll compares every cached record with the registry.
func (r *Router) refreshAll(ctx context.Context) {
	ask, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	r.stale.Store(false) // what comes up from here on is for the next time
	before := r.resolver.announcements()
	changed, gone, err := r.registry.changed(ask, r.resolver.revisions())
	for _, t := range changed {
		r.replace(t)
	}
	for _, id := range gone {
		r.forget(id, before)
	}
	if err != nil {
		r.stale.Store(true)
		return
	}
	r.refreshed.Store(r.opts.Now().UnixNano())
}

// replace remembers the record first and unlinks the old pool second: a pool that is being opened looks at the record
// before it is linked, so it can't slip through between the two.
func (r *Router) replace(t control.Tenant) {
	rec := r.resolver.put(t)
	r.pools.unlink(t.ID, rec.Revision)
}

// forget acts on the registry's answer, after that many announcements, that there is no such tenant. Should there have
// been another one since, everything is compared with the registry again soon.
func (r *Router) forget(id string, announced int64) {
	if !r.resolver.remove(id, announced) {
		r.stale.Store(true)
		return
	}
	r.pools.unlink(id, 1<<62)
}

// poll closes idle pools and compares the cache with the registry: twice in CacheTTL, and at every tick after a
// refresh that failed.
func (r *Router) poll(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := r.opts.Now()
		r.pools.unlinkIdle(now.Add(-r.opts.IdleTimeout))
		if r.stale.Load() || now.UnixNano()-r.refreshed.Load() > int64(r.opts.CacheTTL/2) {
			r.refreshAll(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
