package mysql

import (
	"context"
	"testing"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

// fixture is a database of one test.
type fixture struct {
	testkit.MySQLDatabase

	t testing.TB
}

// newFixture creates a database on MariaDB and runs the statements in it as its owner.
func newFixture(t testing.TB, statements ...string) *fixture {
	t.Helper()
	return newFixtureOn(t, testkit.MariaDB(t), statements...)
}

func newFixtureOn(t testing.TB, server *testkit.MySQLServer, statements ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, MySQLDatabase: server.CreateDatabase(t)}
	f.exec(statements...)
	return f
}

// exec runs statements as the owner, all on one connection.
func (f *fixture) exec(statements ...string) {
	f.t.Helper()
	conn, err := f.Connect(f.t).Conn(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, s := range statements {
		if _, err := conn.ExecContext(context.Background(), s); err != nil {
			f.t.Fatalf("%v in %.300s", err, s)
		}
	}
}

func (f *fixture) params() source.Params {
	return source.Params{
		Kind: source.MySQL, Host: f.Host, Port: f.Port,
		Database: f.Name, User: f.User, Password: f.Password,
	}
}

// begun opens a session with the snapshot begun and the whole catalogue read in it.
func (f *fixture) begun() (source.Session, *source.Catalog) {
	f.t.Helper()
	s := sourcetest.Open(f.t, New(), f.params())
	begin(f.t, s)
	return s, sourcetest.Catalog(f.t, s, source.Scope{})
}
