package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/source"
)

// TestSettings reads what a statement of the snapshot runs under, from a view, for sessions run no SQL of others.
func TestSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE VIEW settings AS SELECT name, current_setting(name) AS value FROM unnest(ARRAY['application_name',
		'bytea_output', 'client_encoding', 'DateStyle', 'default_transaction_read_only', 'extra_float_digits', 'IntervalStyle',
		'TimeZone', 'transaction_isolation', 'transaction_read_only', 'synchronize_seqscans']) name`,
		`CREATE VIEW limits AS SELECT extract(epoch FROM current_setting('statement_timeout')::interval) BETWEEN 1 AND 61 AS ok`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET DateStyle = "German"', current_database()); END $$`)
	s, catalog := f.begun()
	want := []string{
		`{"name":"application_name","value":"fetcher"}`, `{"name":"bytea_output","value":"hex"}`, `{"name":"client_encoding","value":"UTF8"}`,
		`{"name":"DateStyle","value":"ISO, YMD"}`, `{"name":"default_transaction_read_only","value":"on"}`, `{"name":"extra_float_digits","value":"3"}`,
		`{"name":"IntervalStyle","value":"iso_8601"}`, `{"name":"TimeZone","value":"UTC"}`, `{"name":"transaction_isolation","value":"repeatable read"}`,
		`{"name":"transaction_read_only","value":"on"}`, `{"name":"synchronize_seqscans","value":"off"}`,
	}
	if diff := cmp.Diff(want, read(t, s, catalog, "settings", []string{"*"})); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if got := read(t, s, catalog, "limits", []string{"ok"}); got[0] != `{"ok":true}` {
		t.Errorf("statement_timeout: %v", got)
	}
}

// TestStartUpSendsNoParameters lets a recording proxy look at the first message: poolers refuse what they don't know.
func TestStartUpSendsNoParameters(t *testing.T) {
	t.Setenv("PGOPTIONS", "-c work_mem=1GB")
	t.Setenv("PGAPPNAME", "other")
	f := newFixture(t)
	p := f.params()
	p.TLS.Mode = "disable"
	recorder := &recordingDialer{}
	openWith(t, p, recorder)
	got := string(recorder.first[8:])
	want := fmt.Sprintf("database\x00%s\x00user\x00%s\x00\x00", p.Database, p.User)
	other := fmt.Sprintf("user\x00%s\x00database\x00%s\x00\x00", p.User, p.Database)
	if got != want && got != other {
		t.Errorf("start-up message: %q", got)
	}
}

// recordingDialer keeps the first bytes that were written.
type recordingDialer struct{ first []byte }

type recordingConn struct {
	net.Conn

	d *recordingDialer
}

func (d *recordingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &recordingConn{conn, d}, err
}

func (c *recordingConn) Write(b []byte) (int, error) {
	if c.d.first == nil {
		c.d.first = append([]byte{}, b...)
	}
	return c.Conn.Write(b)
}

// TestEnvironmentHasNoSay sets every variable that the driver's parser reads to something that would break it.
func TestEnvironmentHasNoSay(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".pgpass"), []byte("*:*:*:*:wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, ".postgresql"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".postgresql", "root.crt"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	t.Setenv("HOME", home)
	for name, value := range map[string]string{
		"PGHOST": "192.0.2.1", "PGPORT": "1", "PGDATABASE": "none", "PGUSER": "none", "PGPASSWORD": "none", "PGPASSFILE": "/none",
		"PGAPPNAME": "none", "PGCONNECT_TIMEOUT": "bad", "PGSSLMODE": "verify-full", "PGSSLKEY": "/none", "PGSSLCERT": "/none",
		"PGSSLCERTMODE": "bad", "PGSSLSNI": "bad", "PGSSLROOTCERT": "/none", "PGSSLPASSWORD": "none", "PGSSLNEGOTIATION": "bad",
		"PGTARGETSESSIONATTRS": "standby", "PGSERVICE": "none", "PGSERVICEFILE": "/none", "PGTZ": "bad", "PGOPTIONS": "-c bad=1",
		"PGMINPROTOCOLVERSION": "9", "PGMAXPROTOCOLVERSION": "9", "PGCHANNELBINDING": "require", "PGREQUIREAUTH": "none",
	} {
		t.Setenv(name, value)
	}
	s := f.open()
	if err := s.Ping(context.Background()); err != nil {
		t.Error(cause(err))
	}
	p := f.params()
	p.Password = ""
	_, err := New().Open(context.Background(), p, dialer())
	wantError(t, err, source.CategoryAuth, false)
}

