package mysql

import (
	"context"
	"net"
	"testing"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// resolver has every name stand for a server's address.
type resolver struct{ address string }

func (r resolver) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, r.address)
}

// TestTLS connects in every mode to a server with a private authority, as users of whom TLS is demanded.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	f := newFixtureOn(t, server, "CREATE VIEW cipher AS SELECT VARIABLE_VALUE <> '' AS encrypted FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'")
	other := testkit.NewAuthority(t, "other authority")
	ownCert, ownKey := server.Authority.Issue(t, "client")
	otherCert, otherKey := other.Issue(t, "client")
	users := map[string]string{"plain": "", "encrypted": "REQUIRE SSL", "certified": "REQUIRE X509", "named": "REQUIRE SUBJECT '/CN=client'"}
	for name, demand := range users {
		user := f.Name + "_" + name
		server.Exec(t, "CREATE USER '"+user+"' IDENTIFIED BY 'p' "+demand, "GRANT ALL ON `"+f.Name+"`.* TO '"+user+"'")
		t.Cleanup(func() { server.Exec(t, "DROP USER '"+user+"'") })
	}
	ca, private := server.Authority.PEM, source.TLS{CA: server.Authority.PEM}
	certified := source.TLS{CA: ca, Cert: ownCert, Key: ownKey}
	for _, c := range []struct {
		name, host, user, mode string
		tls                    source.TLS
		want                   source.Category // empty: connected
		plain                  bool            // unencrypted
	}{
		{name: "right name", host: "db.example", user: "encrypted", mode: "true", tls: private},
		{name: "wrong name", host: "other.example", user: "encrypted", mode: "true", tls: private, want: source.CategoryTLS},
		{name: "address for name", host: "127.0.0.1", user: "encrypted", mode: "true", tls: private, want: source.CategoryTLS},
		{name: "wrong authority", host: "db.example", user: "encrypted", mode: "true", tls: source.TLS{CA: other.PEM}, want: source.CategoryTLS},
		{name: "system's roots", host: "db.example", user: "encrypted", mode: "true", want: source.CategoryTLS},
		{name: "no authority", host: "db.example", user: "encrypted", mode: "true", tls: source.TLS{CA: "junk"}, want: source.CategoryTLS},
		{name: "not checked", host: "other.example", user: "encrypted", mode: "skip-verify"},
		{name: "not checked, another's authority", host: "other.example", user: "encrypted", mode: "skip-verify", tls: source.TLS{CA: other.PEM}},
		{name: "preferred", host: "other.example", user: "encrypted", mode: "preferred"},
		{name: "default", host: "other.example", user: "encrypted"},
		{name: "off", host: "other.example", user: "plain", mode: "false", plain: true},
		{name: "off where demanded", host: "other.example", user: "encrypted", mode: "false", want: source.CategoryAuth},
		{name: "client's certificate", host: "db.example", user: "certified", mode: "true", tls: certified},
		{name: "client's certificate not checked", host: "x.example", user: "named", mode: "skip-verify", tls: certified},
		{name: "without client's certificate", host: "db.example", user: "certified", mode: "true", tls: private, want: source.CategoryAuth},
		{name: "another's certificate", host: "db.example", user: "certified", mode: "true", tls: source.TLS{CA: ca, Cert: otherCert, Key: otherKey}, want: source.CategoryTLS},
		{name: "junk for a key", host: "db.example", user: "certified", mode: "true", tls: source.TLS{CA: ca, Cert: ownCert, Key: "junk"}, want: source.CategoryTLS},
		{name: "unknown mode", host: "db.example", user: "plain", mode: "TRUE", want: source.CategoryTLS},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := f.params()
			p.Host, p.User, p.Password, p.TLS = c.host, f.Name+"_"+c.user, "p", c.tls
			p.TLS.Mode = c.mode
			s, err := New().Open(context.Background(), p, resolver{net.JoinHostPort(f.Host, portOf(f))})
			if c.want != "" {
				sourcetest.WantError(t, err, c.want, false)
				return
			}
			if err != nil {
				t.Fatal(sourcetest.Cause(err))
			}
			defer func() { _ = s.Close() }()
			begin(t, s)
			got := sourcetest.Read(t, s, sourcetest.Catalog(t, s, source.Scope{}), "cipher", []string{"*"})
			if want := map[bool]string{true: `{"encrypted":0}`, false: `{"encrypted":1}`}[c.plain]; len(got) != 1 || got[0] != want {
				t.Errorf("got %v, want %s", got, want)
			}
		})
	}
}

// TestTLSWhereThereIsNone connects to a server without.
func TestTLSWhereThereIsNone(t *testing.T) {
	t.Parallel()
	f := newFixtureOn(t, testkit.MySQLDialect(t))
	for mode, want := range map[string]source.Category{"preferred": "", "false": "", "true": source.CategoryTLS, "skip-verify": source.CategoryTLS} {
		p := f.params()
		p.TLS.Mode = mode
		s, err := New().Open(context.Background(), p, &net.Dialer{})
		if want != "" {
			sourcetest.WantError(t, err, want, false)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", mode, sourcetest.Cause(err))
			continue
		}
		_ = s.Close()
	}
}
