package postgres

import (
	"context"
	"testing"

	"github.com/fetcherhq/fetcher/source"
)

// TestFormsAgree compares the binary forms, which columns have, with the text forms, which elements of arrays have, on
// many values: the server writes the latter.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		`CREATE TABLE floats AS SELECT v, ARRAY[v] AS list, r, ARRAY[r] AS rlist FROM (
			SELECT v, v::real AS r FROM (
				SELECT (random() - 0.5) * 10::float8 ^ (random() * 70 - 35)::int AS v FROM generate_series(1, 20000)
				UNION ALL SELECT g::float8 / 1000 FROM generate_series(-2000, 2000) g
				UNION ALL SELECT 10::float8 ^ g FROM generate_series(-30, 30) g
				UNION ALL SELECT g * 1e14::float8 FROM generate_series(1, 30) g) a) b`,
		`CREATE TABLE times AS SELECT v, ARRAY[v] AS list, z, ARRAY[z] AS zlist, d, ARRAY[d] AS dlist FROM (
			SELECT v, v AT TIME ZONE 'UTC' AS z, v::date AS d FROM (
				SELECT timestamp '2000-01-01' + g * interval '1 year 17 days 3:07:01.000101' AS v FROM generate_series(-6300, 270000, 13) g
				UNION ALL SELECT timestamp '2000-02-27' + g * interval '1 day' FROM generate_series(-150000, 1000, 7) g
				UNION ALL SELECT timestamp '2000-01-01' + g * interval '0.000001 s' FROM generate_series(-20, 20) g) a) b`,
		`CREATE TABLE ids AS SELECT v, ARRAY[v] AS list, b, ARRAY[b] AS blist FROM (
			SELECT md5(g::text)::uuid AS v, decode(left(md5(g::text), g % 17 * 2), 'hex') AS b FROM generate_series(1, 2000) g) a`,
	)
	s, catalog := f.begun()
	for _, table := range []string{"floats", "times", "ids"} {
		q := queryOf(t, catalog, table, []string{"*"})
		rows := 0
		err := s.Stream(context.Background(), q, func(r source.Row) error {
			rows++
			for i := 0; i < len(q.Columns); i += 2 {
				column := "[" + string(r.AppendJSON(nil, i)) + "]"
				element := string(r.AppendJSON(nil, i+1))
				if column != element {
					t.Errorf("%s.%s: column %s, element %s", table, q.Columns[i].Name, column, element)
				}
			}
			return nil
		})
		if err != nil || rows < 2000 {
			t.Fatalf("%s: %d rows, %v", table, rows, err)
		}
	}
}
