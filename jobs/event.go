package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/store"
)

// eventData is what an event tells of a job's end.
type eventData struct {
	JobID           uuid.UUID       `json:"jobId"`
	Status          store.JobStatus `json:"status"`
	Metadata        jsontext.Value  `json:"metadata"`
	ExecutionTimeMs int64           `json:"executionTimeMs"` // of the last attempt; 0 if there was none
	CompletedAt     time.Time       `json:"completedAt"`
	Result          *eventResult    `json:"result,omitzero"`
	Error           *eventError     `json:"error,omitzero"`
}

type eventResult struct {
	Path       string     `json:"path"`
	SizeBytes  int64      `json:"sizeBytes"`
	RowCount   int64      `json:"rowCount"`
	Format     string     `json:"format"`
	HMAC       string     `json:"hmac"`
	Integrity  integrity  `json:"integrity"`
	Protection protection `json:"protection"`
}

type integrity struct {
	Algorithm string `json:"algorithm"`
	Signature string `json:"signature"`
}

type protection struct {
	Encrypted bool   `json:"encrypted"`
	Mode      string `json:"mode"`
}

type eventError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func completedEvent(ctx context.Context, job *store.Job, at time.Time, f store.CompleteFacts) (store.Event, error) {
	return newEvent(ctx, job, at, store.JobCompleted, func(d *eventData) {
		d.Result = &eventResult{
			Path: f.Path, SizeBytes: f.SizeBytes, RowCount: f.RowCount, Format: f.Format, HMAC: f.HMAC,
			Integrity:  integrity{Algorithm: "HMAC-SHA256", Signature: f.HMAC},
			Protection: protection{Encrypted: true, Mode: "age-v1"},
		}
	})
}

func failedEvent(ctx context.Context, job *store.Job, at time.Time, f *extract.Failure) (store.Event, error) {
	return newEvent(ctx, job, at, store.JobFailed, func(d *eventData) {
		d.Error = &eventError{Code: string(f.Code), Message: f.Message}
	})
}

// newEvent makes the event of a job's end. Its id is the same for every delivery.
func newEvent(ctx context.Context, job *store.Job, at time.Time, status store.JobStatus, fill func(*eventData)) (store.Event, error) {
	d := eventData{JobID: job.ID, Status: status, Metadata: job.Metadata, CompletedAt: at}
	if job.StartedAt != nil {
		d.ExecutionTimeMs = max(0, at.Sub(*job.StartedAt).Milliseconds())
	}
	fill(&d)
	data, err := json.Marshal(d, jsontext.PreserveRawStrings(true)) // metadata as sent
	if err != nil {
		return store.Event{}, fmt.Errorf("make event: %w", err)
	}
	name := "fetcher.job." + string(status)
	return store.Event{ID: name + "." + job.ID.String(), Type: name, Time: at, Data: data, Trace: traceparent(ctx)}, nil
}

// traceparent is the W3C trace context of ctx, for the trace to go on where the event is received; empty without one.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}
