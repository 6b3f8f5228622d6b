package mongodb

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestOpenFails names why a session does not come about, without waiting for the time to be up where it is clear.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	script := newScript(t, standalone(), listing(nil))
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	go func() { // somebody who speaks another protocol
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
			_, _ = io.Copy(io.Discard, conn) // or closing would reset what is on its way
			_ = conn.Close()
		}
	}()
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	for name, c := range map[string]struct {
		change    func(*source.Params)
		dialer    source.Dialer
		want      source.Category
		transient bool
	}{
		"wrong password": {func(p *source.Params) { p.Password = "wrong" }, nil, source.CategoryAuth, false},
		"unknown user":   {func(p *source.Params) { p.User = "nobody" }, nil, source.CategoryAuth, false},
		"other authSource": {func(p *source.Params) {
			p.Options = map[string]string{"authSource": "elsewhere"}
		}, nil, source.CategoryAuth, false},
		"wrong password, scripted": {func(p *source.Params) { *p = script.params(); p.Password = "wrong" }, nil, source.CategoryAuth, false},
		"closed port":              {func(p *source.Params) { p.Port = port(closed) }, nil, source.CategoryRefused, true},
		"no such name":             {func(p *source.Params) { p.Host = "no-such-host.invalid" }, unknownNames{}, source.CategoryDNS, true},
		"not allowed":              {func(*source.Params) {}, &guarded{}, source.CategoryNotAllowed, false},
		"other protocol":           {func(p *source.Params) { p.Port = port(other) }, nil, source.CategoryUnsupported, false},
		"other replica set":        {func(p *source.Params) { p.Options = map[string]string{"replicaSet": "other", "authSource": "admin"} }, nil, source.CategoryUnsupported, false},
		"TLS to a server without":  {func(p *source.Params) { p.TLS.Mode = "enable" }, nil, source.CategoryTLS, false},
		"unknown mode":             {func(p *source.Params) { p.TLS.Mode = "strict" }, nil, source.CategoryTLS, false},
		"bad CA":                   {func(p *source.Params) { p.TLS = source.TLS{Mode: "true", CA: "none"} }, nil, source.CategoryTLS, false},
		"other kind":               {func(p *source.Params) { p.Kind = source.MySQL }, nil, source.CategoryUnsupported, false},
		"bad database":             {func(p *source.Params) { p.Database = "a.b" }, nil, source.CategoryUnsupported, false},
		"NUL":                      {func(p *source.Params) { p.User = "a\x00" }, nil, source.CategoryUnsupported, false},
		"no user":                  {func(p *source.Params) { p.User = "" }, nil, source.CategoryUnsupported, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := f.params()
			c.change(&p)
			d := c.dialer
			if d == nil {
				d = &net.Dialer{}
			}
			s, err := New().Open(context.Background(), p, d) // without a limit: each of them ends by itself
			if err == nil {
				_ = s.Close()
			}
			sourcetest.WantError(t, err, c.want, c.transient)
		})
	}
}

// unknownNames knows none.
type unknownNames struct{}

func (unknownNames) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, dial.ErrNameNotFound
}

// TestLogin takes any letters in names and passwords, and a cancelled context for what it is.
func TestLogin(t *testing.T) {
	t.Parallel()
	server := newScript(t, standalone(), listing(nil))
	p := server.params()
	s := sourcetest.Open(t, New(), p)
	if err := s.Ping(context.Background()); err != nil {
		t.Error(sourcetest.Cause(err))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Ping(context.Background()); err == nil {
		t.Error("ping after close")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := New().Open(ctx, p, &net.Dialer{})
	sourcetest.WantError(t, err, source.CategoryOther, false)
}

// TestBegin needs one, once, with time left.
func TestBegin(t *testing.T) {
	t.Parallel()
	server := newScript(t, standalone(), listing(nil))
	s := sourcetest.Open(t, New(), server.params())
	catalog := sourcetest.Catalog(t, s, source.Scope{})
	if err := streamAll(t, s, catalog, "a"); err == nil {
		t.Error("read without a snapshot")
	}
	_, err := s.Begin(context.Background(), time.Now().Add(-time.Second))
	sourcetest.WantError(t, err, source.CategoryTimeout, true)
	if _, err = s.Begin(context.Background(), time.Now().Add(time.Minute)); err != nil {
		t.Error(sourcetest.Cause(err))
	}
	_, err = s.Begin(context.Background(), time.Now().Add(time.Minute))
	sourcetest.WantError(t, err, source.CategoryOther, false)
}

// anywhere dials one address, whatever the name.
type anywhere string

func (a anywhere) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, string(a))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := testkit.NewAuthority(t, "ours"), testkit.NewAuthority(t, "another")
	cert, key := ca.Issue(t, "db.example", "db.example")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := testkit.MongoTLS{Cert: file("cert.pem", cert), Key: file("key.pem", key)}
	plain := testkit.NewMongoDBTLS(t, files)
	files.ClientCA = file("ca.pem", ca.PEM)
	strict := testkit.NewMongoDBTLS(t, files)
	clientCert, clientKey := ca.Issue(t, "a client")
	strangerCert, strangerKey := other.Issue(t, "a client")
	for _, c := range []struct {
		name   string
		server *testkit.MongoServer
		host   string
		tls    source.TLS
		want   source.Category // "": it works
	}{
		{"enable", plain, "", source.TLS{Mode: "enable", CA: ca.PEM}, ""},
		{"true", plain, "", source.TLS{Mode: "true", CA: ca.PEM}, ""},
		{"wrong host", plain, "other.example", source.TLS{Mode: "true", CA: ca.PEM}, source.CategoryTLS},
		{"wrong CA", plain, "", source.TLS{Mode: "true", CA: other.PEM}, source.CategoryTLS},
		{"system roots", plain, "", source.TLS{Mode: "true"}, source.CategoryTLS},
		{"insecure", plain, "other.example", source.TLS{Mode: "insecure"}, ""},
		{"insecure with another CA", plain, "", source.TLS{Mode: "insecure", CA: other.PEM}, ""},
		{"in clear", plain, "", source.TLS{}, source.CategoryRefused},
		{"client certificate", strict, "", source.TLS{Mode: "true", CA: ca.PEM, Cert: clientCert, Key: clientKey}, ""},
		{"no client certificate", strict, "", source.TLS{Mode: "true", CA: ca.PEM}, source.CategoryTLS},
		{"stranger's certificate", strict, "", source.TLS{Mode: "true", CA: ca.PEM, Cert: strangerCert, Key: strangerKey}, source.CategoryTLS},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := source.Params{
				Kind: source.MongoDB, Host: "db.example", Port: c.server.Port, Database: "d", User: c.server.User, Password: c.server.Password,
				Options: c.server.Options, TLS: c.tls,
			}
			if c.host != "" {
				p.Host = c.host
			}
			s, err := New().Open(context.Background(), p, anywhere(net.JoinHostPort(c.server.Host, strconv.Itoa(c.server.Port))))
			if c.want != "" {
				e := new(source.Error)
				if errors.As(err, &e) && e.Category != c.want {
					t.Errorf("want %s, got %s: %v", c.want, e.Category, e.Err)
				} else if err == nil {
					_ = s.Close()
					t.Error("opened")
				}
				return
			}
			if err != nil {
				t.Fatal(sourcetest.Cause(err))
			}
			if err := s.Ping(context.Background()); err != nil {
				t.Error(sourcetest.Cause(err))
			}
			_ = s.Close()
		})
	}
}
