package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/store"
)

// create stores and queues a job without asking its source.
func (p *plant) create(ctx context.Context, req jobs.Request) uuid.UUID {
	p.t.Helper()
	job := &store.Job{ID: uuid.Must(uuid.NewV7()), RequestHash: req.Hash, Metadata: req.Metadata, MappedFields: req.MappedFields, Source: req.Source}
	err := p.rows(func(rows store.Jobs) error {
		_, err := rows.CreateOnce(ctx, job, time.Minute, func(ctx context.Context) error {
			return p.queue.Enqueue(ctx, acme, job.ID)
		})
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return job.ID
}

// BenchmarkPickup tells how long a job waits for an idle worker: from before it is queued until it is claimed.
func BenchmarkPickup(b *testing.B) {
	p := newPlant(b, smallTable)
	p.worker()
	var waits []time.Duration
	for b.Loop() {
		asked := time.Now()
		id := p.create(b.Context(), request(b, "", "small"))
		job := p.await(id, terminal)
		waits = append(waits, job.StartedAt.Sub(asked))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkThroughput runs jobs of three rows, all of them queued before the worker starts.
func BenchmarkThroughput(b *testing.B) {
	p := newPlant(b, smallTable)
	const n = 200
	for b.Loop() {
		b.StopTimer()
		ids := make([]uuid.UUID, 0, n)
		for range n {
			ids = append(ids, p.create(b.Context(), request(b, "", "small")))
		}
		o := p.options()
		o.Concurrency = 10
		w := must(jobs.NewWorker(o))
		b.StartTimer()
		if err := w.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		for _, id := range ids {
			p.await(id, terminal)
		}
		b.StopTimer()
		if err := w.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
}
