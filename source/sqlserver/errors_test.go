package sqlserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

// TestServerErrors gives statements errors before and behind rows. They never pass for an end.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number    int
		class     int
		category  source.Category
		transient bool
	}{
		{229, 14, source.CategoryRights, false}, {230, 14, source.CategoryRights, false}, {208, 16, source.CategoryObject, false}, {207, 16, source.CategoryObject, false},
		{1205, 13, source.CategoryOther, true}, {1222, 16, source.CategoryTimeout, true}, {3960, 16, source.CategoryOther, true}, {3961, 16, source.CategoryOther, true},
		{8114, 16, source.CategoryValue, false}, {8115, 16, source.CategoryValue, false}, {245, 16, source.CategoryValue, false}, {8134, 16, source.CategoryValue, false},
		{41332, 16, source.CategoryUnsupported, false}, {102, 15, source.CategoryUnsupported, false}, {596, 21, source.CategoryBroken, true},
		{99999, 16, source.CategoryOther, false}, {99999, 21, source.CategoryBroken, true},
	} {
		for _, rows := range []int{0, 3} {
			t.Run(fmt.Sprintf("%d of %d after %d", c.number, c.class, rows), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, numbersTable())
				answer := tds.Answer{Error: &tds.Error{Number: c.number, Class: c.class, Message: "secret 10.0.0.1"}}
				if rows > 0 {
					answer.Columns, answer.Rows = numbers3().Columns, numbers3().Rows
				}
				f.Handle(tds.Containing("FROM [dbo].[n]"), answer)
				s, catalog := f.begun()
				for _, filtered := range []bool{false, true} { // a batch, and a call
					var where []source.Condition
					if filtered {
						s, catalog = f.begun()
						where = append(where, source.Condition{Field: "id", Op: source.OpGt, Values: jsonValues(t, "0")})
					}
					seen := 0
					err := s.Stream(context.Background(), queryOf(t, catalog, "n", []string{"id"}, where...), func(source.Row) error {
						seen++
						return nil
					})
					if e := wantError(t, err, c.category, c.transient); e.Number != c.number {
						t.Errorf("number %d", e.Number)
					}
					if seen != rows {
						t.Errorf("%d rows", seen)
					}
				}
			})
		}
	}
}

// TestLoginErrors has servers refuse the login.
func TestLoginErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		change   func(*source.Params)
		category source.Category
		number   int
	}{
		"password":  {func(p *source.Params) { p.Password = "wrong" }, source.CategoryAuth, 18456},
		"user":      {func(p *source.Params) { p.User = "other" }, source.CategoryAuth, 18456},
		"database":  {func(p *source.Params) { p.Database = "other" }, source.CategoryDatabase, 4060},
		"no user":   {func(p *source.Params) { p.User = "" }, source.CategoryUnsupported, 0},
		"NUL":       {func(p *source.Params) { p.Password = "a\x00b" }, source.CategoryUnsupported, 0},
		"port":      {func(p *source.Params) { p.Port = 70000 }, source.CategoryUnsupported, 0},
		"kind":      {func(p *source.Params) { p.Kind = source.MySQL }, source.CategoryUnsupported, 0},
		"mode":      {func(p *source.Params) { p.TLS.Mode = "prefer" }, source.CategoryTLS, 0},
		"broken CA": {func(p *source.Params) { p.TLS = source.TLS{Mode: "true", CA: "x"} }, source.CategoryTLS, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := f.params()
			c.change(&p)
			_, err := New().Open(context.Background(), p, &net.Dialer{})
			if e := wantError(t, err, c.category, false); e.Number != c.number {
				t.Errorf("number %d", e.Number)
			}
		})
	}
}

// dialerFunc is a dialer.
type dialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// TestNetworkErrors has the network fail while a session opens.
func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	answering := func(answer string) source.Dialer {
		return dialerFunc(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer func() { _ = theirs.Close() }()
				_, _ = theirs.Read(make([]byte, 4096))
				_, _ = io.WriteString(theirs, answer)
			}()
			return ours, nil
		})
	}
	for name, c := range map[string]struct {
		dialer    source.Dialer
		category  source.Category
		transient bool
	}{
		"refused": {dialerFunc(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, closed.Addr().String())
		}), source.CategoryRefused, true},
		"not allowed": {dialerFunc(func(context.Context, string, string) (net.Conn, error) { return nil, dial.ErrNotAllowed }), source.CategoryNotAllowed, false},
		"no name":     {dialerFunc(func(context.Context, string, string) (net.Conn, error) { return nil, dial.ErrNameNotFound }), source.CategoryDNS, true},
		"hangs up":    {answering(""), source.CategoryRefused, true},
		"speaks HTTP": {answering("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), source.CategoryUnsupported, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := source.Params{Host: "db.example", Port: 1433, User: "u", Database: "d"}
			_, err := New().Open(context.Background(), p, c.dialer)
			wantError(t, err, c.category, c.transient)
		})
	}
}

// TestSilentServer gives up on one that accepts connections and says nothing.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, tds.Options{Silent: true})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := New().Open(ctx, f.params(), &net.Dialer{})
	wantError(t, err, source.CategoryTimeout, true)
	f.Wait(func() bool { return f.Open() == 0 })

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		f.Wait(func() bool { return f.Open() == 1 })
		stop()
	}()
	_, err = New().Open(ctx, f.params(), &net.Dialer{})
	wantError(t, err, source.CategoryOther, false)
	f.Wait(func() bool { return f.Open() == 0 })
}

// TestRouting follows a server that sends us on, if the dialer lets us, and asks nobody for the port of an instance.
func TestRouting(t *testing.T) {
	t.Parallel()
	second := newFixture(t)
	first := newFixtureWith(t, tds.Options{RouteHost: "second.example", RoutePort: second.Port()})
	var dialled []string
	allowed := true
	d := dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, network+" "+address)
		host, port, err := net.SplitHostPort(address)
		if host == "second.example" {
			if !allowed {
				return nil, dial.ErrNotAllowed
			}
			address = net.JoinHostPort(second.Host(), port)
		}
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	s, err := New().Open(context.Background(), first.params(), d)
	if err != nil {
		t.Fatal(cause(err))
	}
	if err = s.Ping(context.Background()); err != nil {
		t.Fatal(cause(err))
	}
	_ = s.Close()
	if len(second.Requests()) != 1 || len(first.Requests()) != 0 {
		t.Error("the first server was asked")
	}
	want := fmt.Sprintf("[tcp 127.0.0.1:%d tcp second.example:%d]", first.Port(), second.Port())
	if got := fmt.Sprint(dialled); got != want {
		t.Errorf("dialled %s, want %s", got, want)
	}
	allowed = false
	_, err = New().Open(context.Background(), first.params(), d)
	wantError(t, err, source.CategoryNotAllowed, false)

	dialled = nil
	instance := newFixtureWith(t, tds.Options{RouteHost: `127.0.0.1\SQLEXPRESS`})
	_, err = New().Open(context.Background(), instance.params(), d)
	if err == nil {
		t.Error("connected to an instance without a port")
	}
	if len(dialled) != 1 {
		t.Errorf("dialled %v", dialled)
	}
}
