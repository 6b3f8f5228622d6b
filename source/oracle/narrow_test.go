package oracle

import (
	"context"
	sqldriver "database/sql/driver"
	"testing"

	"github.com/fetcherhq/fetcher/source"
)

// TestNarrowAnswers refuses answers that have not the columns that were asked for.
func TestNarrowAnswers(t *testing.T) {
	t.Parallel()
	for _, part := range []string{tablesSQL, keysSQL, columnsSQL} {
		f := newFake(t)
		f.handle(tablesSQL, answer{rows: [][]sqldriver.Value{{"U", "N", "U"}}})
		f.handle(part, answer{rows: [][]sqldriver.Value{{"1", "2"}}})
		_, err := f.session().Catalog(context.Background(), source.Scope{})
		wantError(t, err, source.CategoryUnsupported, false)
	}
}
