package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

// patience is how long something may take that takes no time on a machine that has nothing else to do.
const patience = time.Minute

// Open opens a session that is closed when tb ends.
func Open(tb testing.TB, d source.Driver, p source.Params) source.Session {
	tb.Helper()
	s, err := d.Open(context.Background(), p, &net.Dialer{})
	if err != nil {
		tb.Fatalf("open: %v", Cause(err))
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// begin opens a session, begins its snapshot and reads the whole catalogue in it.
func (b Backend) begin(tb testing.TB, p source.Params) (source.Session, *source.Catalog) {
	tb.Helper()
	s := Open(tb, b.Driver, p)
	want := b.Consistency
	if want == "" {
		want = "snapshot"
	}
	if got, err := s.Begin(context.Background(), time.Now().Add(10*patience)); err != nil || got != want {
		tb.Fatalf("begin: %q, %v", got, Cause(err))
	}
	return s, Catalog(tb, s, source.Scope{})
}

// Catalog reads the catalogue.
func Catalog(tb testing.TB, s source.Session, scope source.Scope) *source.Catalog {
	tb.Helper()
	c, err := s.Catalog(context.Background(), scope)
	if err != nil {
		tb.Fatalf("catalog: %v", Cause(err))
	}
	return c
}

// Query resolves table, fields and conditions against the catalogue.
func Query(tb testing.TB, c *source.Catalog, table string, fields []string, where ...source.Condition) source.Query {
	tb.Helper()
	tab, err := c.Resolve(table)
	if err != nil {
		tb.Fatal(err)
	}
	columns, err := tab.Select(fields)
	if err != nil {
		tb.Fatal(err)
	}
	predicates, err := source.Compile(tab, where)
	if err != nil {
		tb.Fatal(err)
	}
	return source.Query{Table: tab, Columns: columns, Where: predicates}
}

// Read returns the rows of a table as JSON objects, in the server's order.
func Read(tb testing.TB, s source.Session, c *source.Catalog, table string, fields []string, where ...source.Condition) []string {
	tb.Helper()
	q := Query(tb, c, table, fields, where...)
	var rows []string
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		rows = append(rows, object(q, r))
		return nil
	})
	if err != nil {
		tb.Fatalf("stream %s: %v", table, Cause(err))
	}
	return rows
}

func object(q source.Query, r source.Row) string {
	out := []byte{'{'}
	for i, c := range q.Columns {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(form.AppendString(out, []byte(c.Name)), ':')
		out = r.AppendJSON(out, i)
	}
	return string(append(out, '}'))
}

// IDs returns the numbers in the column id of the rows found, in ascending order, with blanks between them.
func IDs(tb testing.TB, s source.Session, c *source.Catalog, table string, where ...source.Condition) string {
	tb.Helper()
	rows := Read(tb, s, c, table, []string{"id"}, where...)
	found := make([]int, 0, len(rows))
	for _, row := range rows {
		id, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(row, `{"id":`), "}"))
		if err != nil {
			tb.Fatalf("row %s: %v", row, err)
		}
		found = append(found, id)
	}
	slices.Sort(found)
	return strings.Trim(fmt.Sprint(found), "[]")
}

// Values takes a list of JSON values with commas between them apart.
func Values(list string) []jsontext.Value {
	dec := jsontext.NewDecoder(strings.NewReader("[" + list + "]"))
	_, _ = dec.ReadToken()
	var values []jsontext.Value
	for dec.PeekKind() != ']' && dec.PeekKind() != 0 {
		v, err := dec.ReadValue()
		if err != nil {
			panic(err)
		}
		values = append(values, v.Clone())
	}
	return values
}

// Cause shows what an error of a source hides from its readers.
func Cause(err error) error {
	if e := (*source.Error)(nil); errors.As(err, &e) && e.Err != nil {
		return fmt.Errorf("%w: %w", e, e.Err)
	}
	return err
}

// WantError checks the category of a failure, and that its text tells nothing but that and codes.
func WantError(tb testing.TB, err error, category source.Category, transient bool) {
	tb.Helper()
	var e *source.Error
	if !errors.As(err, &e) {
		tb.Errorf("want %s, got %v", category, err)
		return
	}
	if e.Category != category || e.Transient != transient {
		tb.Errorf("want %s, transient %v; got %s, transient %v: %v", category, transient, e.Category, e.Transient, e.Err)
	}
	if want := (&source.Error{Category: e.Category, Code: e.Code, Number: e.Number, Hint: e.Hint}).Error(); e.Error() != want {
		tb.Errorf("text tells more than category and codes: %q", e.Error())
	}
}

// await polls until done, and fails the test when that takes longer than the limit.
func await(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	for start := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > limit {
			tb.Fatalf("%s: not after %v", what, limit)
		}
	}
}
