package connections_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

// peer is a real source database with two schemas, and a tenant whose connections point at it.
type peer struct {
	testkit.Database

	rows store.Connections
	keys *secret.Keyring
	s    *connections.Service
}

func newPeer(t *testing.T, opts connections.Options) peer {
	t.Helper()
	pg := testkit.Postgres(t)
	p := peer{Database: pg.CreateDatabase(t, testkit.DatabaseOptions{})}
	db := openDB(t, p.DSN)
	for _, statement := range []string{
		`CREATE TABLE orders (id bigint PRIMARY KEY, total numeric)`, `CREATE VIEW big AS SELECT id FROM orders`,
		`CREATE SCHEMA sales`, `CREATE TABLE sales.leads (name text)`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	_, p.rows = database(t)
	if opts.Drivers == nil {
		opts.Drivers = source.Drivers{source.PostgreSQL: postgres.New()}
	}
	if opts.Keys == nil {
		opts.Keys = keyring(t)
	}
	p.keys = opts.Keys
	p.s = service(t, opts, "127.0.0.0/8", "::1", ".invalid")
	return p
}

// connection stores a connection to the peer, changed by the given functions.
func (p peer) connection(t *testing.T, change ...func(*connections.Input)) *store.Connection {
	t.Helper()
	in := input(func(in *connections.Input) {
		in.ConfigName = new(fmt.Sprintf("c%d", time.Now().UnixNano()))
		in.Host, in.Port, in.DatabaseName = &p.Host, &p.Port, &p.Name
		in.UserName, in.Password = &p.Owner, &p.Password
	})
	for _, f := range change {
		f(&in)
	}
	c, err := p.s.Create(t.Context(), p.rows, tenant, product, in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refusal is a FET-1040 of the category.
func refusal(c source.Category) string {
	return string(problem.SourceUnreachable) + " the connection failed: " + string(c)
}

func told(t *testing.T, err error, hidden ...string) string {
	t.Helper()
	var p *problem.Error
	if !errors.As(err, &p) {
		return fmt.Sprint(err)
	}
	for _, h := range append(hidden, "127.0.0.1") {
		if strings.Contains(p.Detail, h) || strings.Contains(fmt.Sprint(p.Fields), h) || strings.Contains(p.Error(), h) {
			t.Errorf("%q shows in %v", h, p)
		}
	}
	return string(p.Code) + " " + p.Detail
}

func TestTestOnRealServer(t *testing.T) {
	t.Parallel()
	p := newPeer(t, connections.Options{TestTimeout: 2 * time.Second})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err = closed.Close(); err != nil {
		t.Fatal(err)
	}
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

	took, err := p.s.Test(t.Context(), tenant, p.connection(t))
	if err != nil {
		t.Fatal(err)
	}
	if took <= 0 || took > 10*time.Second {
		t.Errorf("latency %v", took)
	}
	for name, c := range map[string]struct {
		change func(*connections.Input)
		want   source.Category
	}{
		"wrong password": {set("password", canary), source.CategoryAuth},
		"unknown user":   {set("userName", "nobody_"+canary), source.CategoryAuth},
		"no database":    {set("databaseName", "none_"+canary), source.CategoryDatabase},
		"closed port":    {set("port", port(closed)), source.CategoryRefused},
		"silent server":  {set("port", port(silent)), source.CategoryTimeout},
		"unknown name":   {set("host", "no-such-host.invalid"), source.CategoryDNS},
		"no TLS there": {
			func(in *connections.Input) { in.SSL = &connections.SSLInput{Mode: new("require")} }, source.CategoryTLS,
		},
		"no driver": {set("type", "MONGODB"), source.CategoryUnsupported},
	} {
		c2 := p.connection(t, c.change)
		start := time.Now()
		_, err := p.s.Test(t.Context(), tenant, c2)
		got := told(t, err, canary, "no-such-host", p.Owner, p.Password)
		// Where look-ups hang, "dns" may be "timeout": no name server answers everywhere tests run.
		if name == "unknown name" && got == refusal(source.CategoryTimeout) {
			got = refusal(source.CategoryDNS)
		}
		if diff := cmp.Diff(refusal(c.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if time.Since(start) > 4*time.Second {
			t.Errorf("%s took %v", name, time.Since(start))
		}
	}
}

func TestSchemaOnRealServer(t *testing.T) {
	t.Parallel()
	p := newPeer(t, connections.Options{})
	for name, c := range map[string]struct {
		change func(*connections.Input)
		want   []string
	}{
		"whole database": {func(*connections.Input) {}, []string{"big: id", "orders: id total", "sales.leads: name"}},
		"one schema":     {set("schema", "sales"), []string{"leads: name"}},
	} {
		catalog, err := p.s.Schema(t.Context(), tenant, p.connection(t, c.change))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := make([]string, 0, len(catalog.Tables))
		for _, table := range catalog.Tables {
			line := table.Name + ":"
			for _, column := range table.Columns {
				line += " " + column.Name
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err := p.s.Schema(t.Context(), tenant, p.connection(t, set("password", canary)))
	if diff := cmp.Diff(refusal(source.CategoryAuth), told(t, err, canary)); diff != "" {
		t.Error(diff)
	}
	_, err = p.s.Schema(t.Context(), tenant, p.connection(t, set("type", "ORACLE")))
	if diff := cmp.Diff(refusal(source.CategoryUnsupported), told(t, err)); diff != "" {
		t.Error(diff)
	}
}

// A row stored before the policy changed, and a name whose answers it forbids: neither is dialled.
func TestHostIsJudgedAtUse(t *testing.T) {
	t.Parallel()
	p := newPeer(t, connections.Options{})
	keys := keyring(t)
	for name, c := range map[string]struct {
		host    string
		answers []netip.Addr
	}{
		"literal":       {p.Host, nil},
		"name":          {"db.example.com", []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		"mixed answers": {"db.example.com", []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")}},
		"local name":    {"localhost", nil},
	} {
		guard, err := dial.NewGuard(dial.Policy{}, dial.WithResolver(resolver(c.answers)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := connections.New(connections.Options{
			Keys: keys, Guard: guard, Drivers: source.Drivers{source.PostgreSQL: postgres.New()},
		})
		if err != nil {
			t.Fatal(err)
		}
		allowed, err := dial.NewGuard(dial.Policy{AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		before, err := connections.New(connections.Options{Keys: keys, Guard: allowed})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := before.Create(t.Context(), p.rows, tenant, product, input(
			set("configName", "at-use-"+strings.ReplaceAll(name, " ", "-")), set("host", c.host), set("port", p.Port),
		))
		if err != nil {
			t.Fatal(err)
		}
		const want = "FET-0414 the host is not allowed"
		_, err = s.Test(t.Context(), tenant, stored)
		if diff := cmp.Diff(want, told(t, err, "example.com", "localhost")); diff != "" {
			t.Errorf("%s, test (-want +got):\n%s", name, diff)
		}
		_, err = s.Schema(t.Context(), tenant, stored)
		if diff := cmp.Diff(want, told(t, err, "example.com", "localhost")); diff != "" {
			t.Errorf("%s, schema (-want +got):\n%s", name, diff)
		}
	}
}

type resolver []netip.Addr

func (r resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return r, nil }

// scripted is a driver whose sessions fail as told.
type scripted struct{ open, ping, catalog error }

func (d scripted) Open(ctx context.Context, _ source.Params, _ source.Dialer) (source.Session, error) {
	if errors.Is(d.open, context.DeadlineExceeded) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if d.open != nil {
		return nil, d.open
	}
	return &scriptedSession{script: d}, nil
}

type scriptedSession struct {
	source.Session

	script scripted
}

func (s *scriptedSession) Ping(context.Context) error { return s.script.ping }
func (s *scriptedSession) Close() error               { return errors.New(canary) }
func (s *scriptedSession) Catalog(context.Context, source.Scope) (*source.Catalog, error) {
	return &source.Catalog{}, s.script.catalog
}

func TestCategories(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	failed := func(c source.Category) error { return &source.Error{Category: c, Err: errors.New(canary)} }
	quoted := fmt.Errorf("%s: %w", canary, &net.OpError{Op: "dial", Err: timeout{}})
	for i, c := range []struct {
		err  error
		want string
	}{
		{failed(source.CategoryDNS), refusal("dns")},
		{failed(source.CategoryRefused), refusal("refused")},
		{failed(source.CategoryTimeout), refusal("timeout")},
		{failed(source.CategoryTLS), refusal("tls")},
		{failed(source.CategoryAuth), refusal("auth")},
		{failed(source.CategoryDatabase), refusal("database")},
		{failed(source.CategoryUnsupported), refusal("unsupported")},
		{failed(source.CategoryRights), refusal("database")},
		{failed(source.CategoryObject), refusal("database")},
		{failed(source.CategoryBroken), refusal("refused")},
		{failed(source.CategoryOther), refusal("database")},
		{failed(source.CategoryNotAllowed), "FET-0414 the host is not allowed"},
		{&source.Error{Category: source.CategoryOther, Err: dial.ErrNotAllowed}, "FET-0414 the host is not allowed"},
		{&source.Error{Category: source.CategoryOther, Err: context.Canceled}, refusal("timeout")},
		{dial.ErrNameNotFound, refusal("dns")},
		{context.DeadlineExceeded, refusal("timeout")},
		{&source.Error{Category: source.CategoryTimeout, Err: quoted}, refusal("timeout")},
		{problem.New(problem.RateLimited, "slow down"), "FET-0008 slow down"},
	} {
		for stage, d := range map[string]scripted{"open": {open: c.err}, "ping": {ping: c.err}, "catalog": {catalog: c.err}} {
			s := service(t, connections.Options{
				Drivers: source.Drivers{source.PostgreSQL: d}, TestTimeout: 20 * time.Millisecond, SchemaTimeout: 20 * time.Millisecond,
			})
			stored, err := s.Create(t.Context(), rows, tenant, product, input(set("configName", fmt.Sprintf("cat-%d-%s", i, stage))))
			if err != nil {
				t.Fatal(err)
			}
			if stage == "catalog" {
				_, err = s.Schema(t.Context(), tenant, stored)
			} else {
				_, err = s.Test(t.Context(), tenant, stored)
			}
			if diff := cmp.Diff(c.want, told(t, err, canary)); diff != "" {
				t.Errorf("%v at %s (-want +got):\n%s", c.err, stage, diff)
			}
		}
	}
	for err, want := range map[error]string{
		errors.New("anything"): refusal("database"), fmt.Errorf("x: %w", timeout{}): refusal("timeout"),
	} {
		p := connections.Unreachable(err)
		if got := string(p.Code) + " " + p.Detail; got != want {
			t.Errorf("%v gives %s", err, got)
		}
	}
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestUnreadableSecretsAreOurFault(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	drivers := source.Drivers{source.PostgreSQL: scripted{}}
	s := service(t, connections.Options{Drivers: drivers})
	stored, err := s.Create(t.Context(), rows, tenant, product, input())
	if err != nil {
		t.Fatal(err)
	}
	_, err = service(t, connections.Options{Drivers: drivers}).Test(t.Context(), tenant, stored) // another key ring
	if got := problem.CodeOf(err); got != problem.Internal {
		t.Errorf("answered %s: %v", got, err)
	}
	if _, err = s.Test(t.Context(), "globex", stored); problem.CodeOf(err) != problem.Internal {
		t.Errorf("another tenant's row: %v", err)
	}
}

// Forbidding unencrypted connections also holds for those that were stored before.
func TestStoredModeMustEncrypt(t *testing.T) {
	t.Parallel()
	p := newPeer(t, connections.Options{})
	opts := connections.Options{Keys: p.keys, Drivers: source.Drivers{source.PostgreSQL: postgres.New()}, RequireTLS: true}
	strict := service(t, opts, "127.0.0.0/8", "::1")
	const refused = string(problem.SSLModeInvalid) + " the connection's TLS mode may leave it unencrypted, which is not allowed here"
	for name, tt := range map[string]struct {
		mode *string
		want string
	}{
		"none":    {nil, refused},
		"disable": {new("disable"), refused},
		"prefer":  {new("prefer"), refused},
		"require": {new("require"), refusal(source.CategoryTLS)}, // the server has no certificate
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := p.connection(t, func(in *connections.Input) {
				in.ConfigName = new("mode-" + name)
				if tt.mode != nil {
					in.SSL = &connections.SSLInput{Mode: tt.mode}
				}
			})
			if _, err := strict.Test(t.Context(), tenant, c); told(t, err) != tt.want {
				t.Errorf("test: %v, want %s", err, tt.want)
			}
			if _, err := strict.Schema(t.Context(), tenant, c); told(t, err) != tt.want {
				t.Errorf("schema: %v, want %s", err, tt.want)
			}
			if tt.mode == nil || *tt.mode != "require" {
				if _, err := p.s.Test(t.Context(), tenant, c); err != nil {
					t.Errorf("where it is allowed: %v", err)
				}
			}
		})
	}
}
