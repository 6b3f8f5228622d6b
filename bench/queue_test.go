package bench

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

const (
	queued  = 2000 // jobs for the throughput
	pickups = 300  // jobs for the latency, one after the other
)

// BenchmarkQueue measures the queue alone, with jobs that end before they read anything: rows and entries of canceled
// jobs are claimed from the queue, found ended and dropped. It reports how many of them a worker gets through in a second,
// and how long an idle worker takes to begin a job of one row, from when its row was written.
func BenchmarkQueue(b *testing.B) {
	dir := b.TempDir()
	binary, err := blackbox.Build(dir)
	if err != nil {
		b.Fatal(err)
	}
	shell(b, `chmod 755 "$DIR"`, "DIR="+parent(dir)) // as root, the database server runs as an ordinary user
	d, err := binary.LaunchDev(dir+"/dev", "--no-worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, d.Process)
	tenant := d.Tenant("acme").DatabaseURL
	for b.Loop() {
		perSecond := throughput(b, binary, d)
		p50, p99 := latency(b, binary, d, tenant)
		b.ReportMetric(perSecond, "empty-jobs/s")
		b.ReportMetric(p50, "pickup-p50-ms")
		b.ReportMetric(p99, "pickup-p99-ms")
		b.Logf("%d empty jobs at %.0f a second; pickup of %d jobs by an idle worker: p50 %.1f ms, p99 %.1f ms", queued, perSecond, pickups, p50, p99)
	}
}

// throughput queues jobs without a worker and then lets one of 10 places at them.
func throughput(b *testing.B, binary *blackbox.Binary, d *blackbox.Dev) float64 {
	b.Helper()
	tenant, control := d.Tenant("acme").DatabaseURL, d.Info.DatabaseURL
	psql(b, tenant, fmt.Sprintf(`INSERT INTO jobs (id, request_hash, metadata, mapped_fields, source, status, completed_at, error_code, error_message)
		SELECT md5('queue-' || g)::uuid, 'queue-' || g, '{"source": "ledger"}', '{}', 'ledger', 'failed', now(), 'FET-1025', 'the job was canceled'
		FROM generate_series(1, %d) g ON CONFLICT DO NOTHING`, queued))
	psql(b, control, fmt.Sprintf(`INSERT INTO river_job (args, kind, max_attempts, priority, queue, state)
		SELECT jsonb_build_object('tenantId', 'acme', 'jobId', md5('queue-' || g)::uuid), 'extract', 25, 2, 'extract', 'available'
		FROM generate_series(1, %d) g`, queued))
	worker, err := binary.Launch(append(d.Env(b), "WORKER_CONCURRENCY=10"), "worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, worker)
	const left = `SELECT count(*) FROM river_job WHERE kind = 'extract' AND state NOT IN ('completed', 'discarded')`
	for query(b, control, left) == fmt.Sprint(queued) {
		<-time.After(5 * time.Millisecond)
	}
	began := time.Now()
	for query(b, control, left) != "0" {
		<-time.After(5 * time.Millisecond)
	}
	return queued / time.Since(began).Seconds()
}

// latency runs jobs one after the other.
func latency(b *testing.B, binary *blackbox.Binary, d *blackbox.Dev, tenant string) (p50, p99 float64) {
	b.Helper()
	worker, err := binary.Launch(d.Env(b), "worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, worker)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(b, c, "ledger")
	for n := range pickups {
		id := c.Submit(b, map[string]any{
			"dataRequest": map[string]any{"mappedFields": map[string]any{name: map[string]any{"transactions": []string{"id"}}},
				"filters": map[string]any{name: map[string]any{"transactions": map[string]any{"id": map[string]any{"eq": []int{1}}}}}},
			"metadata": map[string]any{"source": "ledger", "n": n, "at": time.Now().UnixNano()},
		})
		c.AwaitCompleted(b, id, time.Minute)
	}
	var waits []float64
	text := query(b, tenant, `SELECT json_agg(extract(epoch FROM started_at - created_at) * 1000) FROM jobs WHERE status = 'completed'`)
	if err := json.Unmarshal([]byte(text), &waits); err != nil {
		b.Fatal(err)
	}
	slices.Sort(waits)
	return waits[len(waits)/2], waits[len(waits)*99/100]
}

// query is the only cell that a query gives.
func query(b *testing.B, dsn, statement string) string {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "psql", dsn, "-X", "-q", "-A", "-t", "-c", statement).Output()
	if err != nil {
		b.Fatalf("psql: %v", err)
	}
	return strings.TrimSpace(string(out))
}
