package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
)

// secureServer is a server of the test's own with TLS on, whose files the test writes.
type secureServer struct {
	t    *testing.T
	pg   *testkit.PG
	data string
	ca   *testkit.Authority
}

func newSecureServer(t *testing.T) *secureServer {
	t.Helper()
	s := &secureServer{t: t, pg: testkit.NewServer(t).PG, ca: testkit.NewAuthority(t, "test authority")}
	conn := s.admin()
	if err := conn.QueryRow(context.Background(), "SHOW data_directory").Scan(&s.data); err != nil {
		t.Fatal(err)
	}
	s.write("root.crt", s.ca.PEM)
	s.certificate("db.example", "db.example")
	s.pg.Exec(t, "ALTER SYSTEM SET ssl = on", "ALTER SYSTEM SET ssl_ca_file = 'root.crt'")
	s.reload()
	return s
}

func (s *secureServer) admin() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(context.Background(), s.pg.AdminDSN())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// write puts a file into the data directory, for the server's account to read.
func (s *secureServer) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.data, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	info, err := os.Stat(s.data)
	if err != nil {
		s.t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *secureServer) certificate(common string, names ...string) {
	s.t.Helper()
	cert, key := s.ca.Issue(s.t, common, names...)
	s.write("server.crt", cert)
	s.write("server.key", key)
}

// reload makes the server read its files and waits until it has: its processes do so in their own time.
func (s *secureServer) reload() {
	s.t.Helper()
	conn := s.admin()
	var before, after time.Time
	if err := conn.QueryRow(context.Background(), "SELECT pg_conf_load_time()").Scan(&before); err != nil {
		s.t.Fatal(err)
	}
	s.pg.Exec(s.t, "SELECT pg_reload_conf()")
	for deadline := time.Now().Add(10 * time.Second); !after.After(before); time.Sleep(5 * time.Millisecond) {
		if err := conn.QueryRow(context.Background(), "SELECT pg_conf_load_time()").Scan(&after); err != nil {
			s.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			s.t.Fatal("server did not reload")
		}
	}
}

// rules replaces the server's rules for clients, but for the administrator's.
func (s *secureServer) rules(lines ...string) {
	s.t.Helper()
	admin, err := pgx.ParseConfig(s.pg.AdminDSN())
	if err != nil {
		s.t.Fatal(err)
	}
	all := append([]string{fmt.Sprintf("host all %s 127.0.0.1/32 scram-sha-256", admin.User)}, lines...)
	s.write("pg_hba.conf", strings.Join(all, "\n")+"\n")
	s.reload()
}

// rule is a line of the server's rules for every database and user.
func rule(connection, method string) string {
	const every = "all"
	return strings.Join([]string{connection, every, every, "127.0.0.1/32", method}, " ")
}

// anywhere dials one address, whatever the name.
type anywhere string

func (a anywhere) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, string(a))
}

