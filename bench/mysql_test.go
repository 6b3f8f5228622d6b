package bench

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// mysqlTable has the same mix of columns, as far as the types go.
const mysqlTable = "CREATE TABLE bench_ledger (id bigint PRIMARY KEY, ref uuid, account int, amount decimal(18,2), booked_at timestamp(6) NULL, value_date date, " +
	"settled bit(1), note varchar(60), attributes json, pair varchar(20), digest binary(16), rate double)"

const mysqlRows = "INSERT INTO bench_ledger SELECT seq, CONCAT(SUBSTR(MD5(seq), 1, 8), '-', SUBSTR(MD5(seq), 9, 4), '-4', SUBSTR(MD5(seq), 14, 3), '-8', SUBSTR(MD5(seq), 18, 3), '-', SUBSTR(MD5(seq), 21)), " +
	"seq % 1000, seq * 1.37, '2024-01-01' + INTERVAL seq * 7 SECOND, '2024-01-01' + INTERVAL seq % 700 DAY, seq % 3 = 0, IF(seq % 5 = 0, NULL, CONCAT('Größe \"', seq, '\" 😀')), " +
	"JSON_OBJECT('n', seq, 'tag', CONCAT('x', seq % 10)), CONCAT(seq, ',', seq + 1), UNHEX(MD5(seq)), seq * 0.1e0 FROM seq_1_to_"

// BenchmarkMySQL is BenchmarkExtraction for MariaDB, beside its own client with tab-separated output.
func BenchmarkMySQL(b *testing.B) {
	database := testkit.MariaDB(b).CreateDatabase(b)
	db := database.Connect(b)
	for _, statement := range []string{mysqlTable, mysqlRows + strconv.Itoa(rows)} {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	binary, err := blackbox.Build(dir)
	if err != nil {
		b.Fatal(err)
	}
	if err = os.Chmod(parent(dir), 0o755); err != nil { // as in BenchmarkExtraction
		b.Fatal(err)
	}
	d, err := binary.LaunchDev(dir+"/dev", "--no-worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, d.Process)
	worker, err := binary.Launch(d.Env(b), "worker")
	if err != nil {
		b.Fatal(err)
	}
	defer stop(b, worker)
	c := d.Client("acme", "operator")
	name := connectMySQL(b, c, database)
	c.AwaitCompleted(b, c.Extract(b, "ledger", name, "bench_ledger", "id"), 5*time.Minute)
	idle := resident(b, worker.PID())

	var ours, theirs, ratios []float64
	var peak int64
	for b.Loop() {
		for round := range rounds {
			began := time.Now()
			shell(b, `mariadb --no-defaults --host=127.0.0.1 --port="$PORT" --user="$NAME" --batch --quick --skip-column-names -e 'SELECT * FROM bench_ledger' "$NAME" | sha256sum`,
				"PORT="+strconv.Itoa(database.Port), "NAME="+database.Name, "MYSQL_PWD="+database.Password)
			dumped := float64(rows) / time.Since(began).Seconds()
			extracted, high := extract(b, c, worker.PID(), name, round)
			ours, theirs, ratios = append(ours, extracted), append(theirs, dumped), append(ratios, extracted/dumped)
			peak = max(peak, high-idle)
		}
	}
	b.ReportMetric(median(ours), "rows/s")
	b.ReportMetric(median(theirs), "mariadb-rows/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(float64(peak)/(1<<20), "MiB-over-idle")
	b.Logf("%d rows of 12 columns, %d rounds: extraction %.0f rows/s, mariadb --batch | sha256sum %.0f rows/s, ratio %.2f (%.2f to %.2f), memory %.1f MiB over an idle %.1f MiB",
		rows, rounds, median(ours), median(theirs), median(ratios), slices.Min(ratios), slices.Max(ratios),
		float64(peak)/(1<<20), float64(idle)/(1<<20))
}

func connectMySQL(b *testing.B, c blackbox.Client, d testkit.MySQLDatabase) string {
	b.Helper()
	const name = "ledger-on-mariadb"
	c.Expect(b, http.StatusCreated, http.MethodPost, "/v1/management/connections", map[string]any{
		"configName": name, "type": "MYSQL", "host": d.Host, "port": d.Port, "databaseName": d.Name,
		"userName": d.User, "password": d.Password, "ssl": map[string]string{"mode": "false"},
	}, "X-Product-Name", "ledger")
	return name
}
