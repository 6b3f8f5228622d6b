package bench

import (
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

const (
	rows   = 2_000_000
	rounds = 3
)

// table has the mix of columns that a ledger has.
const table = `CREATE TABLE bench_ledger AS SELECT
	g::bigint AS id, md5(g::text)::uuid AS ref, (g %% 1000)::int AS account, (g * 1.37)::numeric(18,2) AS amount,
	timestamptz '2024-01-01' + g * interval '7 seconds' AS booked_at, date '2024-01-01' + (g %% 700)::int AS value_date,
	g %% 3 = 0 AS settled, CASE WHEN g %% 5 = 0 THEN NULL ELSE 'Größe "' || g || '" 😀' END AS note,
	jsonb_build_object('n', g, 'tag', 'x' || g %% 10) AS attributes, ARRAY[g, g + 1]::int[] AS pair,
	decode(md5(g::text), 'hex') AS digest, (g * 0.1)::float8 AS rate
	FROM generate_series(1, %d) g`

// BenchmarkExtraction extracts a large table into an encrypted result, and copies the same query out with psql beside
// it, turn by turn. It reports rows per second of both, their ratio, and how much the worker's memory grew.
func BenchmarkExtraction(b *testing.B) {
	dir := b.TempDir()
	binary, err := blackbox.Build(dir)
	if err != nil {
		b.Fatal(err)
	}
	// As root, the database server runs as an ordinary user and must get to its files.
	if err = os.Chmod(parent(dir), 0o755); err != nil {
		b.Fatal(err)
	}
	d, err := binary.LaunchDev(dir+"/dev", "--no-worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, d.Process)
	dsn := sampleDSN(d.Info.Sample)
	psql(b, dsn, fmt.Sprintf(table, rows))
	psql(b, dsn, "VACUUM ANALYZE bench_ledger")
	worker, err := binary.Launch(d.Env(b), "worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, worker)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(b, c, "ledger")
	warm := c.Extract(b, "ledger", name, "bench_ledger", "id")
	c.AwaitCompleted(b, warm, 5*time.Minute)
	idle := resident(b, worker.PID())

	var ours, theirs, ratios []float64
	var peak int64
	for b.Loop() {
		for round := range rounds {
			began := time.Now()
			shell(b, `psql "$DSN" -X -q -c '\copy (SELECT * FROM bench_ledger) TO STDOUT csv' | sha256sum`, "DSN="+dsn)
			copied := float64(rows) / time.Since(began).Seconds()
			extracted, high := extract(b, c, worker.PID(), name, round)
			ours, theirs, ratios = append(ours, extracted), append(theirs, copied), append(ratios, extracted/copied)
			peak = max(peak, high-idle)
		}
	}
	b.ReportMetric(median(ours), "rows/s")
	b.ReportMetric(median(theirs), "psql-rows/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(float64(peak)/(1<<20), "MiB-over-idle")
	b.Logf("%d rows of 12 columns, %d rounds: extraction %.0f rows/s, psql \\copy | sha256sum %.0f rows/s, ratio %.2f (%.2f to %.2f), memory %.1f MiB over an idle %.1f MiB",
		rows, rounds, median(ours), median(theirs), median(ratios), slices.Min(ratios), slices.Max(ratios),
		float64(peak)/(1<<20), float64(idle)/(1<<20))
}

// extract runs one job and returns its rows per second and the highest resident size of the worker meanwhile.
func extract(b *testing.B, c blackbox.Client, pid int, datasource string, round int) (perSecond float64, high int64) {
	b.Helper()
	began := time.Now()
	// The product's dedup would answer an equal request with the earlier job.
	id := c.Submit(b, map[string]any{
		"dataRequest": map[string]any{"mappedFields": map[string]any{datasource: map[string]any{"bench_ledger": []string{"*"}}}},
		"metadata":    map[string]any{"source": "ledger", "round": round, "at": began.UnixNano()},
	})
	for {
		j := c.Job(b, id)
		high = max(high, resident(b, pid))
		if !blackbox.Ended(j) {
			<-time.After(10 * time.Millisecond)
			continue
		}
		if j.Status != "completed" || j.Result.RowCount != rows {
			b.Fatalf("the job %s with %d rows", j.Status, j.Result.RowCount)
		}
		return rows / time.Since(began).Seconds(), high
	}
}

// resident is the resident size of a process in bytes.
func resident(b *testing.B, pid int) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

func sampleDSN(s blackbox.Sample) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(s.UserName, s.Password), Host: s.Host + ":" + strconv.Itoa(s.Port), Path: s.DatabaseName}
	return u.String() + "?sslmode=disable"
}

func psql(b *testing.B, dsn, statement string) {
	b.Helper()
	if out, err := exec.CommandContext(b.Context(), "psql", dsn, "-X", "-q", "-c", statement).CombinedOutput(); err != nil {
		b.Fatalf("psql: %v: %s", err, out)
	}
}

func shell(b *testing.B, command string, env ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", command, err, out)
	}
}

func stop(b *testing.B, p *blackbox.Process) {
	b.Helper()
	if err := p.Stop(); err != nil {
		b.Error(err)
	}
}

func parent(dir string) string { return dir[:strings.LastIndexByte(dir, '/')] }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
