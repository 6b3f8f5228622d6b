package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fetcherhq/fetcher/jobs"
)

// What a job's worker does belongs to the trace of the request, down to the object it writes.
func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	id := p.create(ctx, request1(t))
	w := p.worker(func(o *jobs.WorkerOptions) { o.Tracer = provider })
	p.completed(id)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	request.End()
	names, parents := map[trace.SpanID]string{}, map[string]string{}
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID()] = s.Name
		if s.SpanContext.TraceID() != request.SpanContext().TraceID() {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	for _, s := range spans.GetSpans() {
		if _, twice := parents[s.Name]; twice {
			t.Errorf("%s is there twice", s.Name)
		}
		parents[s.Name] = names[s.Parent.SpanID()]
	}
	want := map[string]string{
		"request": "", "enqueue job": "request", "run job": "enqueue job", "extract": "run job", "upload result": "extract",
		"source open": "extract", "source catalog": "extract", "source begin": "extract", "source stream": "extract",
	}
	if diff := cmp.Diff(want, parents); diff != "" {
		t.Errorf("spans and their parents (-want +got):\n%s", diff)
	}
}

func request1(t testing.TB) jobs.Request { return request(t, "", "small") }

func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, `CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE deadlock_detected; END $$`,
		`CREATE VIEW broken AS SELECT fails() AS id`)
	reader := metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	stop := must(jobs.ObserveQueue(meter, p.control))
	good, bad := p.submit(request1(t)), p.submit(request(t, "", "broken"))
	if err := p.queue.Enqueue(t.Context(), acme, uuid.New()); err != nil {
		t.Fatal(err)
	}
	if depth := sums(t, reader)["fetcher.queue.depth{state=available}"]; depth != 3 {
		t.Errorf("queue depth %d, want 3", depth)
	}
	w := p.worker(func(o *jobs.WorkerOptions) { o.Meter, o.MaxAttempts = meter, 2 })
	p.completed(good)
	p.await(bad, terminal)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := sums(t, reader)
	for name := range got {
		if strings.HasPrefix(name, "fetcher.queue") {
			delete(got, name)
		}
	}
	want := map[string]int64{
		"fetcher.jobs.finished{outcome=completed}": 1, "fetcher.jobs.finished{code=FET-1030,outcome=failed}": 1,
		"fetcher.jobs.rows{}": 3, "fetcher.jobs.result.size{}": int64(len(`{"src":{"small":[{"id":1,"note":"n°1"},{"id":2,"note":"n°2"},{"id":3,"note":"n°3"}]}}`)),
		"fetcher.jobs.retries{code=FET-1040}": 1, "fetcher.jobs.running{}": 0, "fetcher.jobs.takeovers{}": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// sums collects counters and gauges of whole numbers by name and attributes.
func sums(t *testing.T, reader *metric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	add := func(name string, points []metricdata.DataPoint[int64]) {
		for _, p := range points {
			var labels []string
			for _, kv := range p.Attributes.ToSlice() {
				labels = append(labels, fmt.Sprintf("%s=%s", kv.Key, kv.Value.AsString()))
			}
			found[name+"{"+strings.Join(labels, ",")+"}"] = p.Value
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				add(m.Name, data.DataPoints)
			case metricdata.Gauge[int64]:
				add(m.Name, data.DataPoints)
			}
		}
	}
	return found
}

// Nothing secret shows in the log of jobs that fail in every way a source can.
func TestLogsTellNoSecrets(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, `CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'canary-row-value'; END $$`,
		`CREATE VIEW broken AS SELECT fails() AS id`)
	var log bytes.Buffer
	ids := []uuid.UUID{p.submit(request(t, "", "broken")), p.submit(request1(t))}
	w := p.worker(func(o *jobs.WorkerOptions) {
		o.Logger, o.MaxAttempts = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), 2
	})
	p.await(ids[0], terminal)
	p.await(ids[1], terminal)
	p.exec(`ALTER ROLE ` + p.source.Owner + ` PASSWORD 'canary-password'`)
	p.await(p.create(t.Context(), request1(t)), terminal)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"canary", p.source.Password, p.source.Owner, p.source.Host, fmt.Sprint(p.source.Port)} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), "FET-1029") {
		t.Errorf("log: %s", log.String())
	}
}
