package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// table has the mix of columns that a ledger has.
const table = `CREATE TABLE bench_ledger AS SELECT
	g::bigint AS id, md5(g::text)::uuid AS ref, (g %% 1000)::int AS account, (g * 1.37)::numeric(18,2) AS amount,
	timestamptz '2024-01-01' + g * interval '7 seconds' AS booked_at, date '2024-01-01' + (g %% 700)::int AS value_date,
	g %% 3 = 0 AS settled, CASE WHEN g %% 5 = 0 THEN NULL ELSE 'Größe "' || g || '" 😀' END AS note,
	jsonb_build_object('n', g, 'tag', 'x' || g %% 10) AS attributes, ARRAY[g, g + 1]::int[] AS pair,
	decode(md5(g::text), 'hex') AS digest, (g * 0.1)::float8 AS rate
	FROM generate_series(1, %d) g`

// extractionSuite extracts a large table into an encrypted result, and copies the same query out with psql beside it, turn
// by turn; then four tables' worth at once beside one.
func extractionSuite(t *testing.T, s *section) {
	w := s.world
	rows := w.size(5_000_000, 2000)
	d := w.gateway(t)
	dsn := sampleDSN(d.Info.Sample)
	psql(t, dsn, fmt.Sprintf(table, rows))
	t.Cleanup(func() { psql(t, dsn, "DROP TABLE bench_ledger") })
	psql(t, dsn, "VACUUM ANALYZE bench_ledger")
	name, _ := d.Connect(t, d.Client("acme", "operator"), "ledger")
	e := extraction{w: w, datasource: name, rows: rows, alone: "psql \\copy … csv | sha256sum", goal: 0.6, dump: func() {
		shell(t, `psql "$DSN" -X -q -c '\copy (SELECT * FROM bench_ledger) TO STDOUT csv' | sha256sum`, "DSN="+dsn)
	}}
	e.measure(t, s)
	four := func(n int) func(t *testing.T) []float64 {
		return func(t *testing.T) []float64 {
			c := d.Client("acme", "operator")
			ids, began := make([]string, n), time.Now()
			for i := range ids {
				ids[i] = e.submit(t, c)
			}
			for _, id := range ids {
				e.await(t, c, id, func() {})
			}
			return []float64{float64(n*rows) / time.Since(began).Seconds()}
		}
	}
	_ = w.worker(t)
	s.measure(t, measurement{
		name: "four jobs at once", against: "one job", figures: []figure{{"rate", "rows/s", ratioAtLeast(1.6)}}, product: four(4), reference: four(1),
	})
}

// extraction is jobs that read all of the table bench_ledger, beside the database's own tool.
type extraction struct {
	w          *world
	datasource string
	rows       int
	alone      string // what the tool is
	goal       float64
	dump       func()
}

func (e extraction) measure(t *testing.T, s *section) {
	t.Helper()
	d := e.w.gateway(t)
	c := d.Client("acme", "operator")
	worker := e.w.worker(t)
	warm := c.Extract(t, "ledger", e.datasource, "bench_ledger", "id")
	c.AwaitCompleted(t, warm, 5*time.Minute)
	idle := resident(t, worker.PID())
	var memory, cores []float64
	s.measure(t, measurement{
		name: fmt.Sprintf("extraction of %s rows of 12 columns", digits(float64(e.rows))), against: e.alone,
		figures: []figure{{"rate", "rows/s", ratioAtLeast(e.goal)}},
		product: func(t *testing.T) []float64 {
			began, used, high := time.Now(), processorTime(t, worker.PID()), int64(0)
			e.await(t, c, e.submit(t, c), func() { high = max(high, resident(t, worker.PID())) })
			elapsed := time.Since(began).Seconds()
			memory = append(memory, max(0.01, float64(high-idle)/(1<<20)))
			cores = append(cores, max(0.01, (processorTime(t, worker.PID())-used).Seconds()/elapsed))
			return []float64{float64(e.rows) / elapsed}
		},
		reference: func(*testing.T) []float64 {
			began := time.Now()
			e.dump()
			return []float64{float64(e.rows) / time.Since(began).Seconds()}
		},
	})
	round := 0
	s.measure(t, measurement{
		name: "the same extractions", rounds: len(memory), figures: []figure{{"worker's memory over idle", "MiB", atMost(64)}, {"worker's cores", "", atMost(1)}},
		product: func(t *testing.T) []float64 {
			if round >= len(memory) {
				t.Fatal("no extraction came to its end")
			}
			round++
			return []float64{memory[round-1], cores[round-1]}
		},
	})
	stop(t, worker)
}

func (e extraction) submit(t *testing.T, c blackbox.Client) (id string) {
	t.Helper()
	// The product's dedup would answer an equal request with the earlier job.
	return c.Submit(t, map[string]any{
		"dataRequest": map[string]any{"mappedFields": map[string]any{e.datasource: map[string]any{"bench_ledger": []string{"*"}}}},
		"metadata":    map[string]any{"source": "ledger", "at": time.Now().UnixNano()},
	})
}

// await polls until the job is completed with all rows, calling meanwhile in between.
func (e extraction) await(t *testing.T, c blackbox.Client, id string, meanwhile func()) {
	t.Helper()
	for {
		meanwhile()
		j := c.Job(t, id)
		if !blackbox.Ended(j) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if j.Status != "completed" || j.Result.RowCount != int64(e.rows) {
			t.Fatalf("the job %s with %d rows", j.Status, j.Result.RowCount)
		}
		return
	}
}

// processorTime is what a process has used of all processors since it started.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	check(t, err)
	system, err := strconv.Atoi(fields[12])
	check(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond // the kernel's unit for these is 1/100 s
}

// resident is the resident size of a process in bytes.
func resident(t testing.TB, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func sampleDSN(s blackbox.Sample) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(s.UserName, s.Password), Host: s.Host + ":" + strconv.Itoa(s.Port), Path: s.DatabaseName}
	return u.String() + "?sslmode=disable"
}

// psql runs a statement, also while the test cleans up.
func psql(t testing.TB, dsn, statement string) {
	t.Helper()
	if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "psql", dsn, "-X", "-q", "-c", statement).CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
}

func shell(t testing.TB, command string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func stop(t testing.TB, p *blackbox.Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func parent(dir string) string { return dir[:strings.LastIndexByte(dir, '/')] }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
