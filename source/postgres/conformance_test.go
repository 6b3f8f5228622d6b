package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestConformance runs the suite of all kinds.
func TestConformance(t *testing.T) { //nolint:paralleltest // it looks at memory
	sourcetest.Run(t, sourcetest.Backend{
		Driver: New(),
		New:    newConformanceDatabase,
		Without: map[sourcetest.Feature]string{
			sourcetest.ObjectID: "PostgreSQL has no such type",
		},
	})
}

func newConformanceDatabase(tb testing.TB) sourcetest.Database {
	tb.Helper()
	f := &fixture{t: tb, Database: testkit.Postgres(tb).CreateDatabase(tb, testkit.DatabaseOptions{})}
	pool, err := pgxpool.New(context.Background(), f.DSN)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	sql := sourcetest.SQL{
		Exec:  func(_ testing.TB, statements ...string) { f.exec(statements...) },
		Quote: func(name string) string { return pgx.Identifier{name}.Sanitize() },
		Types: map[sourcetest.Type]string{
			sourcetest.Integer: "bigint", sourcetest.Decimal: "numeric(34,17)", sourcetest.Text: `text COLLATE "C"`, sourcetest.Date: "date",
			sourcetest.Timestamp: "timestamp", sourcetest.TimestampTZ: "timestamptz", sourcetest.UUID: "uuid", sourcetest.Boolean: "boolean",
		},
	}
	return sourcetest.Database{
		Params: f.params(), Create: sql.Create, CreateView: sql.CreateView,
		Bulk: func(_ testing.TB, table string, rows, width int) {
			f.exec(fmt.Sprintf(`CREATE TABLE %s AS SELECT g AS id, left(repeat(g || ' ', %d), %d) AS v FROM generate_series(1, %d) g`, table, width, width, rows))
		},
		CreateSchema: func(_ testing.TB, prefix string) string {
			f.exec("CREATE SCHEMA " + pgx.Identifier{prefix}.Sanitize())
			return prefix
		},
		Transfer: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `WITH x AS (UPDATE torn_a SET n = n - 1) UPDATE torn_b SET n = n + 10`)
			return err
		},
		Slow: func(testing.TB) string {
			f.exec(`CREATE VIEW slow AS SELECT pg_sleep(600)::text AS v`)
			return "slow"
		},
		Running: func(tb testing.TB) []string {
			tb.Helper()
			rows, err := pool.Query(context.Background(), `SELECT query FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'fetcher' AND state = 'active'`)
			if err != nil {
				tb.Fatal(err)
			}
			out, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				tb.Fatal(err)
			}
			return out
		},
	}
}
