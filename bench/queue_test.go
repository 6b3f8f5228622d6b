package bench

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// queueSuite measures how long an idle worker takes to begin a small job, from when its row was written, and how many small
// jobs one worker ends in a second, from the first request to the last end.
func queueSuite(t *testing.T, s *section) {
	w := s.world
	d := w.gateway(t)
	_ = w.worker(t, "WORKER_CONCURRENCY=10")
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	tenant := d.Tenant("acme").DatabaseURL
	submit := func(t *testing.T, n int) string {
		return c.Submit(t, map[string]any{
			"dataRequest": map[string]any{"mappedFields": map[string]any{name: map[string]any{"transactions": []string{"id"}}},
				"filters": map[string]any{name: map[string]any{"transactions": map[string]any{"id": map[string]any{"eq": []int{1}}}}}},
			"metadata": map[string]any{"source": "ledger", "n": n, "at": time.Now().UnixNano()},
		})
	}
	pickups, many := w.size(200, 5), w.size(500, 10)
	s.measure(t, measurement{
		name: "small job to an idle worker", figures: []figure{{"pickup p50", "ms", atMost(20)}, {"pickup p99", "ms", atMost(100)}},
		product: func(t *testing.T) []float64 {
			began := query(t, tenant, "SELECT now()")
			for n := range pickups {
				c.AwaitCompleted(t, submit(t, n), time.Minute)
			}
			var waits []float64
			text := query(t, tenant, `SELECT json_agg(extract(epoch FROM started_at - created_at) * 1000) FROM jobs WHERE status = 'completed' AND created_at > '`+began+`'`)
			check(t, json.Unmarshal([]byte(text), &waits))
			slices.Sort(waits)
			return []float64{waits[len(waits)/2], waits[len(waits)*99/100]}
		},
	})
	s.measure(t, measurement{
		name: "small jobs, one worker with 10 places", figures: []figure{{"rate", "jobs/s", atLeast(50)}},
		product: func(t *testing.T) []float64 {
			began := time.Now()
			var clients sync.WaitGroup
			for client := range 4 {
				clients.Go(func() {
					for n := client; n < many; n += 4 {
						submit(t, n)
					}
				})
			}
			clients.Wait()
			for deadline := time.Now().Add(5 * time.Minute); query(t, tenant, `SELECT count(*) FROM jobs WHERE status IN ('pending', 'processing')`) != "0"; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("jobs are still open")
				}
			}
			return []float64{float64(many) / time.Since(began).Seconds()}
		},
	})
	if n := query(t, tenant, `SELECT count(*) FROM jobs WHERE status = 'failed'`); n != "0" {
		t.Errorf("%s jobs failed", n)
	}
}

// query is the only cell that a query gives.
func query(t testing.TB, dsn, statement string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "psql", dsn, "-X", "-q", "-A", "-t", "-c", statement).Output()
	if err != nil {
		t.Fatalf("psql: %v", err)
	}
	return strings.TrimSpace(string(out))
}
