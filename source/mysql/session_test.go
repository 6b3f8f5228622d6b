package mysql

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

func portOf(f *fixture) string { return strconv.Itoa(f.Port) }

// TestSettings reads what a statement of the snapshot runs under, from a view, for sessions run no SQL of others.
func TestSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE VIEW settings AS SELECT LOWER(VARIABLE_NAME) AS name, VARIABLE_VALUE AS value FROM information_schema.SESSION_VARIABLES WHERE VARIABLE_NAME IN "+
		"('sql_mode', 'time_zone', 'tx_isolation', 'character_set_results', 'sql_select_limit', 'net_write_timeout', 'sql_auto_is_null')",
		"CREATE VIEW limits AS SELECT VARIABLE_VALUE BETWEEN 1 AND 600 AS ok FROM information_schema.SESSION_VARIABLES WHERE VARIABLE_NAME = 'max_statement_time'")
	s, catalog := f.begun()
	want := []string{
		`{"name":"character_set_results","value":"utf8mb4"}`, `{"name":"net_write_timeout","value":"3600"}`, `{"name":"sql_auto_is_null","value":"OFF"}`, `{"name":"sql_mode","value":""}`,
		`{"name":"sql_select_limit","value":"9223372036854775807"}`, `{"name":"time_zone","value":"+00:00"}`, `{"name":"tx_isolation","value":"REPEATABLE-READ"}`,
	}
	got := sourcetest.Read(t, s, catalog, "settings", []string{"*"})
	slices.Sort(got)
	if limited := sourcetest.Read(t, s, catalog, "limits", []string{"ok"}); limited[0] != `{"ok":1}` {
		t.Errorf("max_statement_time: %v", limited)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestCredentialsOfAnyCharacters uses names and passwords that would break any connection string.
func TestCredentialsOfAnyCharacters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := testkit.MariaDB(t)
	for _, odd := range []string{"a'b", `a"b c`, `a\b`, "a@b:c/d?e#f%20", " lead", "ünï", "tcp(evil)/x", "a`b"} {
		quoted := "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(odd+f.Name[8:]) + "'"
		secret := "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(odd+"pw🦊") + "'"
		database := f.Name + odd
		server.Exec(t, "CREATE USER "+quoted+" IDENTIFIED BY "+secret, "CREATE DATABASE "+quoteIdent(database), "GRANT ALL ON *.* TO "+quoted)
		t.Cleanup(func() { server.Exec(t, "DROP USER "+quoted) })
		p := f.params()
		p.User, p.Password, p.Database = odd+f.Name[8:], odd+"pw🦊", database
		s, err := New().Open(context.Background(), p, &net.Dialer{})
		if err != nil {
			t.Errorf("%q: %v", odd, sourcetest.Cause(err))
			continue
		}
		if err := s.Ping(context.Background()); err != nil {
			t.Errorf("%q: %v", odd, sourcetest.Cause(err))
		}
		_ = s.Close()
	}
}

// TestPlugins authenticates in the other ways that MariaDB has.
func TestPlugins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := testkit.MariaDB(t)
	if err := server.Try("INSTALL SONAME 'auth_ed25519'"); err != nil && !strings.Contains(err.Error(), "already") {
		t.Skip("the server has no such plugin: ", err)
	}
	user := f.Name + "_e"
	server.Exec(t, "CREATE USER '"+user+"' IDENTIFIED VIA ed25519 USING PASSWORD('p')", "GRANT ALL ON `"+f.Name+"`.* TO '"+user+"'")
	t.Cleanup(func() { server.Exec(t, "DROP USER '"+user+"'") })
	for _, mode := range []string{"false", "skip-verify"} {
		p := f.params()
		p.User, p.Password, p.TLS.Mode = user, "p", mode
		s := sourcetest.Open(t, New(), p)
		if err := s.Ping(context.Background()); err != nil {
			t.Error(sourcetest.Cause(err))
		}
	}
}