// TestCredentialsOfAnyCharacters uses names and passwords that would break any connection string.
func TestCredentialsOfAnyCharacters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	super := newSuper(t)
	for _, odd := range []string{`a'b`, `a"b c`, `a\b`, "a@b:c/d?e#f%20", " lead and trail ", "ünï🦊", "host=evil"} {
		name := odd + f.Name[len(f.Name)-6:]
		ident, literal := pgx.Identifier{name}.Sanitize(), super.literal(odd+"pw")
		super.exec("CREATE ROLE "+ident+" LOGIN PASSWORD "+literal, "CREATE DATABASE "+ident+" OWNER "+ident+" TEMPLATE template0")
		t.Cleanup(func() { super.exec("DROP DATABASE "+ident+" WITH (FORCE)", "DROP ROLE "+ident) })
		p := f.params()
		p.User, p.Password, p.Database = name, odd+"pw", name
		s, err := New().Open(context.Background(), p, dialer())
		if err != nil {
			t.Errorf("%q: %v", odd, cause(err))
			continue
		}
		if err := s.Ping(context.Background()); err != nil {
			t.Errorf("%q: %v", odd, cause(err))
		}
		_ = s.Close()
	}
}

// TestSnapshot moves money between two tables all the time: every snapshot must hold the same sum.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE a (n int)`, `CREATE TABLE b (n int)`, `INSERT INTO a SELECT 100 FROM generate_series(1, 10)`, `INSERT INTO b VALUES (0)`)
	ctx, stop := context.WithCancel(context.Background())
	conn := f.connect()
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := conn.Exec(context.Background(), `WITH x AS (UPDATE a SET n = n - 1) UPDATE b SET n = n + 10`); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	seen := map[string]bool{}
	for range 20 {
		s, catalog := f.begun()
		sum := 0
		var last string
		for _, table := range []string{"a", "b"} {
			for _, r := range read(t, s, catalog, table, []string{"n"}) {
				var n int
				if _, err := fmt.Sscanf(r, `{"n":%d}`, &n); err != nil {
					t.Fatal(err)
				}
				sum += n
				last = r
			}
		}
		if sum != 1000 {
			t.Fatalf("torn: sum %d", sum)
		}
		seen[last] = true
		_ = s.Close()
	}
	if len(seen) < 2 {
		t.Error("nothing was written meanwhile")
	}
}

// TestReadOnly reads a view that would write.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE w (n int)`,
		`CREATE FUNCTION put() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO w VALUES (1); RETURN 1; END'`,
		`CREATE VIEW writes AS SELECT put() AS n`)
	s, catalog := f.begun()
	err := s.Stream(context.Background(), queryOf(t, catalog, "writes", []string{"n"}), func(source.Row) error { return nil })
	if err == nil {
		t.Error("written")
	}
}

