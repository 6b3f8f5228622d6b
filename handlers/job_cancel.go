package handlers

import (
	"context"
	"net/http"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenant"
)

func (e *edge) mountJobCancel() {
	register(e, operation{
		id: "cancel-fetcher-job", method: http.MethodPost, path: jobsPath + "/{id}/cancel",
		resource: resourceJobs, tag: tagJobs,
		summary: "Cancel a job",
		description: "A pending job fails at once, with FET-1025. One that is processing is answered as such and fails so " +
			"within seconds, its statements cancelled at the external databases; it never completes any more.",
		success: http.StatusAccepted, codes: []problem.Code{problem.JobTerminal},
	}, e.cancelJob)
}

func (e *edge) cancelJob(ctx context.Context, in *idInput) (*jobOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	job, err := e.opts.Jobs.Cancel(ctx, tenant.FromContext(ctx), id)
	if err != nil {
		return nil, err
	}
	view, err := e.viewJob(ctx, job)
	if err != nil {
		return nil, err
	}
	return &jobOutput{Body: view}, nil
}