// TestHashedPasswords authenticates as MySQL 8 does by default: in full, which needs TLS, and by what the server has
// remembered of that.
func TestHashedPasswords(t *testing.T) {
	t.Parallel()
	server := testkit.MySQLDialect(t)
	f := newFixtureOn(t, server)
	user := f.Name + "_h"
	server.Exec(t, "CREATE USER '"+user+"'@'%' IDENTIFIED WITH caching_sha2_password BY 'pässword'", "GRANT ALL ON *.* TO '"+user+"'@'%'")
	t.Cleanup(func() { server.Exec(t, "DROP USER '"+user+"'@'%'") })
	p := f.params()
	p.Host, p.Port, p.User, p.Password = "db.example", server.SecurePort, user, "pässword"
	p.TLS = source.TLS{Mode: "true", CA: server.Authority.PEM}
	d := resolver{net.JoinHostPort(f.Host, strconv.Itoa(server.SecurePort))}
	for range 2 {
		s, err := New().Open(context.Background(), p, d)
		if err != nil {
			t.Fatal(sourcetest.Cause(err))
		}
		if err = s.Ping(context.Background()); err != nil {
			t.Error(sourcetest.Cause(err))
		}
		_ = s.Close()
	}
	p.Password = "wrong"
	_, err := New().Open(context.Background(), p, d)
	sourcetest.WantError(t, err, source.CategoryAuth, false)
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	nobody, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closed, _ := net.SplitHostPort(nobody.Addr().String())
	_ = nobody.Close()
	closedPort, _ := strconv.Atoi(closed)
	for name, c := range map[string]struct {
		change    func(p *source.Params)
		want      source.Category
		transient bool
	}{
		"password":  {func(p *source.Params) { p.Password = "wrong" }, source.CategoryAuth, false},
		"user":      {func(p *source.Params) { p.User = "nobody" }, source.CategoryAuth, false},
		"database":  {func(p *source.Params) { p.Database += "_none" }, source.CategoryDatabase, false},
		"forbidden": {func(p *source.Params) { p.Database = "mysql" }, source.CategoryDatabase, false},
		"refused":   {func(p *source.Params) { p.Port = closedPort }, source.CategoryRefused, true},
		"no port":   {func(p *source.Params) { p.Port = 0 }, source.CategoryUnsupported, false},
		"no user":   {func(p *source.Params) { p.User = "" }, source.CategoryUnsupported, false},
		"NUL":       {func(p *source.Params) { p.Password = "a\x00" }, source.CategoryUnsupported, false},
		"kind":      {func(p *source.Params) { p.Kind = source.Oracle }, source.CategoryUnsupported, false},
	} {
		p := f.params()
		c.change(&p)
		_, failed := New().Open(context.Background(), p, &net.Dialer{})
		t.Log(name)
		sourcetest.WantError(t, failed, c.want, c.transient)
	}
	guard, err := dial.NewGuard(dial.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New().Open(context.Background(), f.params(), guard)
	sourcetest.WantError(t, err, source.CategoryNotAllowed, false)
}

// TestOrder of calls that make no sense.
func TestOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE TABLE a (n int)", "CREATE TABLE gone (n int)")
	s := sourcetest.Open(t, New(), f.params())
	catalog := sourcetest.Catalog(t, s, source.Scope{})
	q := sourcetest.Query(t, catalog, "a", []string{"n"})
	ctx := context.Background()
	if err := s.Stream(ctx, q, nil); err == nil {
		t.Error("streamed without a snapshot")
	}
	begin(t, s)
	if _, err := s.Begin(ctx, time.Time{}); err == nil {
		t.Error("begun twice")
	}
	if err := s.Stream(ctx, q, nil); err != nil {
		t.Error(sourcetest.Cause(err))
	}
	_ = s.Close() // and with it the lock on the table
	sourcetest.WantError(t, s.Ping(ctx), source.CategoryBroken, true)
	f.exec("ALTER TABLE a MODIFY n varchar(5)", "INSERT INTO a VALUES ('x')")
	s = sourcetest.Open(t, New(), f.params())
	begin(t, s)
	sourcetest.WantError(t, s.Stream(ctx, q, func(source.Row) error { return nil }), source.CategoryObject, true)
	_ = s.Close()
	s = sourcetest.Open(t, New(), f.params())
	begin(t, s)
	f.exec("DROP TABLE gone")
	sourcetest.WantError(t, s.Stream(ctx, sourcetest.Query(t, catalog, "gone", []string{"n"}), nil), source.CategoryObject, false)
	if err := s.Ping(ctx); err != nil { // the server's refusal costs nothing
		t.Error(sourcetest.Cause(err))
	}
}

