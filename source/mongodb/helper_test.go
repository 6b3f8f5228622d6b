package mongodb

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// fixture is a database of one test.
type fixture struct {
	testkit.MongoDatabase

	t testing.TB
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return &fixture{t: t, MongoDatabase: testkit.MongoDB(t).NewDatabase(t)}
}

func (f *fixture) params() source.Params {
	return source.Params{
		Kind: source.MongoDB, Host: f.Host, Port: f.Port, Database: f.Name, User: f.User, Password: f.Password, Options: f.Options,
	}
}

// insert adds documents and returns the fixture.
func (f *fixture) insert(collection string, documents ...any) *fixture {
	f.t.Helper()
	f.Insert(f.t, collection, documents...)
	return f
}

// begun opens a session, begins its snapshot and reads the whole catalogue in it.
func (f *fixture) begun() (source.Session, *source.Catalog) {
	f.t.Helper()
	s := sourcetest.Open(f.t, New(), f.params())
	if _, err := s.Begin(context.Background(), time.Now().Add(10*time.Minute)); err != nil {
		f.t.Fatal(sourcetest.Cause(err))
	}
	return s, sourcetest.Catalog(f.t, s, source.Scope{})
}

// whole reads a collection as an extraction of all of its fields does.
func whole(t testing.TB, s source.Session, c *source.Catalog, table string) ([]string, error) {
	t.Helper()
	q := sourcetest.Query(t, c, table, []string{"*"})
	q.All = true
	var rows []string
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		rows = append(rows, object(q, r))
		return nil
	})
	return rows, err
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
	if open, ok := r.(source.OpenRow); ok {
		out = open.AppendRest(out)
	}
	return string(append(out, '}'))
}

func marshal(t testing.TB, doc any) []byte {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