// TestVisitFails ends the statement when the visitor does not want more.
func TestVisitFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE n AS SELECT g, repeat('x', 1000) AS v FROM generate_series(1, 100000) g`)
	s, catalog := f.begun()
	rows := 0
	err := s.Stream(context.Background(), queryOf(t, catalog, "n", []string{"*"}), func(source.Row) error {
		rows++
		if rows == 3 {
			return io.ErrShortWrite
		}
		return nil
	})
	if !errors.Is(err, io.ErrShortWrite) || rows != 3 {
		t.Errorf("%d rows, %v", rows, err)
	}
	f.awaitNoStatement()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, s.Ping(context.Background()), source.CategoryBroken, true)
}

// awaitNoStatement waits until no session of ours runs a statement, with room beyond the five seconds that are promised for a machine that is busy.
func (f *fixture) awaitNoStatement() {
	f.t.Helper()
	start := time.Now()
	for conn := f.connect(); statements(f.t, conn) > 0; {
		if time.Since(start) > 30*time.Second {
			f.t.Fatal("statement still runs after 30 s: ", running(f.t, conn))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// statements counts statements of ours that run.
func statements(t testing.TB, conn *pgx.Conn) int {
	t.Helper()
	return len(running(t, conn))
}

// running lists statements of ours that run.
func running(t testing.TB, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(context.Background(), `SELECT pid || ' ' || coalesce(wait_event, '') || ' ' || query FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'fetcher' AND state = 'active'`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCancel ends the context of a statement that computes, and of one that sends faster than it is read.
func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE VIEW sleeps AS SELECT pg_sleep(600)::text AS v`,
		`CREATE VIEW endless AS SELECT g AS v FROM generate_series(1, 1000000000000) g`)
	for _, table := range []string{"sleeps", "endless"} {
		s, catalog := f.begun()
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		q := queryOf(t, catalog, table, []string{"v"})
		go func() { stopped <- s.Stream(ctx, q, func(source.Row) error { return nil }) }()
		for conn := f.connect(); statements(t, conn) == 0; {
			time.Sleep(time.Millisecond)
		}
		cancel()
		select {
		case err := <-stopped:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", table, cause(err))
			}
		case <-time.After(2 * time.Second):
			t.Fatalf("%s: Stream did not return", table)
		}
		_ = s.Close()
		f.awaitNoStatement()
	}
}

// TestDeadlines end statements at the server, by the snapshot's deadline and by the context's.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE VIEW sleeps AS SELECT pg_sleep(600)::text AS v`)
	s := f.open()
	if _, err := s.Begin(context.Background(), time.Now().Add(300*time.Millisecond)); err != nil {
		t.Fatal(cause(err))
	}
	catalog := catalogOf(t, s, source.Scope{})
	q := queryOf(t, catalog, "sleeps", []string{"v"})
	err := s.Stream(context.Background(), q, func(source.Row) error { return nil })
	wantError(t, err, source.CategoryTimeout, true)
	err = s.Stream(context.Background(), q, func(source.Row) error { return nil })
	wantError(t, err, source.CategoryTimeout, true)

	s, catalog = f.begun()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err = s.Stream(ctx, queryOf(t, catalog, "sleeps", []string{"v"}), func(source.Row) error { return nil })
	wantError(t, err, source.CategoryTimeout, true)
	f.awaitNoStatement()
}

// TestOrder of calls that make no sense.
func TestOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE a (n int)`)
	s := f.open()
	catalog := catalogOf(t, s, source.Scope{})
	q := queryOf(t, catalog, "a", []string{"n"})
	if err := s.Stream(context.Background(), q, nil); err == nil {
		t.Error("streamed without a snapshot")
	}
	begin(t, s)
	if _, err := s.Begin(context.Background(), time.Time{}); err == nil {
		t.Error("begun twice")
	}
	if err := s.Stream(context.Background(), q, nil); err != nil {
		t.Error(cause(err))
	}
	_ = s.Close() // and with it the lock on the table
	f.exec(`ALTER TABLE a ALTER n TYPE text`, `INSERT INTO a VALUES ('x')`)
	s2 := f.open()
	begin(t, s2)
	err := s2.Stream(context.Background(), q, func(source.Row) error { return nil })
	wantError(t, err, source.CategoryObject, true)
	_ = s2.Close()
	f.exec(`DROP TABLE a`)
	s3 := f.open()
	begin(t, s3)
	wantError(t, s3.Stream(context.Background(), q, nil), source.CategoryObject, false)
}
