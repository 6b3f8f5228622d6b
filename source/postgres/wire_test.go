package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// proxy passes on what the server sends until a number of bytes, and then cuts the connection or falls silent.
type proxy struct {
	listener net.Listener
	target   string
	limit    int64
	silent   bool
	served   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T, p *source.Params, limit int64, silent bool) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &proxy{listener: listener, target: net.JoinHostPort(p.Host, strconv.Itoa(p.Port)), limit: limit, silent: silent}
	p.Host, p.Port = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	x.served.Go(x.serve)
	t.Cleanup(x.close)
	return x
}

func (x *proxy) serve() {
	for {
		client, err := x.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", x.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		x.mu.Lock()
		x.conns = append(x.conns, client, server)
		x.mu.Unlock()
		x.served.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
		x.served.Go(func() {
			n, _ := io.CopyN(client, server, x.limit)
			if n == x.limit && x.silent {
				return
			}
			_ = client.Close()
		})
	}
}

func (x *proxy) close() {
	_ = x.listener.Close()
	x.mu.Lock()
	for _, c := range x.conns {
		_ = c.Close()
	}
	x.mu.Unlock()
	x.served.Wait()
}

// TestCutConnection cuts the connection at places from the greeting to the last byte: a short result is an error.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	const rows = 2000
	f := newFixture(t, `CREATE TABLE n AS SELECT g, repeat('x', 50) AS v FROM generate_series(1, `+strconv.Itoa(rows)+`) g`)
	s, catalog := f.begun()
	q := queryOf(t, catalog, "n", []string{"*"})
	_ = s.Close()
	outcomes := map[bool]int{}
	for limit := int64(100); limit < 170_000; limit += limit/7 + 97 {
		p := f.params()
		newProxy(t, &p, limit, false)
		got, err := streamAll(p, q)
		if err == nil && got != rows {
			t.Errorf("cut after %d bytes: %d rows and no error", limit, got)
		}
		if err != nil {
			var e *source.Error
			if !asSource(err, &e) || !e.Transient {
				t.Errorf("cut after %d bytes: not transient: %v", limit, cause(err))
			}
		}
		outcomes[err == nil]++
	}
	if outcomes[true] == 0 || outcomes[false] < 20 {
		t.Errorf("the cuts did not hit: %v", outcomes)
	}
}

func streamAll(p source.Params, q source.Query) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := New().Open(ctx, p, dialer())
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	if _, err = s.Begin(ctx, time.Now().Add(20*time.Second)); err != nil {
		return 0, err
	}
	rows := 0
	err = s.Stream(ctx, q, func(source.Row) error { rows++; return nil })
	return rows, err
}

// generous is what a busy machine may add to a limit. Without the limit the calls would never return.
const generous = 20 * time.Second

// TestServerFallsSilent abandons a server that stops answering, when connecting and in the middle of a result.
func TestServerFallsSilent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE TABLE n AS SELECT g, repeat('x', 500) AS v FROM generate_series(1, 100000) g`)
	s, catalog := f.begun()
	q := queryOf(t, catalog, "n", []string{"*"})
	_ = s.Close()
	for _, mode := range []string{"disable", "prefer", "require"} {
		p := f.params()
		p.TLS.Mode = mode
		newProxy(t, &p, 0, true)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		start := time.Now()
		_, err := New().Open(ctx, p, dialer())
		wantError(t, err, source.CategoryTimeout, true)
		if took := time.Since(start); took > generous {
			t.Errorf("%s: open took %v", mode, took)
		}
		cancel()
	}
	p := f.params()
	newProxy(t, &p, 1_000_000, true)
	s = openWith(t, p, dialer())
	begin(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := s.Stream(ctx, q, func(source.Row) error { return nil })
	wantError(t, err, source.CategoryTimeout, true)
	if took := time.Since(start); took > generous {
		t.Errorf("stream took %v", took)
	}
	start = time.Now()
	_ = s.Close()
	if took := time.Since(start); took > closeGrace+generous {
		t.Errorf("close took %v", took)
	}
}

// TestOpenFails sorts what can go wrong before there is a session.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	guard, err := dial.NewGuard(dial.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	private, err := dial.NewGuard(dial.Policy{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name      string
		change    func(*source.Params)
		dialer    source.Dialer
		category  source.Category
		transient bool
	}{
		{"password", func(p *source.Params) { p.Password = "wrong" }, private, source.CategoryAuth, false},
		{"user", func(p *source.Params) { p.User = "nobody_here" }, private, source.CategoryAuth, false},
		{"database", func(p *source.Params) { p.Database = "none_such" }, private, source.CategoryDatabase, false},
		{"not ours", func(p *source.Params) { p.Database = "template0" }, private, source.CategoryDatabase, false},
		{"refused", func(p *source.Params) { p.Port = closed.Addr().(*net.TCPAddr).Port }, private, source.CategoryRefused, true},
		{"name", func(p *source.Params) { p.Host = "no-such-name.invalid" }, private, source.CategoryDNS, true},
		{"guarded", func(*source.Params) {}, guard, source.CategoryNotAllowed, false},
		{"tls", func(p *source.Params) { p.TLS.Mode = "require" }, private, source.CategoryTLS, false},
		{"mode", func(p *source.Params) { p.TLS.Mode = "sometimes" }, private, source.CategoryTLS, false},
		{"CA", func(p *source.Params) { p.TLS = source.TLS{Mode: "verify-ca", CA: "junk"} }, private, source.CategoryTLS, false},
		{"key", func(p *source.Params) { p.TLS = source.TLS{Mode: "require", Cert: "junk", Key: "junk"} }, private, source.CategoryTLS, false},
		{"NUL", func(p *source.Params) { p.User = "a\x00b" }, private, source.CategoryUnsupported, false},
		{"port", func(p *source.Params) { p.Port = 70000 }, private, source.CategoryUnsupported, false},
		{"kind", func(p *source.Params) { p.Kind = source.MySQL }, private, source.CategoryUnsupported, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := f.params()
			c.change(&p)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := New().Open(ctx, p, c.dialer)
			wantError(t, err, c.category, c.transient)
		})
	}
}

// namesOnly refuses addresses, as a guard does whose list has names.
type namesOnly struct {
	name, address string
	mu            sync.Mutex
	dialled       []string
}

func (d *namesOnly) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	d.dialled = append(d.dialled, address)
	d.mu.Unlock()
	if address != d.name {
		return nil, dial.ErrNotAllowed
	}
	return (&net.Dialer{}).DialContext(ctx, network, d.address)
}

// TestCancelByName cancels through a guard that knows the server by its name only.
func TestCancelByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE VIEW sleeps AS SELECT pg_sleep(600)::text AS v`)
	p := f.params()
	d := &namesOnly{name: "db.example:5432", address: net.JoinHostPort(p.Host, strconv.Itoa(p.Port))}
	p.Host, p.Port = "db.example", 5432
	s := openWith(t, p, d)
	begin(t, s)
	catalog := catalogOf(t, s, source.Scope{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for conn := f.connect(); statements(t, conn) == 0; {
			time.Sleep(time.Millisecond)
		}
	}()
	err := s.Stream(ctx, queryOf(t, catalog, "sleeps", []string{"v"}), func(source.Row) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(cause(err))
	}
	_ = s.Close()
	f.awaitNoStatement()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.dialled) < 3 || d.dialled[1] == d.name {
		t.Errorf("dialled %q", d.dialled)
	}
}
