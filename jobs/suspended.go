package jobs

import (
	"context"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// refuse ends the job of a suspended tenant that no attempt is under way for: it fails with FET-1083 and its event,
// whatever becomes of the tenant later. An error says why it could not be looked at.
func (r *run) refuse(ctx context.Context) (disposition, error) {
	lease, err := r.opts.Tenants.AcquireSuspended(ctx, r.tenant)
	if err != nil {
		return disposition{}, err
	}
	job, err := store.NewJobs(lease.DB(ctx)).Find(ctx, r.id)
	lease.Release()
	if err != nil {
		return disposition{}, err
	}
	if job.Status.Terminal() {
		return done(), nil
	}
	r.job, r.begun = job, r.opts.Now()
	return r.fail(ctx, &extract.Failure{Code: problem.TenantSuspended, Message: "the tenant is suspended"}), nil
}
