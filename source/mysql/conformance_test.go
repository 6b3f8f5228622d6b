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

// TestConformanceDialect runs the suite in MySQL's dialect.
func TestConformanceDialect(t *testing.T) { //nolint:paralleltest // it looks at memory
	b := backendOn(testkit.MySQLDialect(t), map[sourcetest.Feature]string{
		sourcetest.ObjectID: "MySQL has no such type", sourcetest.UUID: "MySQL has no such type",
		sourcetest.Snapshot: "the dialect's tables in memory have none",
	})
	b.Consistency = unknown
	sourcetest.Run(t, b)
}

// TestConformanceLive runs the suite on a server of the developer's.
func TestConformanceLive(t *testing.T) { //nolint:paralleltest // it looks at memory
	server := testkit.LiveMySQL(t)
	without := map[sourcetest.Feature]string{sourcetest.ObjectID: "MySQL has no such type"}
	if !isMaria(t, newFixtureOn(t, server)) {
		without[sourcetest.UUID] = "MySQL has no such type"
	}
	sourcetest.Run(t, backendOn(server, without))
}

func isMaria(t *testing.T, f *fixture) bool {
	t.Helper()
	s, ok := sourcetest.Open(t, New(), f.params()).(*session)
	return ok && s.maria
}

func begin(t testing.TB, s source.Session) {
	t.Helper()
	got, err := s.Begin(context.Background(), time.Now().Add(10*time.Minute))
	if err != nil || (got != consistent && got != unknown) {
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
			f.exec(statements...)
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
			return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(value) + "'"
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
				fmt.Sprintf("INSERT INTO %s SELECT n, LEFT(REPEAT(CONCAT(n, ' '), %d), %d) FROM (%s) g", table, width, width, numbers(rows)))
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

// numbers is a query for the numbers up to n, in any order.
func numbers(n int) string {
	const digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL " +
		"SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	sum, tables := "1", ""
	for place := 1; place <= n; place *= 10 {
		name := fmt.Sprintf("t%d", place)
		if tables != "" {
			tables += ", "
		}
		tables += digits + " " + name
		sum += fmt.Sprintf(" + %d * %s.d", place, name)
	}
	return fmt.Sprintf("SELECT %s AS n FROM %s WHERE %s <= %d", sum, tables, sum, n)
}
