package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

const someConnections = `INSERT INTO connections (id, config_name, product_name, kind, host, port, database_name, user_name, password_sealed, key_version, metadata, metadata_entries, created_at, updated_at)
	SELECT md5('c' || g)::uuid, 'c' || g, 'p' || g %% 100, 'POSTGRESQL', 'h', 5432, 'd', 'u', '\x00', 1, '{}', ARRAY['["team","t' || g %% 1000 || '"]'],
	now() - interval '10 days' + g * interval '1 millisecond', now() FROM generate_series((SELECT count(*) FROM connections) + 1, %d) g`

const someJobs = `INSERT INTO jobs (id, request_hash, metadata, mapped_fields, source, status, created_at, completed_at, error_code, error_message)
	SELECT md5('j' || g)::uuid, 'h' || g, '{}', '{}', 'p' || g %% 100, 'failed', now() - interval '100 days' + g * interval '1 second',
	now() - interval '100 days' + g * interval '1 second', 'FET-1025', 'canceled' FROM generate_series((SELECT count(*) FROM jobs) + 1, %d) g`

// growthSuite measures the queries of the API and the sweeper as tables grow, and extractions as rows do.
func growthSuite(t *testing.T, s *section) {
	cfg, err := pgx.ParseConfig(testkit.Postgres(t).NewDatabase(t))
	check(t, err)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { check(t, db.Close()) })
	check(t, store.Migrate(t.Context(), db))
	g, err := store.Open(db)
	check(t, err)
	most := s.world.size(1_000_000, 1000)
	for n := 100; n <= most; n *= 100 {
		fillTable(t, g, "connections", someConnections, n)
		growConnections(t, s, store.NewConnections(g), n)
	}
	for n := 1000; n <= most; n *= 1000 {
		fillTable(t, g, "jobs", someJobs, n)
		growJobs(t, s, g, n)
	}
	growRows(t, s)
}

func fillTable(t *testing.T, g *gorm.DB, name, statement string, n int) {
	t.Helper()
	check(t, g.Exec(fmt.Sprintf(statement, n)).Error)
	check(t, g.Exec("VACUUM ANALYZE "+name).Error)
}

// timed is the milliseconds of one of several calls.
func timed(t *testing.T, do func() error) float64 {
	t.Helper()
	const times = 5
	began := time.Now()
	for range times {
		check(t, do())
	}
	return max(0.001, time.Since(began).Seconds()*1000/times)
}

func growConnections(t *testing.T, s *section, rows store.Connections, n int) {
	t.Helper()
	list := func(f store.ConnectionFilter) func() error {
		f.Page.Limit = 100
		return func() error {
			found, total, err := rows.List(t.Context(), f)
			if err == nil && (total == 0 || len(found) == 0) {
				err = fmt.Errorf("%d of %d connections", len(found), total)
			}
			return err
		}
	}
	product := "p7"
	s.measure(t, measurement{
		name:    fmt.Sprintf("%s stored connections", digits(float64(n))),
		figures: []figure{{"first page", "ms", bound{}}, {"by metadata", "ms", bound{}}, {"by product", "ms", bound{}}, {"last page", "ms", bound{}}},
		product: func(t *testing.T) []float64 {
			return []float64{
				timed(t, list(store.ConnectionFilter{})),
				timed(t, list(store.ConnectionFilter{Metadata: []store.MetadataMatch{{Path: []string{"team"}, Value: "t7"}}})),
				timed(t, list(store.ConnectionFilter{Product: &product})),
				timed(t, list(store.ConnectionFilter{Page: store.Page{Number: max(1, n/100)}})),
			}
		},
	})
}

func growJobs(t *testing.T, s *section, g *gorm.DB, n int) {
	t.Helper()
	rows, product := store.NewJobs(g), "p7"
	s.measure(t, measurement{
		name:    fmt.Sprintf("%s jobs", digits(float64(n))),
		figures: []figure{{"dedup look-up", "ms", bound{}}, {"first page", "ms", bound{}}, {"by product", "ms", bound{}}, {"sweep of 100", "ms", bound{}}},
		product: func(t *testing.T) []float64 {
			list := func(f store.JobFilter) func() error {
				f.Page.Limit = 100
				return func() error { _, _, err := rows.List(t.Context(), f); return err }
			}
			sweep := func() error { // undone, so that every round finds the same
				tx := g.Begin()
				deleted, err := store.NewRetention(tx).DeleteJobs(t.Context(), time.Hour, 100)
				if err == nil && deleted != 100 {
					err = fmt.Errorf("%d jobs deleted", deleted)
				}
				_ = tx.Rollback()
				return err
			}
			return []float64{
				timed(t, func() error { _, err := rows.FindDuplicate(t.Context(), "h7", time.Hour); return err }),
				timed(t, list(store.JobFilter{})), timed(t, list(store.JobFilter{Source: &product})), timed(t, sweep),
			}
		},
	})
}

// growRows extracts tables of ever more rows.
func growRows(t *testing.T, s *section) {
	t.Helper()
	w := s.world
	d := w.gateway(t)
	dsn := sampleDSN(d.Info.Sample)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	_ = w.worker(t)
	for _, full := range []int{10_000, 100_000, 1_000_000} {
		n := w.size(full, full/100)
		if w.smoke {
			n = 100
		}
		psql(t, dsn, fmt.Sprintf(table, n))
		psql(t, dsn, "VACUUM ANALYZE bench_ledger")
		e := extraction{w: w, datasource: name, rows: n}
		s.measure(t, measurement{
			name: fmt.Sprintf("extraction of %s rows", digits(float64(n))), figures: []figure{{"time per row", "µs", bound{}}},
			product: func(t *testing.T) []float64 {
				began := time.Now()
				e.await(t, c, e.submit(t, c), func() {})
				return []float64{micros(time.Since(began)) / float64(n)}
			},
		})
		psql(t, dsn, "DROP TABLE bench_ledger")
	}
}
