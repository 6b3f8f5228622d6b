package handlers

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const jobsPath = "/v1/fetcher"

// CreateJob is the body of create-fetcher-job. Its parts stay text: what is stored and hashed is what was sent.
type CreateJob struct {
	DataRequest *DataRequest `json:"dataRequest" required:"true"`
	Metadata    RawJSON      `json:"metadata" required:"true" doc:"Free object; its member source names the product."`
	Output      jobOutputRaw `json:"output" required:"false"`
}

// DataRequest says what to read.
type DataRequest struct {
	MappedFields mappedFieldsRaw `json:"mappedFields" required:"true" doc:"Datasource, table, fields; [\"*\"] is every field."`
	Filters      filtersRaw      `json:"filters" required:"false" doc:"Datasource, table, field, operator, values; all combine with AND."`
}

// JobAccepted is the answer to a job request.
type JobAccepted struct {
	JobID     uuid.UUID `json:"jobId" format:"uuid"`
	Status    string    `json:"status" enum:"pending,processing,completed,failed"`
	CreatedAt time.Time `json:"createdAt"`
	Message   string    `json:"message"`
}

type createJobOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the job."`
	Body     JobAccepted
}

type jobOutput struct {
	Body Job
}

func (e *edge) mountJobs() {
	register(e, operation{
		id: "create-fetcher-job", method: http.MethodPost, path: jobsPath,
		resource: resourceJobs, tag: tagJobs,
		summary: "Request an extraction", body: reflect.TypeFor[CreateJob](), onceFor: bodyOnly,
		success: http.StatusAccepted, also: map[int]string{http.StatusOK: "The same request was made before: its job."},
		codes: []problem.Code{
			problem.DataRequestInvalid, problem.MissingMember, problem.MetadataTooDeep, problem.MetadataValueTooLong,
			problem.MetadataKeyTooLong, problem.HostNotAllowed, problem.ConnectionUnassigned, problem.ProductMismatch,
			problem.DatasourceUnknown, problem.SourceUnreachable, problem.SchemaMismatch,
		},
	}, e.createJob)
	register(e, operation{
		id: "get-fetcher-job", method: http.MethodGet, path: jobsPath + "/{id}",
		resource: resourceJobs, tag: tagJobs,
		summary: "Read a job", success: http.StatusOK,
	}, e.getJob)
}

func (e *edge) createJob(ctx context.Context, _ *struct{}) (*createJobOutput, error) {
	req, err := e.parseJob(ctx)
	if err != nil {
		return nil, err
	}
	lease := tenant.FromContext(ctx)
	req.Then = func(kept store.Idempotency, job *store.Job) error { // the answer is kept if and only if the job is
		return recordJob(ctx, kept, acceptedJob(job, false))
	}
	job, duplicate, err := e.opts.Jobs.Submit(ctx, lease, req)
	if err != nil {
		return nil, err
	}
	out := acceptedJob(job, duplicate)
	if duplicate {
		if err = recordJob(ctx, store.NewIdempotency(lease.DB(ctx)), out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func recordJob(ctx context.Context, rows store.Idempotency, out *createJobOutput) error {
	return record(ctx, rows, out.Status, out.Location, "", out.Body)
}

func acceptedJob(job *store.Job, duplicate bool) *createJobOutput {
	out := &createJobOutput{
		Status: http.StatusAccepted, Location: jobsPath + "/" + job.ID.String(),
		Body: JobAccepted{
			JobID: job.ID, Status: string(job.Status), CreatedAt: job.CreatedAt.UTC(), Message: "the job is queued",
		},
	}
	if duplicate {
		out.Status, out.Body.Message = http.StatusOK, "the same request was made before"
	}
	return out
}

// parseJob reads the body as far as no database is needed for it.
func (e *edge) parseJob(ctx context.Context) (jobs.Request, error) {
	var body CreateJob
	if err := decodeBody(ctx, &body); err != nil {
		return jobs.Request{}, err
	}
	if e.opts.StrictJSON && body.Output != nil {
		var members *struct {
			Format      RawJSON `json:"format"`
			Compression RawJSON `json:"compression"`
		}
		if err := decodeMember("body.output", body.Output, &members, true); err != nil {
			return jobs.Request{}, err
		}
	}
	raw := jobs.Raw{Metadata: body.Metadata, Output: body.Output}
	if d := body.DataRequest; d != nil {
		raw.DataRequest = &jobs.RawDataRequest{MappedFields: d.MappedFields, Filters: d.Filters}
	}
	return jobs.ParseRequest(raw, e.opts.JobLimits)
}

func (e *edge) getJob(ctx context.Context, in *idInput) (*jobOutput, error) {
	job, err := findJob(ctx, in)
	if err != nil {
		return nil, err
	}
	view, err := e.viewJob(ctx, job)
	if err != nil {
		return nil, err
	}
	return &jobOutput{Body: view}, nil
}

// findJob returns the job of the path's id in the caller's tenant.
func findJob(ctx context.Context, in *idInput) (*store.Job, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	return store.NewJobs(tenant.FromContext(ctx).DB(ctx)).Get(ctx, id)
}
