package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// CloudEvent is an event in the structured JSON form of CloudEvents 1.0.
type CloudEvent struct {
	SpecVersion     string    `json:"specversion" enum:"1.0"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type" example:"fetcher.job.completed"`
	Subject         string    `json:"subject" doc:"The job's id."`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype" enum:"application/json"`
	TenantID        string    `json:"tenantid"`
	Data            RawJSON   `json:"data"`
}

// Events are the events of one job.
type Events struct {
	Items []CloudEvent `json:"items" nullable:"false"`
}

type eventsOutput struct {
	Body Events
}

func (e *edge) mountEvents() {
	register(e, operation{
		id: "list-fetcher-job-events", method: http.MethodGet, path: jobsPath + "/{id}/events",
		resource: resourceJobs, tag: tagJobs,
		summary: "List the events of a job", success: http.StatusOK,
	}, e.listEvents)
}

func (e *edge) listEvents(ctx context.Context, in *idInput) (*eventsOutput, error) {
	job, err := findJob(ctx, in)
	if err != nil {
		return nil, err
	}
	lease := tenant.FromContext(ctx)
	events, err := store.NewJobs(lease.DB(ctx)).Events(ctx, job.ID)
	if err != nil {
		return nil, err
	}
	out := &eventsOutput{Body: Events{Items: make([]CloudEvent, 0, len(events))}}
	for _, ev := range events {
		out.Body.Items = append(out.Body.Items, e.cloudEvent(lease.TenantID(), job.ID, ev))
	}
	return out, nil
}

func (e *edge) cloudEvent(tenantID string, job uuid.UUID, ev store.Event) CloudEvent {
	return CloudEvent{
		SpecVersion: "1.0", ID: ev.ID, Source: e.opts.EventsSource, Type: ev.Type, Subject: job.String(), Time: ev.Time.UTC(),
		DataContentType: mediaJSON, TenantID: tenantID, Data: ev.Data,
	}
}
