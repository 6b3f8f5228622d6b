package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/fetcherhq/fetcher/store/control"
)

// maxRunning is how many jobs of the tenant may run at once; 0: any number.
func (w *Worker) maxRunning(ctx context.Context, tenantID string) int {
	info, err := w.opts.Tenants.Info(ctx, tenantID)
	if err == nil && info.MaxRunningJobs > 0 {
		return info.MaxRunningJobs
	}
	return w.opts.MaxRunning
}

// What keeps the turns may fail: the sweeper makes up for it.

// nextTurn puts the tenant's next entry into the line of tenants, now that this one has left it.
func (w *Worker) nextTurn(ctx context.Context, entry *river.Job[entryArgs]) {
	if entry.Priority != control.PriorityHead {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	_ = w.turns.PromoteNext(ctx, entry.Args.TenantID)
}

// hold puts the entry off, with all others of its tenant, until one of the tenant's jobs ends.
func (w *Worker) hold(ctx context.Context, entry *river.Job[entryArgs]) disposition {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	_ = w.turns.HoldEntries(ctx, entry.Args.TenantID)
	return later(control.HoldFor)
}

// release lets held entries of the tenant take the place of a job that ended.
func (w *Worker) release(ctx context.Context, entry *river.Job[entryArgs], maxRunning int) {
	if maxRunning == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlTimeout)
	defer cancel()
	_ = w.turns.ReleaseEntries(ctx, entry.Args.TenantID, maxRunning)
}

// sweepTurns makes up for what workers that died did not do: it gives tenants without a head one, and lets held entries
// go that nothing holds any more.
func (s *Sweeper) sweepTurns(ctx context.Context) error {
	if _, err := s.opts.Control.PromoteAll(ctx); err != nil {
		return err
	}
	limits, err := s.opts.Control.HeldTenants(ctx)
	if err != nil {
		return err
	}
	for id, limit := range limits {
		if limit == 0 {
			limit = s.opts.MaxRunning
		}
		if limit == 0 {
			limit = sweepBatch // there is no limit any more
		}
		if err := s.opts.Control.ReleaseEntries(ctx, id, limit); err != nil {
			return err
		}
	}
	return nil
}
