package jobs

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/control"
)

// metrics are the instruments of jobs.
type metrics struct {
	finished  metric.Int64Counter
	duration  metric.Float64Histogram
	rows      metric.Int64Counter
	bytes     metric.Int64Counter
	retries   metric.Int64Counter
	takeovers metric.Int64Counter
	running   metric.Int64UpDownCounter
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var errs [7]error
	var x metrics
	x.finished, errs[0] = m.Int64Counter("fetcher.jobs.finished", metric.WithDescription("Jobs that ended, by outcome and error code."))
	x.duration, errs[1] = m.Float64Histogram("fetcher.job.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of the attempts that ended a job, by outcome."),
		metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 1800))
	x.rows, errs[2] = m.Int64Counter("fetcher.jobs.rows", metric.WithDescription("Rows in results."))
	x.bytes, errs[3] = m.Int64Counter("fetcher.jobs.result.size", metric.WithUnit("By"), metric.WithDescription("Plaintext bytes in results."))
	x.retries, errs[4] = m.Int64Counter("fetcher.jobs.retries", metric.WithDescription("Attempts that will be tried again, by error code."))
	x.takeovers, errs[5] = m.Int64Counter("fetcher.jobs.takeovers", metric.WithDescription("Expired leases whose jobs were put back."))
	x.running, errs[6] = m.Int64UpDownCounter("fetcher.jobs.running", metric.WithDescription("Attempts under way in this process."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// What alerts compare must be there before it first happens: a counter that appears with 1 has not increased.
	x.finished.Add(context.Background(), 0, metric.WithAttributes(attribute.String("outcome", "completed")))
	x.takeovers.Add(context.Background(), 0)
	x.running.Add(context.Background(), 0)
	return &x, nil
}

func (m *metrics) started(ctx context.Context) { m.running.Add(ctx, 1) }
func (m *metrics) ended(ctx context.Context)   { m.running.Add(ctx, -1) }

func (m *metrics) completed(ctx context.Context, took time.Duration, rows, bytes int64) {
	outcome := attribute.String("outcome", "completed")
	m.finished.Add(ctx, 1, metric.WithAttributes(outcome))
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributes(outcome))
	m.rows.Add(ctx, rows)
	m.bytes.Add(ctx, bytes)
}

func (m *metrics) failed(ctx context.Context, took time.Duration, code problem.Code) {
	outcome := attribute.String("outcome", "failed")
	m.finished.Add(ctx, 1, metric.WithAttributes(outcome, attribute.String("code", string(code))))
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributes(outcome))
}

// canceled counts a job that ended before an attempt did.
func (m *metrics) canceled(ctx context.Context) {
	m.finished.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", "failed"), attribute.String("code", string(problem.JobCanceled))))
}

func (m *metrics) retried(ctx context.Context, code problem.Code) {
	m.retries.Add(ctx, 1, metric.WithAttributes(attribute.String("code", string(code))))
}

func (m *metrics) takenOver(ctx context.Context) { m.takeovers.Add(ctx, 1) }

// observeTimeout bounds what a scrape of the queue's state may take.
const observeTimeout = 2 * time.Second

// ObserveQueue makes the queue's depth by state and the age of its oldest waiting entry observable. stop ends that.
func ObserveQueue(m metric.Meter, db *control.DB) (stop func() error, err error) {
	depth, err := m.Int64ObservableGauge("fetcher.queue.depth", metric.WithDescription("Queue entries by state."))
	if err != nil {
		return nil, err
	}
	age, err := m.Float64ObservableGauge("fetcher.queue.age", metric.WithUnit("s"), metric.WithDescription("Age of the oldest waiting queue entry."))
	if err != nil {
		return nil, err
	}
	registration, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		d, unknown := db.QueueDepth(ctx)
		if unknown != nil {
			return nil // the scrape goes on without; readiness tells of the database
		}
		for state, n := range map[string]int64{"available": d.Available, "scheduled": d.Scheduled, "running": d.Running} {
			o.ObserveInt64(depth, n, metric.WithAttributes(attribute.String("state", state)))
		}
		o.ObserveFloat64(age, d.Oldest.Seconds())
		return nil
	}, depth, age)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
