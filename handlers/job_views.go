package handlers

import (
	"bytes"
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Job is a job as it is answered.
type Job struct {
	ID           uuid.UUID       `json:"id" format:"uuid"`
	Status       string          `json:"status" enum:"pending,processing,completed,failed"`
	Metadata     RawJSON         `json:"metadata" doc:"As sent. On failure it also has the member error, unless one was sent."`
	MappedFields mappedFieldsRaw `json:"mappedFields"`
	Filters      filtersRaw      `json:"filters,omitzero" required:"false"`
	ResultPath   *string         `json:"resultPath,omitzero" required:"false" nullable:"false"`
	ResultHMAC   *string         `json:"resultHmac,omitzero" required:"false" nullable:"false" doc:"Hex HMAC-SHA256 with the tenant's external key."`
	RequestHash  string          `json:"requestHash"`
	CreatedAt    time.Time       `json:"createdAt"`
	StartedAt    *time.Time      `json:"startedAt,omitzero" required:"false" nullable:"false"`
	CompletedAt  *time.Time      `json:"completedAt,omitzero" required:"false" nullable:"false"`
	Attempt      int             `json:"attempt" minimum:"0"`
	Progress     *JobProgress    `json:"progress,omitzero" required:"false"`
	Result       *JobResult      `json:"result,omitzero" required:"false"`
	Error        *JobError       `json:"error,omitzero" required:"false"`
}

// JobProgress is how far the running attempt has come.
type JobProgress struct {
	Rows  int64  `json:"rows" minimum:"0"`
	Bytes int64  `json:"bytes" minimum:"0"`
	Table string `json:"table"`
}

// JobResult describes a result.
type JobResult struct {
	Format    string           `json:"format"`
	SizeBytes int64            `json:"sizeBytes" minimum:"0" doc:"Of the document, or of all tables' files."`
	RowCount  int64            `json:"rowCount" minimum:"0"`
	SHA256    string           `json:"sha256" doc:"Hex; of the document or the manifest, as resultHmac."`
	ExpiresAt *time.Time       `json:"expiresAt,omitzero" required:"false" nullable:"false"`
	Tables    []JobResultTable `json:"tables" nullable:"false"`
}

// JobResultTable is one table of a result.
type JobResultTable struct {
	Datasource string `json:"datasource"`
	Table      string `json:"table"`
	Rows       int64  `json:"rows" minimum:"0"`

	// Of formats that have a file per table.
	Path      *string `json:"path,omitzero" required:"false" nullable:"false"`
	SizeBytes *int64  `json:"sizeBytes,omitzero" required:"false" nullable:"false" minimum:"0"`
	SHA256    *string `json:"sha256,omitzero" required:"false" nullable:"false" doc:"Hex."`
	HMAC      *string `json:"hmac,omitzero" required:"false" nullable:"false" doc:"Hex, as resultHmac."`
}

// JobError is why a job failed.
type JobError struct {
	Code       string  `json:"code"`
	Message    string  `json:"message"`
	Datasource *string `json:"datasource,omitzero" required:"false" nullable:"false"`
	Table      *string `json:"table,omitzero" required:"false" nullable:"false"`
}

// viewJob is a job of the caller's tenant as it is answered. Filters that can't be opened, for want of a key, are left
// out: the rest of the job, and the other jobs of a list, can be read without them.
func (e *edge) viewJob(ctx context.Context, j *store.Job) (Job, error) {
	filters, err := e.opts.Jobs.Filters(tenant.FromContext(ctx).TenantID(), j)
	if err != nil {
		e.log.ErrorContext(ctx, "filters can't be read", "job_id", j.ID, "error", err)
	}
	view := Job{
		ID: j.ID, Status: string(j.Status), Metadata: j.Metadata, MappedFields: j.MappedFields, Filters: filters,
		ResultPath: j.ResultPath, ResultHMAC: j.ResultHMAC, RequestHash: j.RequestHash,
		CreatedAt: j.CreatedAt.UTC(), StartedAt: instant(j.StartedAt), CompletedAt: instant(j.CompletedAt), Attempt: j.Attempt,
	}
	if len(j.Progress) > 0 && !j.Status.Terminal() {
		view.Progress = &JobProgress{}
		if err = json.Unmarshal(j.Progress, view.Progress); err != nil {
			return Job{}, err
		}
	}
	if j.Status == store.JobCompleted && j.ResultPath != nil { // it is gone some time after it expired
		if view.Result, err = viewResult(j); err != nil {
			return Job{}, err
		}
	}
	if j.Status == store.JobFailed {
		view.Error = &JobError{
			Code: deref(j.ErrorCode), Message: deref(j.ErrorMessage), Datasource: j.ErrorDatasource, Table: j.ErrorTable,
		}
		view.Metadata = withError(j.Metadata, view.Error.Message)
	}
	return view, nil
}

func viewResult(j *store.Job) (*JobResult, error) {
	out := &JobResult{
		Format: deref(j.ResultFormat), SizeBytes: deref(j.ResultSizeBytes), RowCount: deref(j.ResultRowCount),
		SHA256: deref(j.ResultSHA256), ExpiresAt: instant(j.ResultExpiresAt), Tables: []JobResultTable{},
	}
	if len(j.ResultTables) > 0 {
		if err := json.Unmarshal(j.ResultTables, &out.Tables); err != nil {
			return nil, err
		}
	}
	for i := range out.Tables {
		if t := &out.Tables[i]; t.Path != nil && t.SizeBytes == nil { // kept without its zero
			t.SizeBytes = new(int64)
		}
	}
	return out, nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// withError adds the member error to the text of a metadata object, unless it has one. The rest of the text stays.
func withError(metadata []byte, message string) []byte {
	text := bytes.TrimSpace(metadata)
	if len(text) < 2 || text[0] != '{' || hasMember(text, "error") {
		return metadata
	}
	quoted, err := jsontext.AppendQuote(nil, message)
	if err != nil {
		return metadata
	}
	out := bytes.Clone(text[:len(text)-1])
	if len(bytes.TrimSpace(out)) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"error":`...)
	return append(append(out, quoted...), '}')
}

// hasMember reports whether a JSON object has a member of that name.
func hasMember(object []byte, name string) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	step(dec, name)
	return dec.StackDepth() == 1 && dec.StackPointer().LastToken() == name
}
