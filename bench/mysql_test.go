package bench

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// mysqlTable has the same mix of columns, as far as the types go.
const mysqlTable = "CREATE TABLE bench_ledger (id bigint PRIMARY KEY, ref uuid, account int, amount decimal(18,2), booked_at timestamp(6) NULL, value_date date, " +
	"settled bit(1), note varchar(60), attributes json, pair varchar(20), digest binary(16), rate double)"

const mysqlRows = "INSERT INTO bench_ledger SELECT seq, CONCAT(SUBSTR(MD5(seq), 1, 8), '-', SUBSTR(MD5(seq), 9, 4), '-4', SUBSTR(MD5(seq), 14, 3), '-8', SUBSTR(MD5(seq), 18, 3), '-', SUBSTR(MD5(seq), 21)), " +
	"seq % 1000, seq * 1.37, '2024-01-01' + INTERVAL seq * 7 SECOND, '2024-01-01' + INTERVAL seq % 700 DAY, seq % 3 = 0, IF(seq % 5 = 0, NULL, CONCAT('Größe \"', seq, '\" 😀')), " +
	"JSON_OBJECT('n', seq, 'tag', CONCAT('x', seq % 10)), CONCAT(seq, ',', seq + 1), UNHEX(MD5(seq)), seq * 0.1e0 FROM seq_1_to_"

// mysqlSuite is extractionSuite for MariaDB, beside its own client with tab-separated output.
func mysqlSuite(t *testing.T, s *section) {
	rows := s.world.size(5_000_000, 2000)
	database := testkit.MariaDB(t).CreateDatabase(t)
	db := database.Connect(t)
	for _, statement := range []string{mysqlTable, mysqlRows + strconv.Itoa(rows)} {
		_, err := db.ExecContext(context.Background(), statement)
		check(t, err)
	}
	name := connectMySQL(t, s.world.gateway(t).Client("acme", "operator"), database)
	extraction{w: s.world, datasource: name, rows: rows, alone: "mariadb --batch | sha256sum", goal: 0.5, dump: func() {
		shell(t, `mariadb --no-defaults --host=127.0.0.1 --port="$PORT" --user="$NAME" --batch --quick --skip-column-names -e 'SELECT * FROM bench_ledger' "$NAME" | sha256sum`,
			"PORT="+strconv.Itoa(database.Port), "NAME="+database.Name, "MYSQL_PWD="+database.Password)
	}}.measure(t, s)
}

func connectMySQL(t testing.TB, c blackbox.Client, d testkit.MySQLDatabase) string {
	t.Helper()
	const name = "ledger-on-mariadb"
	c.Expect(t, http.StatusCreated, http.MethodPost, "/v1/management/connections", map[string]any{
		"configName": name, "type": "MYSQL", "host": d.Host, "port": d.Port, "databaseName": d.Name,
		"userName": d.User, "password": d.Password, "ssl": map[string]string{"mode": "false"},
	}, "X-Product-Name", "ledger")
	return name
}