//nolint:tparallel // the rules of the one server change between the subtests
func TestTLS(t *testing.T) {
	t.Parallel()
	server := newSecureServer(t)
	f := &fixture{t: t, Database: server.pg.CreateDatabase(t, testkit.DatabaseOptions{})}
	f.exec(`CREATE VIEW me AS SELECT ssl, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()`,
		`CREATE VIEW sleeps AS SELECT pg_sleep(600)::text AS v`)
	address := anywhere(net.JoinHostPort(f.Host, strconv.Itoa(f.Port)))
	other := testkit.NewAuthority(t, "another authority")
	clientCert, clientKey := server.ca.Issue(t, f.Owner)
	strangerCert, strangerKey := other.Issue(t, f.Owner)

	const (
		encrypted = `{"ssl":true,"client_dn":null}`
		inClear   = `{"ssl":false,"client_dn":null}`
	)
	named := fmt.Sprintf(`{"ssl":true,"client_dn":"/CN=%s"}`, f.Owner)
	type try struct {
		name string
		host string
		tls  source.TLS
		want string          // the row of the view, or
		fail source.Category // how it fails
	}
	run := func(name string, tries []try) {
		t.Run(name, func(t *testing.T) {
			for _, c := range tries {
				p := f.params()
				p.TLS = c.tls
				if p.Host = c.host; c.host == "" {
					p.Host = "db.example"
				}
				s, err := New().Open(context.Background(), p, address)
				if c.fail != "" {
					t.Run(c.name, func(t *testing.T) { wantError(t, err, c.fail, false) })
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", c.name, cause(err))
					continue
				}
				begin(t, s)
				if got := read(t, s, catalogOf(t, s, source.Scope{}), "me", []string{"*"}); got[0] != c.want {
					t.Errorf("%s: %s", c.name, got)
				}
				_ = s.Close()
			}
		})
	}
	ours := server.ca.PEM

	server.rules(rule("host", "scram-sha-256"))
	run("both ways", []try{
		{name: "default", want: encrypted},
		{name: "disable", tls: source.TLS{Mode: "disable"}, want: inClear},
		{name: "allow", tls: source.TLS{Mode: "allow"}, want: inClear},
		{name: "prefer", tls: source.TLS{Mode: "prefer"}, want: encrypted},
		{name: "require", tls: source.TLS{Mode: "require"}, want: encrypted},
		{name: "require with CA", host: "wrong.example", tls: source.TLS{Mode: "require", CA: ours}, want: encrypted},
		{name: "require with wrong CA", tls: source.TLS{Mode: "require", CA: other.PEM}, fail: source.CategoryTLS},
		{name: "verify-ca", host: "wrong.example", tls: source.TLS{Mode: "verify-ca", CA: ours}, want: encrypted},
		{name: "verify-ca with wrong CA", tls: source.TLS{Mode: "verify-ca", CA: other.PEM}, fail: source.CategoryTLS},
		{name: "verify-ca with system roots", tls: source.TLS{Mode: "verify-ca"}, fail: source.CategoryTLS},
		{name: "verify-full", tls: source.TLS{Mode: "verify-full", CA: ours}, want: encrypted},
		{name: "verify-full with wrong CA", tls: source.TLS{Mode: "verify-full", CA: other.PEM}, fail: source.CategoryTLS},
		{name: "verify-full with system roots", tls: source.TLS{Mode: "verify-full"}, fail: source.CategoryTLS},
		{name: "verify-full for wrong host", host: "wrong.example", tls: source.TLS{Mode: "verify-full", CA: ours}, fail: source.CategoryTLS},
		{name: "verify-full for an address", host: "127.0.0.1", tls: source.TLS{Mode: "verify-full", CA: ours}, fail: source.CategoryTLS},
		{name: "prefer with a certificate nobody checks", tls: source.TLS{Mode: "prefer", CA: other.PEM}, want: encrypted},
		{name: "client certificate", tls: source.TLS{Mode: "verify-full", CA: ours, Cert: clientCert, Key: clientKey}, want: named},
		{name: "stranger's certificate", tls: source.TLS{Mode: "require", Cert: strangerCert, Key: strangerKey}, fail: source.CategoryTLS},
	})

	server.rules(rule("hostssl", "scram-sha-256"))
	run("encrypted only", []try{
		{name: "disable", tls: source.TLS{Mode: "disable"}, fail: source.CategoryAuth},
		{name: "allow", tls: source.TLS{Mode: "allow"}, want: encrypted},
		{name: "prefer", tls: source.TLS{Mode: "prefer"}, want: encrypted},
	})

	server.rules(rule("hostnossl", "scram-sha-256"))
	run("clear only", []try{
		{name: "prefer", tls: source.TLS{Mode: "prefer"}, want: inClear},
		{name: "require", tls: source.TLS{Mode: "require"}, fail: source.CategoryAuth},
	})

	server.rules(rule("hostssl", "cert"))
	run("by certificate", []try{
		{name: "with", tls: source.TLS{Mode: "verify-full", CA: ours, Cert: clientCert, Key: clientKey}, want: named},
		{name: "without", tls: source.TLS{Mode: "verify-full", CA: ours}, fail: source.CategoryAuth},
	})

	server.rules(rule("host", "scram-sha-256"))
	server.certificate("legacy.example")
	server.reload()
	run("common name", []try{
		{name: "right", host: "legacy.example", tls: source.TLS{Mode: "verify-full", CA: ours}, want: encrypted},
		{name: "wrong", host: "other.example", tls: source.TLS{Mode: "verify-full", CA: ours}, fail: source.CategoryTLS},
	})

	t.Run("cancel", func(t *testing.T) {
		p := f.params()
		p.Host, p.TLS = "legacy.example", source.TLS{Mode: "verify-full", CA: ours}
		s := openWith(t, p, address)
		begin(t, s)
		q := queryOf(t, catalogOf(t, s, source.Scope{}), "sleeps", []string{"v"})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer cancel()
			for conn := f.connect(); statements(t, conn) == 0; {
				time.Sleep(time.Millisecond)
			}
		}()
		if err := s.Stream(ctx, q, func(source.Row) error { return nil }); err == nil {
			t.Error("not cancelled")
		}
		f.awaitNoStatement()
	})
}
