package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestConformance runs the suite of all kinds on MariaDB.
func TestConformance(t *testing.T) { //nolint:paralleltest // it looks at memory
	sourcetest.Run(t, backendOn(testkit.MariaDB(t), map[sourcetest.Feature]string{
		sourcetest.ObjectID: "MariaDB has no such type",
	}))
}

func begin(t testing.TB, s source.Session) {
	t.Helper()
	got, err := s.Begin(context.Background(), time.Now().Add(10*time.Minute))
	if err != nil || got != "snapshot" {
		t.Fatalf("begin: %q, %v", got, sourcetest.Cause(err))
	}
}

func backendOn(server *testkit.MySQLServer, without map[sourcetest.Feature]string) sourcetest.Backend {
	return sourcetest.Backend{
		Driver: New(), Without: without,
		New: func(tb testing.TB) sourcetest.Database {
			tb.Helper()
			return newConformanceDatabase(newFixtureOn(tb, server))
		},
	}
}

func newConformanceDatabase(f *fixture) sourcetest.Database {
	pool := f.Connect(f.t)
	sql := sourcetest.SQL{
		Exec: func(_ testing.TB, statements ...string) {
			f.exec(append([]string{"SET sql_mode = 'NO_BACKSLASH_ESCAPES'"}, statements...)...)
		},
		Quote: quoteIdent,
		Types: map[sourcetest.Type]string{
			sourcetest.Integer: "bigint", sourcetest.Decimal: "decimal(34,17)", sourcetest.Text: "longtext COLLATE utf8mb4_bin", sourcetest.Date: "date",
			sourcetest.Timestamp: "datetime(6)", sourcetest.TimestampTZ: "timestamp(6) NULL", sourcetest.UUID: "uuid", sourcetest.Boolean: "bit(1)",
		},
		Literal: func(typ sourcetest.Type, value string) string {
			switch typ {
			case sourcetest.Integer, sourcetest.Decimal, sourcetest.Boolean:
				return value
			case sourcetest.TimestampTZ:
				value = strings.TrimSuffix(value, "Z")
			}
			return "'" + strings.ReplaceAll(value, "'", "''") + "'"
		},
	}
	return sourcetest.Database{
		Params: f.params(),
		Create: func(tb testing.TB, tables ...sourcetest.Table) {
			tb.Helper()
			for _, t := range tables {
				s := sql
				if len(t.Columns) > 1000 {
					s.Options = "ENGINE = Aria" // InnoDB's rows have 1,017 columns at most
				}
				s.Create(tb, t)
			}
		},
		CreateView: sql.CreateView,
		Bulk: func(_ testing.TB, table string, rows, width int) {
			f.exec(fmt.Sprintf("CREATE TABLE %s (id bigint, v longtext)", table),
				fmt.Sprintf("INSERT INTO %s SELECT seq, LEFT(REPEAT(CONCAT(seq, ' '), %d), %d) FROM seq_1_to_%d", table, width, width, rows))
		},
		CreateSchema: func(_ testing.TB, prefix string) string {
			name := f.Name + " " + prefix
			f.exec("CREATE DATABASE " + quoteIdent(name))
			return name
		},
		Transfer: func(ctx context.Context) error {
			tx, err := pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			for _, s := range []string{"UPDATE torn_a SET n = n - 1", "UPDATE torn_b SET n = n + 10"} {
				if _, err := tx.ExecContext(ctx, s); err != nil {
					return err
				}
			}
			return tx.Commit()
		},
		Slow: func(testing.TB) string {
			f.exec(`CREATE VIEW slow AS SELECT SLEEP(600) AS v`)
			return "slow"
		},
		Running: func(tb testing.TB) []string {
			tb.Helper()
			rows, err := pool.QueryContext(context.Background(), `SELECT INFO FROM information_schema.PROCESSLIST
				WHERE DB = DATABASE() AND COMMAND <> 'Sleep' AND ID <> CONNECTION_ID()`)
			if err != nil {
				tb.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
			var out []string
			for rows.Next() {
				var info *string
				if err := rows.Scan(&info); err != nil {
					tb.Fatal(err)
				}
				if info != nil {
					out = append(out, *info)
				}
			}
			return out
		},
	}
}