// TestReadOnly reads a view that would write.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE TABLE w (n int)", "CREATE FUNCTION put() RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO w VALUES (1); RETURN 1; END",
		"CREATE VIEW writes AS SELECT put() AS n")
	s := sourcetest.Open(t, New(), f.params())
	catalog := sourcetest.Catalog(t, s, source.Scope{})
	begin(t, s)
	err := s.Stream(context.Background(), sourcetest.Query(t, catalog, "writes", []string{"n"}), func(source.Row) error { return nil })
	sourcetest.WantError(t, err, source.CategoryValue, false)
}

// TestAdministratorEndsSession kills the connection under a statement.
func TestAdministratorEndsSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE VIEW slow AS SELECT SLEEP(600) AS v")
	d := newConformanceDatabase(f)
	s, catalog := f.begun()
	ended := make(chan error, 1)
	q := sourcetest.Query(t, catalog, "slow", []string{"v"})
	go func() { ended <- s.Stream(context.Background(), q, func(source.Row) error { return nil }) }()
	for len(d.Running(t)) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	own, ok := s.(*session)
	if !ok {
		t.Fatal("not a session")
	}
	testkit.MariaDB(t).Exec(t, "KILL "+strconv.FormatUint(own.id, 10))
	err := <-ended
	sourcetest.WantError(t, err, source.CategoryBroken, true)
	if errors.Is(err, context.Canceled) {
		t.Error("not cancelled by us")
	}
}

// TestInputErrors gives a text that the column's encoding lacks the characters for.
func TestInputErrors(t *testing.T) {
	t.Parallel()
	s, catalog := newFixture(t, "CREATE TABLE l (v varchar(20) CHARACTER SET latin1)").begun()
	q := sourcetest.Query(t, catalog, "l", []string{"v"}, source.Condition{Field: "v", Op: source.OpEq, Values: sourcetest.Values(`"列"`)})
	sourcetest.WantError(t, s.Stream(context.Background(), q, func(source.Row) error { return nil }), source.CategoryInput, false)
}

// namesOnly is a guard that knows servers by name only, and counts the connections made.
type namesOnly struct {
	resolver

	made *atomic.Int64
}

func (d namesOnly) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(address, "db.example:") {
		return nil, dial.ErrNotAllowed
	}
	d.made.Add(1)
	return d.resolver.DialContext(ctx, network, address)
}

// TestCancelByName ends a statement over a second connection that the guard lets through by its name.
func TestCancelByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "CREATE VIEW slow AS SELECT SLEEP(600) AS v")
	database := newConformanceDatabase(f)
	p := f.params()
	p.Host = "db.example"
	d := namesOnly{resolver{net.JoinHostPort(f.Host, portOf(f))}, new(atomic.Int64)}
	s, err := New().Open(context.Background(), p, d)
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	defer func() { _ = s.Close() }()
	begin(t, s)
	q := sourcetest.Query(t, sourcetest.Catalog(t, s, source.Scope{}), "slow", []string{"v"})
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stream(ctx, q, func(source.Row) error { return nil }) }()
	for len(database.Running(t)) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Error(sourcetest.Cause(err))
	}
	_ = s.Close()
	if n := d.made.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	for start := time.Now(); len(database.Running(t)) > 0; time.Sleep(5 * time.Millisecond) { // KILL itself may be listed yet
		if time.Since(start) > 30*time.Second {
			t.Fatal("still runs: ", database.Running(t))
		}
	}
}
