package handlers

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

type jobPageOutput struct {
	Body Page[Job]
}

// jobStatuses are the values of the parameter status.
func jobStatuses() []any {
	return []any{
		string(store.JobPending), string(store.JobProcessing), string(store.JobCompleted), string(store.JobFailed),
	}
}

func (e *edge) mountJobList() {
	params := append(e.pages.pageParams(),
		queryParam("status", "Only jobs in this state.", &huma.Schema{Type: huma.TypeString, Enum: jobStatuses()}))
	known := knownParams(params)
	register(e, operation{
		id: "list-fetcher-jobs", method: http.MethodGet, path: jobsPath,
		resource: resourceJobs, tag: tagJobs,
		summary:     "List jobs",
		description: "By creation date. `X-Product-Name` keeps the jobs whose `metadata.source` is that product.",
		params:      append(params, productParam(false)), success: http.StatusOK,
		codes: []problem.Code{
			problem.HeaderInvalid, problem.QueryInvalid, problem.LimitTooLarge, problem.SortOrderInvalid,
			problem.DateInvalid, problem.DateRangeInvalid,
		},
	}, func(ctx context.Context, _ *struct{}) (*jobPageOutput, error) {
		return e.listJobs(ctx, known)
	})
}

func (e *edge) listJobs(ctx context.Context, known map[string]bool) (*jobPageOutput, error) {
	product, err := optionalProduct(ctx)
	if err != nil {
		return nil, err
	}
	query, err := queryOf(ctx)
	if err != nil {
		return nil, err
	}
	if err = query.guard(known, false); err != nil {
		return nil, err
	}
	page, err := e.pages.parse(query)
	if err != nil {
		return nil, err
	}
	status, err := parseStatus(query)
	if err != nil {
		return nil, err
	}
	rows, total, err := store.NewJobs(tenant.FromContext(ctx).DB(ctx)).List(ctx, store.JobFilter{
		Window: page.window, Page: page.storePage(), Status: status, Source: product,
	})
	if err != nil {
		return nil, err
	}
	out := &jobPageOutput{Body: Page[Job]{
		Items: make([]Job, 0, len(rows)), Page: page.number, Limit: page.limit, Total: total,
	}}
	for i := range rows {
		view, err := e.viewJob(ctx, &rows[i])
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, view)
	}
	return out, nil
}

// parseStatus reads the parameter status; nil when it is absent.
func parseStatus(q queryParams) (*store.JobStatus, error) {
	text := q["status"]
	if text == "" {
		return nil, nil //nolint:nilnil // any status is a value of its own
	}
	if !slices.Contains(jobStatuses(), any(text)) {
		return nil, queryFault(problem.QueryInvalid, "status", "must be pending, processing, completed or failed")
	}
	status := store.JobStatus(text)
	return &status, nil
}
