package sqlserver

import (
	"context"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

// TestNarrowAnswers refuses answers that have not the columns that were asked for.
func TestNarrowAnswers(t *testing.T) {
	t.Parallel()
	narrow := tds.Answer{Columns: []tds.Column{{Name: "one", Type: tds.Int()}}, Rows: [][]any{{1}}}
	for _, part := range []string{tablesSQL, columnsSQL, databaseSQL} {
		f := newFixture(t, catalogTable{schema: "dbo", name: "n", columns: []catalogColumn{{name: "id", typ: "int"}}})
		f.Handle(tds.Containing(part), narrow)
		s := sourcetest.Open(t, New(), f.params())
		_, err := s.Catalog(context.Background(), source.Scope{})
		if part == databaseSQL {
			_, err = s.Begin(context.Background(), time.Time{})
		}
		sourcetest.WantError(t, err, source.CategoryUnsupported, false)
	}
}
